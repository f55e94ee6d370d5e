"""A graph net with a dense adjacency matrix, trained on part of the nodes."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter
from start import fill, integers, noise


class GraphConvolution(Module):
    def __init__(self, in_features, out_features, bias=True):
        super(GraphConvolution, self).__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        output = torch.mm(adj, torch.mm(input, self.weight))
        return output + self.bias if self.bias is not None else output

    def __repr__(self):
        return self.__class__.__name__ + " (" + str(self.in_features) + " -> " + str(self.out_features) + ")"


class GraphAttention(Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.W = Parameter(torch.empty(size=(fin, fout)))
        torch.nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = Parameter(torch.empty(size=(2 * fout, 1)))
        torch.nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.fout = fout

    def forward(self, h, adj):
        Wh = torch.mm(h, self.W)
        e = F.leaky_relu(torch.matmul(Wh, self.a[: self.fout, :]) + torch.matmul(Wh, self.a[self.fout :, :]).T, 0.2)
        attention = torch.where(adj > 0, e, -9e15 * torch.ones_like(e))
        return F.elu(torch.matmul(F.softmax(attention, dim=1), Wh))


class GCN(Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super(GCN, self).__init__()
        self.gc1, self.gat, self.gc2 = GraphConvolution(nfeat, nhid), GraphAttention(nhid, nhid), GraphConvolution(nhid, nclass, bias=False)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        x = self.gc2(self.gat(x, adj), adj)
        return F.log_softmax(x, dim=1)


n = 7
edges = torch.tensor(integers(0, n, (2, 12)))
adj = torch.zeros(n, n)
adj[edges[0], edges[1]] = 1.0
adj = ((adj + adj.t()) > 0).float() + torch.eye(n)
adj.clamp_(max=1)
deg_inv_sqrt = adj.sum(1).pow(-0.5)
deg_inv_sqrt[torch.isinf(deg_inv_sqrt)] = 0.0
adj = torch.diag(deg_inv_sqrt) @ adj @ torch.diag(deg_inv_sqrt)
features = torch.FloatTensor(noise(n, 5))
labels = torch.LongTensor(np.arange(n) % 3)
idx_train = torch.LongTensor(range(4))
test_mask = torch.zeros(n, dtype=torch.bool)
test_mask[4:] = True


def accuracy(output, labels):
    preds = output.max(dim=1)[1].type_as(labels)
    correct = preds.eq(labels).double()
    return correct.sum() / len(labels)


model = GCN(5, 4, 3, dropout=0.0)
assert "GraphConvolution (5 -> 4)" in str(model)
fill(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
losses = []
for epoch in range(3):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    losses += [loss_train.item(), accuracy(output[idx_train], labels[idx_train]).item()]
model.eval()
output = model(features, adj)
losses += [F.nll_loss(output[test_mask], labels[test_mask]).item(), accuracy(output[test_mask], labels[test_mask]).item()]
