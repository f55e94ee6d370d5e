"""A detector with object queries: costs, a greedy matching, generalised box overlap."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from start import fill, integers, noise


def box_cxcywh_to_xyxy(x):
    x_c, y_c, w, h = x.unbind(-1)
    b = [(x_c - 0.5 * w), (y_c - 0.5 * h), (x_c + 0.5 * w), (y_c + 0.5 * h)]
    return torch.stack(b, dim=-1)


def box_area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(boxes1, boxes2):
    area1, area2 = box_area(boxes1), box_area(boxes2)
    lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = area1[:, None] + area2 - inter
    return inter / union, union


def generalized_box_iou(boxes1, boxes2):
    assert (boxes1[:, 2:] >= boxes1[:, :2]).all()
    iou, union = box_iou(boxes1, boxes2)
    lt = torch.min(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.max(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    area = wh[:, :, 0] * wh[:, :, 1]
    return iou - (area - union) / area


@torch.no_grad()
def match(outputs, targets):
    indices = []
    for b, target in enumerate(targets):
        prob, boxes = outputs["pred_logits"][b].softmax(-1), outputs["pred_boxes"][b]
        cost = torch.cdist(boxes, target["boxes"], p=1) - prob[:, target["labels"]]
        cost = cost - generalized_box_iou(box_cxcywh_to_xyxy(boxes), box_cxcywh_to_xyxy(target["boxes"]))
        cost, used = cost.cpu().numpy(), []
        for j in range(cost.shape[1]):
            order = [i for i in cost[:, j].argsort() if i not in used]
            used.append(int(order[0]))
        indices.append((torch.as_tensor(used, dtype=torch.int64), torch.arange(len(used))))
    return indices


class DETR(nn.Module):
    def __init__(self, num_classes=3, hidden_dim=8, nheads=2, num_queries=4):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU())
        self.conv = nn.Conv2d(8, hidden_dim, 1)
        self.transformer = nn.Transformer(hidden_dim, nheads, 1, 1, dim_feedforward=16, dropout=0.0)
        self.linear_class = nn.Linear(hidden_dim, num_classes + 1)
        self.linear_bbox = nn.Linear(hidden_dim, 4)
        self.query_pos = nn.Parameter(torch.rand(num_queries, hidden_dim))
        self.row_embed = nn.Parameter(torch.rand(10, hidden_dim // 2))
        self.col_embed = nn.Parameter(torch.rand(10, hidden_dim // 2))

    def forward(self, inputs):
        h = self.conv(self.backbone(inputs))
        H, W = h.shape[-2:]
        pos = torch.cat(
            [self.col_embed[:W].unsqueeze(0).repeat(H, 1, 1), self.row_embed[:H].unsqueeze(1).repeat(1, W, 1)], dim=-1
        ).flatten(0, 1).unsqueeze(1)  # fmt: skip
        h = self.transformer(pos + 0.1 * h.flatten(2).permute(2, 0, 1), self.query_pos.unsqueeze(1).repeat(1, h.shape[0], 1)).transpose(0, 1)
        return {"pred_logits": self.linear_class(h), "pred_boxes": self.linear_bbox(h).sigmoid()}


def get_src_permutation_idx(indices):
    batch_idx = torch.cat([torch.full_like(src, i) for i, (src, _) in enumerate(indices)])
    src_idx = torch.cat([src for (src, _) in indices])
    return batch_idx, src_idx


def criterion(outputs, targets, num_classes=3):
    indices = match(outputs, targets)
    idx = get_src_permutation_idx(indices)
    target_classes_o = torch.cat([t["labels"][J] for t, (_, J) in zip(targets, indices)])
    target_classes = torch.full(outputs["pred_logits"].shape[:2], num_classes, dtype=torch.int64)
    target_classes[idx] = target_classes_o
    empty_weight = torch.ones(num_classes + 1)
    empty_weight[-1] = 0.1
    loss_ce = F.cross_entropy(outputs["pred_logits"].transpose(1, 2), target_classes, empty_weight)
    src_boxes = outputs["pred_boxes"][idx]
    target_boxes = torch.cat([t["boxes"][i] for t, (_, i) in zip(targets, indices)], dim=0)
    num_boxes = max(sum(len(t["labels"]) for t in targets), 1)
    loss_bbox = F.l1_loss(src_boxes, target_boxes, reduction="none").sum() / num_boxes
    giou = 1 - torch.diag(generalized_box_iou(box_cxcywh_to_xyxy(src_boxes), box_cxcywh_to_xyxy(target_boxes)))
    return {"loss_ce": loss_ce, "loss_bbox": loss_bbox, "loss_giou": giou.sum() / num_boxes}


weight_dict = {"loss_ce": 1, "loss_bbox": 5, "loss_giou": 2}
model = DETR()
fill(model)
optimizer = torch.optim.AdamW(
    [{"params": model.transformer.parameters()}, {"params": [p for n, p in model.named_parameters() if "transformer" not in n], "lr": 1e-3}],
    lr=1e-2, weight_decay=1e-4,
)  # fmt: skip
losses = []
for step in range(2):
    images = torch.tensor(noise(2, 3, 6, 8))
    targets = [{"labels": torch.tensor(integers(0, 3, (n,))), "boxes": torch.sigmoid(torch.tensor(noise(n, 4)))} for n in (1, 2)]
    loss_dict = criterion(model(images), targets)
    loss = sum(loss_dict[k] * weight_dict[k] for k in loss_dict.keys() if k in weight_dict)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    losses += [loss.item()] + [v.item() for v in loss_dict.values()]
