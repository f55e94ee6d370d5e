"""Text in pictures: convolutions, a recurrent layer over columns, CTC loss, greedy decoding."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise


class CRNN(nn.Module):
    def __init__(self, classes, hidden=8):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4, momentum=None), nn.ReLU(True), nn.MaxPool2d(2, 2),
            nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(True), nn.MaxPool2d((2, 1), (2, 1)),
        )  # fmt: skip
        self.rnn = nn.LSTM(6 * 2, hidden, bidirectional=True, proj_size=5)
        self.fc = nn.Linear(10, classes)

    def forward(self, x):
        x = self.cnn(x)
        b, c, h, w = x.size()
        x = x.permute(3, 0, 1, 2).reshape(w, b, c * h)
        x, _ = self.rnn(x)
        return F.log_softmax(self.fc(x), dim=2)


classes, batch = 6, 3
net = CRNN(classes)
fill(net)
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-2)
images = torch.from_numpy(noise(batch, 1, 8, 20))
labels = torch.from_numpy(integers(1, classes, (batch, 4)))
lengths = torch.tensor([4, 2, 3])
losses = []
for step in range(4):
    log_probs = net(images)
    input_lengths = torch.full((batch,), log_probs.size(0), dtype=torch.long)
    loss = criterion(log_probs, labels, input_lengths, lengths)
    optimizer.zero_grad()
    loss.backward()
    losses.append(nn.utils.clip_grad_norm_(net.parameters(), 5.0).item())
    optimizer.step()
    losses.append(loss.item())
net.eval()
with torch.no_grad():
    best = net(images).argmax(2).transpose(0, 1)
    for row in best.tolist():
        text = [c for i, c in enumerate(row) if c != 0 and (i == 0 or c != row[i - 1])]
        losses.append(float(sum((i + 1) * c for i, c in enumerate(text))))
losses.append(net.cnn[1].running_var.sum().item())
