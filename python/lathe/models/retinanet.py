"""RetinaNet (Lin and others, 2017): a ResNet, a pyramid of features, and two heads over anchors, with the names of torchvision's
files. What comes out is decided on the device: scores, boxes, the best of each level, the best of those that overlap."""

import lathe
from lathe import nn
from lathe.models.boxes import anchors_at, best_of_overlapping, moved, overlap, steps_between
from lathe.models.resnet import ResNet

RATIOS = (0.5, 1.0, 2.0)
PRIOR = 4.59511985013459  # log((1 - p) / p) of the probability of 0.01 that a score begins with


class Extra(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.p6, self.p7 = nn.Conv2d(dim, dim, 3, 2, 1), nn.Conv2d(dim, dim, 3, 2, 1)


class Pyramid(nn.Module):
    """Features of three stages, each with those of the coarser ones added, and two levels more."""

    def __init__(self, channels, dim):
        super().__init__()
        self.inner_blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(c, dim, 1)) for c in channels])
        self.layer_blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(dim, dim, 3, padding=1)) for _ in channels])
        self.extra_blocks = Extra(dim)

    def forward(self, features):
        above, levels = None, []
        for inner, layer, x in reversed(list(zip(self.inner_blocks, self.layer_blocks, features))):
            x = inner(x)
            if above is not None:
                x = x + nn.functional.interpolate(above, size=(x.shape[2], x.shape[3]), mode="nearest")
            above = x
            levels.insert(0, layer(x))
        levels.append(self.extra_blocks.p6(levels[-1]))
        levels.append(self.extra_blocks.p7(levels[-1].relu()))
        return levels


class Backbone(nn.Module):
    def __init__(self, depth, width, dim):
        super().__init__()
        self.body = ResNet(depth, classes=0, width=width)
        self.fpn = Pyramid(self.body.channels[1:], dim)

    def forward(self, images):
        return self.fpn(self.body.features(images)[1:])


class Head(nn.Module):
    """Four convolutions, then `outputs` numbers for each anchor of each cell: (batch, anchors, outputs)."""

    def __init__(self, dim, last, anchors, outputs):
        super().__init__()
        self.conv = nn.Sequential(*[nn.Sequential(nn.Conv2d(dim, dim, 3, padding=1), nn.ReLU()) for _ in range(4)])
        self.last, self.outputs = last, outputs
        setattr(self, last, nn.Conv2d(dim, anchors * outputs, 3, padding=1))

    def forward(self, x):
        x = getattr(self, self.last)(self.conv(x))
        return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.outputs)


class Heads(nn.Module):
    def __init__(self, dim, anchors, classes):
        super().__init__()
        self.classification_head = Head(dim, "cls_logits", anchors, classes)
        self.regression_head = Head(dim, "bbox_reg", anchors, 4)
        with lathe.no_grad():
            self.classification_head.cls_logits.bias.fill_(-PRIOR)


class RetinaNet(nn.Module):
    """Images (batch, 3, height, width). The default is the published net over ResNet-50."""

    def __init__(self, classes=91, depth=50, width=64, dim=256, smallest=32):
        super().__init__()
        self.classes = classes
        self.sizes = [[int(smallest * 2**level * 2 ** (part / 3)) for part in range(3)] for level in range(5)]
        self.backbone = Backbone(depth, width, dim)
        self.head = Heads(dim, 3 * len(RATIOS), classes)

    def forward(self, images):
        """By level: scores before the sigmoid (batch, anchors, classes), steps (batch, anchors, 4), anchors (anchors, 4)."""
        levels = self.backbone(images)
        extent = images.shape[2], images.shape[3]
        anchors = [anchors_at((x.shape[2], x.shape[3]), extent, s, RATIOS) for x, s in zip(levels, self.sizes)]
        return [self.head.classification_head(x) for x in levels], [self.head.regression_head(x) for x in levels], anchors

    def detect(self, images, least=0.05, most_overlap=0.5, candidates=1000, most=300):
        """For each image: boxes (n, 4), scores (n), labels (n) from the best to the worst, and bool (n): whether there is one."""
        logits, steps, anchors = self(images)
        extent = images.shape[2], images.shape[3]
        return [
            self._found(extent, [x[i] for x in logits], [x[i] for x in steps], anchors, least, most_overlap, candidates, most)
            for i in range(images.shape[0])
        ]

    def _found(self, extent, logits, steps, anchors, least, most_overlap, candidates, most):
        boxes, scores, labels = [], [], []
        for x, step, anchor in zip(logits, steps, anchors):
            flat = x.sigmoid().flatten()
            score, where = flat.topk(min(candidates, flat.shape[0]))
            which = where // self.classes
            boxes.append(moved(anchor[which], step[which]))
            scores.append(score)
            labels.append(where % self.classes)
        boxes, scores, labels = lathe.cat(boxes), lathe.cat(scores), lathe.cat(labels)
        limit = lathe.tensor([extent[1], extent[0], extent[1], extent[0]], dtype=lathe.float32)
        boxes = lathe.minimum(boxes.clamp(min=0), limit)
        scores, order = scores.sort(descending=True, stable=True)
        boxes, labels = boxes[order], labels[order]
        kept = best_of_overlapping(boxes, labels, scores > least, most_overlap)
        ranked, best = (kept * scores).topk(min(most, scores.shape[0]))
        return boxes[best], ranked, labels[best], ranked > 0

    def loss(self, images, boxes, labels):
        """boxes: (batch, n, 4); labels: (batch, n), -1 where an image has fewer than n."""
        logits, steps, anchors = self(images)
        logits, steps, anchors = lathe.cat(logits, 1), lathe.cat(steps, 1), lathe.cat(anchors)
        losses = [self._loss_of(logits[i], steps[i], anchors, boxes[i], labels[i]) for i in range(images.shape[0])]
        return sum(losses) / len(losses)

    def _loss_of(self, logits, steps, anchors, boxes, labels):
        there = labels >= 0
        share = overlap(anchors, boxes).masked_fill(there.logical_not(), -1.0)  # (anchors, n)
        best, which = share.amax(1), share.argmax(1)
        # An anchor that fits a box best of all anchors is that box's, however little it fits.
        forced = ((share == share.amax(0)) & there & (share > 0)).any(1)
        mine, other = (best >= 0.5) | forced, (best < 0.4) & forced.logical_not()
        count = mine.sum().clamp(min=1)
        wanted = (labels[which].unsqueeze(1) == lathe.arange(self.classes)) & mine.unsqueeze(1)
        focal = focal_loss(logits, wanted.float()) * (mine | other).unsqueeze(1)
        distance = (steps - steps_between(anchors, boxes[which])).abs()
        return (focal.sum() + lathe.where(mine.unsqueeze(1), distance, lathe.zeros_like(distance)).sum()) / count


def focal_loss(logits, wanted, alpha=0.25, gamma=2):
    """Cross entropy of each score, less the better it is already."""
    p = logits.sigmoid()
    entropy = nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    sure = p * wanted + (1 - p) * (1 - wanted)
    return (alpha * wanted + (1 - alpha) * (1 - wanted)) * entropy * (1 - sure) ** gamma
