"""Boxes as tensors (..., 4) of left, top, right and bottom: anchors, overlaps, and the best of those that overlap."""

import math

import lathe

LARGEST_STEP = math.log(1000 / 16)  # of a width or height


def anchors_at(grid, image, sizes, ratios):
    """Boxes of every cell of a grid (height, width) over an image, by cell, then ratio, then size: (count, 4)."""
    corners = []
    for ratio in ratios:
        for size in sizes:
            high, wide = size * math.sqrt(ratio), size / math.sqrt(ratio)
            corners.append([round(-wide / 2), round(-high / 2), round(wide / 2), round(high / 2)])
    step = image[0] // grid[0], image[1] // grid[1]
    y = (lathe.arange(grid[0], dtype=lathe.float32) * step[0]).reshape(-1, 1, 1, 1).expand(grid[0], grid[1], 1, 1)
    x = (lathe.arange(grid[1], dtype=lathe.float32) * step[1]).reshape(1, -1, 1, 1).expand(grid[0], grid[1], 1, 1)
    base = lathe.tensor(corners, dtype=lathe.float32)
    return (lathe.cat([x, y, x, y], -1) + base).reshape(-1, 4)


def moved(anchors, steps):
    """Boxes from anchors: their centres moved by parts of their sizes, their sizes grown by exponentials."""
    size = anchors[..., 2:] - anchors[..., :2]
    centre = anchors[..., :2] + size / 2 + steps[..., :2] * size
    grown = steps[..., 2:].clamp(max=LARGEST_STEP).exp() * size
    return lathe.cat([centre - grown / 2, centre + grown / 2], -1)


def steps_between(anchors, boxes):
    """What moved() needs to make these boxes of the anchors."""
    size, wanted = anchors[..., 2:] - anchors[..., :2], boxes[..., 2:] - boxes[..., :2]
    centre, target = anchors[..., :2] + size / 2, boxes[..., :2] + wanted / 2
    return lathe.cat([(target - centre) / size, (wanted / size).log()], -1)


def overlap(a, b):
    """Of each of a (n, 4) with each of b (m, 4): what they share over what they cover together, (n, m)."""
    a, b = a.unsqueeze(1), b.unsqueeze(0)
    low, high = lathe.maximum(a[..., :2], b[..., :2]), lathe.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area_a, area_b = (a[..., 2:] - a[..., :2]).prod(-1), (b[..., 2:] - b[..., :2]).prod(-1)
    return shared / (area_a + area_b - shared).clamp(min=1e-9)


def best_of_overlapping(boxes, labels, valid, most):
    """Which boxes stay, from the best to the worst, where one falls to a better one of its label that overlaps it by more
    than `most`: bool (n). Whether one stays is known once all better ones are: repeated until nothing changes."""
    count = boxes.shape[0]
    better = lathe.ones(count, count, dtype=lathe.bool).triu(1).T
    beats = (overlap(boxes, boxes) > most) & (labels.unsqueeze(1) == labels.unsqueeze(0)) & better
    kept, rounds = valid, 8
    while True:
        for _ in range(rounds):
            before = kept
            kept = valid & (beats & kept.unsqueeze(0)).any(1).logical_not()
        if bool((kept == before).all()):
            return kept
