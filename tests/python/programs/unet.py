"""A U-net for segmentation, with a dice loss and padding where sizes do not fit."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding="same", bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels=1, n_classes=2):
        super().__init__()
        self.inc = DoubleConv(n_channels, 4)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(8, 8))
        self.up1, self.up2 = Up(16, 4), Up(8, 4)
        self.outc = nn.Conv2d(4, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return self.outc(self.up2(self.up1(x3, x2), x1))


def dice_coeff(input, target, epsilon=1e-6):
    sum_dim = (-1, -2, -3)
    inter = 2 * (input * target).sum(dim=sum_dim)
    sets_sum = input.sum(dim=sum_dim) + target.sum(dim=sum_dim)
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return ((inter + epsilon) / (sets_sum + epsilon)).mean()


model = UNet()
fill(model)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=0)
criterion = nn.CrossEntropyLoss()
losses = []
for step in range(2):
    images = torch.from_numpy(noise(2, 1, 10, 6)).to(dtype=torch.float32, memory_format=torch.channels_last)
    masks = torch.from_numpy(integers(0, 2, (2, 10, 6))).to(dtype=torch.long)
    pred = model(images)
    loss = criterion(pred, masks)
    loss += 1 - dice_coeff(F.softmax(pred, dim=1).float(), F.one_hot(masks, 2).permute(0, 3, 1, 2).float())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        score = dice_coeff(F.one_hot(model(images).argmax(dim=1), 2).permute(0, 3, 1, 2).float(), F.one_hot(masks, 2).permute(0, 3, 1, 2).float())
    model.train()
    scheduler.step(score.item())
    losses += [score.item(), optimizer.param_groups[0]["lr"]]
