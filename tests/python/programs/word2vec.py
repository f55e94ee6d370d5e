"""Skip-grams with negative samples."""

from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers

corpus = "the quick brown fox jumps over the lazy dog and the quick cat sleeps".split()
vocab = {w: i for i, (w, _) in enumerate(Counter(corpus).most_common())}
ids = [vocab[w] for w in corpus]


class SkipGram(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.u_embeddings = nn.Embedding(vocab_size, dim)
        self.v_embeddings = nn.Embedding(vocab_size, dim)
        initrange = 1.0 / dim
        nn.init.uniform_(self.u_embeddings.weight.data, -initrange, initrange)
        nn.init.constant_(self.v_embeddings.weight.data, 0)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u, emb_v, emb_neg_v = self.u_embeddings(pos_u), self.v_embeddings(pos_v), self.v_embeddings(neg_v)
        score = torch.sum(torch.mul(emb_u, emb_v), dim=1)
        score = -F.logsigmoid(torch.clamp(score, max=10, min=-10))
        neg_score = torch.bmm(emb_neg_v, emb_u.unsqueeze(2)).squeeze()
        neg_score = -torch.sum(F.logsigmoid(-torch.clamp(neg_score, max=10, min=-10)), dim=1)
        return torch.mean(score + neg_score)


pairs = [(ids[i], ids[j]) for i in range(len(ids)) for j in range(max(0, i - 2), min(len(ids), i + 3)) if i != j]
model = SkipGram(len(vocab), 5)
fill(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=3)
losses = []
for start in range(0, 24, 8):
    batch = pairs[start : start + 8]
    pos_u, pos_v = (torch.LongTensor(column) for column in zip(*batch))
    neg_v = torch.LongTensor(integers(0, len(vocab), (8, 3)))
    optimizer.zero_grad()
    loss = model(pos_u, pos_v, neg_v)
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
weights = model.u_embeddings.weight.detach()
query = weights[vocab["quick"]]
similar = F.cosine_similarity(query.unsqueeze(0), weights, dim=1)
best = torch.argsort(similar, descending=True)[:3]
losses += [float(i) for i in best] + similar.tolist()
