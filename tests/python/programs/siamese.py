"""Twin nets: a contrastive loss of one's own, triplets, early stopping, and a file between two runs."""

import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from start import fill, noise


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn1 = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(1, 2, kernel_size=3),
            nn.ReLU(inplace=True),
            nn.BatchNorm2d(2),
            nn.Dropout2d(p=0.0),
            nn.MaxPool2d(kernel_size=2, stride=2),
        )
        self.fc1 = nn.Sequential(nn.Linear(2 * 3 * 3, 8), nn.PReLU(), nn.Linear(8, 3))

    def forward_once(self, x):
        output = self.cnn1(x)
        return self.fc1(output.view(output.size()[0], -1))

    def forward(self, input1, input2):
        return self.forward_once(input1), self.forward_once(input2)


class ContrastiveLoss(torch.nn.Module):
    def __init__(self, margin=2.0):
        super(ContrastiveLoss, self).__init__()
        self.margin = margin

    def forward(self, output1, output2, label):
        distance = F.pairwise_distance(output1, output2, keepdim=True)
        return torch.mean((1 - label) * torch.pow(distance, 2) + label * torch.pow(torch.clamp(self.margin - distance, min=0.0), 2))


a, b = torch.from_numpy(noise(6, 1, 6, 6)), torch.from_numpy(noise(6, 1, 6, 6))
same = (torch.arange(6) % 2).float().reshape(-1, 1)
loader = DataLoader(TensorDataset(a, b, same), batch_size=3)
net = SiameseNetwork()
fill(net)
criterion, triplet = ContrastiveLoss(), nn.TripletMarginLoss(margin=1.0, p=2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
losses = []
for epoch in range(2):
    for i, (x0, x1, label) in enumerate(loader, 0):
        optimizer.zero_grad()
        out1, out2 = net(x0, x1)
        loss = criterion(out1, out2, label) + triplet(out1, out2, net.forward_once(x0.flip([2, 3])))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
torch.save({"epoch": epoch, "model": net.state_dict(), "optimizer": optimizer.state_dict(), "loss": losses[-1]}, path)
net2 = SiameseNetwork()
optimizer2 = torch.optim.SGD(net2.parameters(), lr=0.01, momentum=0.9, nesterov=True)
checkpoint = torch.load(path)
net2.load_state_dict(checkpoint["model"])
optimizer2.load_state_dict(checkpoint["optimizer"])
assert checkpoint["epoch"] == 1 and optimizer2.param_groups[0]["lr"] == 0.05
for n, o in ((net, optimizer), (net2, optimizer2)):
    out1, out2 = n(a, b)
    loss = criterion(out1, out2, same)
    o.zero_grad()
    loss.backward()
    o.step()
    losses += [loss.item(), n.fc1[0].weight.sum().item()]
net2.eval()
losses.append(F.pairwise_distance(*net2(a[:1], b[:1])).item())
