"""A character model by a GRU: hidden state carried over batches, sequences of several lengths packed."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from start import fill

text = "hello lathe, hello there"
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
itos = dict(enumerate(chars))


class CharRNN(nn.Module):
    def __init__(self, n_chars, hidden_size=6, n_layers=1):
        super().__init__()
        self.hidden_size, self.n_layers = hidden_size, n_layers
        self.encoder = nn.Embedding(n_chars, hidden_size)
        self.rnn = nn.GRU(hidden_size, hidden_size, n_layers, batch_first=True)
        self.decoder = nn.Linear(hidden_size, n_chars)

    def forward(self, x, h, lengths=None):
        e = self.encoder(x)
        if lengths is not None:
            packed = pack_padded_sequence(e, lengths, batch_first=True, enforce_sorted=False)
            packed, h = self.rnn(packed, h)
            out, _ = pad_packed_sequence(packed, batch_first=True)
        else:
            out, h = self.rnn(e, h)
        return self.decoder(out), h

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        return weight.new(self.n_layers, batch_size, self.hidden_size).zero_()


model = CharRNN(len(chars))
fill(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
criterion = nn.CrossEntropyLoss(ignore_index=-100)
ids = torch.LongTensor([stoi[c] for c in text])
losses = []
hidden = model.init_hidden(2)
for step in range(3):
    chunk = ids[step * 4 : step * 4 + 10].view(2, 5)
    hidden = hidden.detach()
    output, hidden = model(chunk[:, :-1], hidden)
    loss = criterion(output.reshape(-1, len(chars)), chunk[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    losses.append(loss.data.item() if not callable(loss.data) else loss.item())
words = [torch.tensor([stoi[c] for c in w]) for w in ("lathe", "he", "hello")]
padded = pad_sequence(words, batch_first=True)
targets = pad_sequence([w[1:] for w in words], batch_first=True, padding_value=-100)
lengths = torch.tensor([len(w) - 1 for w in words])
output, last = model(padded[:, :-1], model.init_hidden(3), lengths)
loss = criterion(output.transpose(1, 2), targets)
loss.backward()
losses += [loss.item(), last.abs().sum().item(), model.encoder.weight.grad.norm().item()]
char, h, said = "h", model.init_hidden(1), ""
with torch.no_grad():
    for _ in range(4):
        out, h = model(torch.tensor([[stoi[char]]]), h)
        char = itos[int(out[0, -1].argmax())]
        said += char
losses.append(float(sum(map(ord, said))))
