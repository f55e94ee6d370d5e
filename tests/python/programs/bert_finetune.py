"""Fine-tuning an encoder with a padded batch: frozen layers, a warm-up schedule, accuracy, loading part of a state dict."""

import torch
import torch.nn as nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset
from start import fill, integers


class BertEmbeddings(nn.Module):
    def __init__(self, vocab, hidden, length):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, hidden, padding_idx=0)
        self.position_embeddings = nn.Embedding(length, hidden)
        self.token_type_embeddings = nn.Embedding(2, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(0.0)
        self.register_buffer("position_ids", torch.arange(length).expand((1, -1)))

    def forward(self, input_ids, token_type_ids=None):
        seq_length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        embeddings = self.word_embeddings(input_ids) + self.position_embeddings(self.position_ids[:, :seq_length])
        embeddings = embeddings + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.LayerNorm(embeddings))


class BertLayer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.query, self.key, self.value = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.intermediate, self.output = nn.Linear(hidden, hidden * 2), nn.Linear(hidden * 2, hidden)
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def transpose_for_scores(self, x):
        return x.view(x.size()[:-1] + (self.heads, self.size)).permute(0, 2, 1, 3)

    def forward(self, hidden, mask):
        q, k, v = map(self.transpose_for_scores, (self.query(hidden), self.key(hidden), self.value(hidden)))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.size**0.5 + mask
        context = torch.matmul(nn.Softmax(dim=-1)(scores), v).permute(0, 2, 1, 3).contiguous()
        context = context.view(context.size()[:-2] + (self.heads * self.size,))
        hidden = self.ln1(self.dense(context) + hidden)
        return self.ln2(self.output(nn.functional.gelu(self.intermediate(hidden))) + hidden)


class BertClassifier(nn.Module):
    def __init__(self, vocab=20, hidden=8, heads=2, layers=2, length=8, labels=2):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab, hidden, length)
        self.encoder = nn.ModuleList([BertLayer(hidden, heads) for _ in range(layers)])
        self.pooler = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh())
        self.classifier = nn.Linear(hidden, labels)

    def forward(self, input_ids, attention_mask):
        mask = (1.0 - attention_mask[:, None, None, :].to(dtype=torch.float32)) * -10000.0
        x = self.embeddings(input_ids)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.classifier(self.pooler(x[:, 0]))


class Reviews(Dataset):
    def __init__(self, n):
        self.rows = [(integers(1, 20, (int(integers(3, 8, (1,))[0]),)), i % 2) for i in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(batch):
    lengths = [len(ids) for ids, _ in batch]
    input_ids = torch.zeros(len(batch), max(lengths), dtype=torch.long)
    attention_mask = torch.zeros(len(batch), max(lengths), dtype=torch.long)
    for i, (ids, _) in enumerate(batch):
        input_ids[i, : len(ids)] = torch.tensor(ids)
        attention_mask[i, : len(ids)] = 1
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": torch.tensor([y for _, y in batch])}


pretrained = BertClassifier(labels=5)
fill(pretrained)
state = {k: v for k, v in pretrained.state_dict().items() if not k.startswith("classifier")}
model = BertClassifier()
fill(model)
missing, unexpected = model.load_state_dict(state, strict=False)
assert missing == ["classifier.weight", "classifier.bias"] and unexpected == [], (missing, unexpected)
for param in model.embeddings.parameters():
    param.requires_grad = False
no_decay = ["bias", "ln1.weight", "ln2.weight"]
grouped = [
    {"params": [p for n, p in model.named_parameters() if p.requires_grad and not any(nd in n for nd in no_decay)], "weight_decay": 0.01},
    {"params": [p for n, p in model.named_parameters() if p.requires_grad and any(nd in n for nd in no_decay)], "weight_decay": 0.0},
]
optimizer = AdamW(grouped, lr=5e-3, eps=1e-8)
scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 2) * max(0.0, (6 - step) / 6))
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(Reviews(6), batch_size=3, shuffle=False, collate_fn=collate)
losses = []
for epoch in range(2):
    model.train()
    for batch in loader:
        batch = {k: v.to("cpu") for k, v in batch.items()}
        logits = model(batch["input_ids"], batch["attention_mask"])
        loss = loss_fn(logits, batch["labels"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    losses.append(scheduler.get_last_lr()[0])
model.eval()
correct = total = 0
with torch.no_grad():
    for batch in loader:
        preds = torch.argmax(model(batch["input_ids"], batch["attention_mask"]), dim=1)
        correct += (preds == batch["labels"]).sum().item()
        total += batch["labels"].size(0)
losses.append(correct / total)
