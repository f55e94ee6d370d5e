"""Beam search over a small recurrent decoder: scores, back pointers, finished beams."""

import torch
import torch.nn as nn
from start import fill

VOCAB, BEAM, END = 7, 3, 0


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 8)
        self.cell = nn.GRUCell(8, 12)
        self.out = nn.Linear(12, VOCAB)

    def forward(self, token, hidden):
        hidden = self.cell(self.embed(token), hidden)
        return self.out(hidden).log_softmax(dim=-1), hidden


decoder = Decoder().eval()
fill(decoder)
for p in decoder.parameters():
    p.data.mul_(3.0)
losses = []
with torch.no_grad():
    hidden = torch.zeros(BEAM, 12)
    tokens = torch.full((BEAM, 1), 1, dtype=torch.long)
    scores = torch.tensor([0.0] + [float("-inf")] * (BEAM - 1))
    done = torch.zeros(BEAM, dtype=torch.bool)
    for step in range(6):
        logp, hidden = decoder(tokens[:, -1], hidden)
        logp[done] = float("-inf")
        logp[done, END] = 0.0
        total = (scores.unsqueeze(1) + logp).view(-1)
        scores, flat = total.topk(BEAM)
        beam, token = torch.div(flat, VOCAB, rounding_mode="floor"), flat % VOCAB
        tokens = torch.cat([tokens[beam], token.unsqueeze(1)], dim=1)
        hidden, done = hidden[beam], done[beam] | (token == END)
        losses += scores.tolist() + token.float().tolist()
        if done.all():
            break
length = (tokens != END).sum(1).float()
losses += (scores / length**0.7).sort(descending=True).values.tolist()
