"""ResNet for images (He and others, 2015), with the names of torchvision's files."""

from lathe import nn

DEPTHS = {  # blocks of each stage, and whether they are bottlenecks
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
}
EXPANSION = 4  # of a bottleneck's output over its width


def conv(inputs, outputs, kernel, stride=1):
    """Without a bias: the batch norm after it has one."""
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = width * EXPANSION if bottleneck else width
        if bottleneck:
            shapes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        else:
            shapes = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        self.convs = len(shapes)
        for i, shape in enumerate(shapes, 1):
            setattr(self, f"conv{i}", conv(*shape))
            setattr(self, f"bn{i}", nn.BatchNorm2d(shape[1]))
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = x
        for i in range(1, self.convs + 1):
            out = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(out))
            if i < self.convs:
                out = out.relu()
        return (out + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    """depth 18, 34 or 50; (batch, 3, height, width) to (batch, classes). `width` is that of the first stage."""

    def __init__(self, depth=50, classes=1000, width=64):
        super().__init__()
        blocks, bottleneck = DEPTHS[depth]
        self.conv1, self.bn1 = conv(3, width, 7, 2), nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs, self.channels = width, []
        for stage, count in enumerate(blocks):
            made = []
            for i in range(count):
                made.append(Block(inputs, width << stage, 2 if i == 0 and stage > 0 else 1, bottleneck))
                inputs = (width << stage) * (EXPANSION if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*made))
            self.channels.append(inputs)
        if classes:
            self.fc = nn.Linear(inputs, classes)

    def features(self, x):
        """The result of each of the four stages."""
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        out = []
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
            out.append(x)
        return out

    def forward(self, x):
        return self.fc(self.features(x)[-1].mean((2, 3)))
