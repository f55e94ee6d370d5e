"""A transformer for series: waves as positions, a causal mask, quantile losses, several horizons."""

import math

import torch
import torch.nn as nn
from start import fill, noise


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.0, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(0)]
        return self.dropout(x)


class Forecaster(nn.Module):
    def __init__(self, d_model=8, quantiles=3):
        super().__init__()
        self.input = nn.Linear(1, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        encoder_layers = nn.TransformerEncoderLayer(d_model, nhead=2, dim_feedforward=16, dropout=0.0, activation="gelu", norm_first=True)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, num_layers=2)
        self.decoder = nn.Linear(d_model, quantiles)

    def forward(self, src, src_mask=None):
        src = self.pos_encoder(self.input(src) * math.sqrt(8))
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(len(src)).to(src.device)
        return self.decoder(self.transformer_encoder(src, src_mask))


def pinball(pred, target, quantiles):
    errors = target - pred
    q = torch.tensor(quantiles)
    return torch.max((q - 1) * errors, q * errors).mean()


series = torch.cumsum(torch.tensor(noise(40)), dim=0)
series = (series - series.mean()) / series.std(unbiased=False)
windows = series.unfold(0, 9, 3)
model = Forecaster()
fill(model)
optimizer = torch.optim.Adamax(model.parameters(), lr=1e-2)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[2])
losses = []
for step in range(3):
    batch = windows[step * 3 : step * 3 + 3].t().unsqueeze(-1)
    pred = model(batch[:-1])
    loss = pinball(pred, batch[1:], [0.1, 0.5, 0.9])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses += [loss.item(), optimizer.param_groups[0]["lr"]]
model.eval()
with torch.inference_mode():
    src = batch.clone()
    for _ in range(2):
        src = torch.cat([src, model(src)[-1:, :, 1:2]], dim=0)
losses += src[-2:].flatten().tolist()
