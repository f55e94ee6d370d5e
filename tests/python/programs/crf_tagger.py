"""Tags scored as a chain: forward scores by logsumexp, the best path by following back."""

import torch
import torch.nn as nn
from start import fill, integers

START_TAG, STOP_TAG = 3, 4


class BiLSTM_CRF(nn.Module):
    def __init__(self, vocab_size, tagset_size, embedding_dim, hidden_dim):
        super(BiLSTM_CRF, self).__init__()
        self.tagset_size = tagset_size
        self.word_embeds = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim // 2, num_layers=1, bidirectional=True)
        self.hidden2tag = nn.Linear(hidden_dim, tagset_size)
        self.transitions = nn.Parameter(torch.randn(tagset_size, tagset_size))
        self.forbid()

    def forbid(self):
        self.transitions.data[START_TAG, :] = -10000
        self.transitions.data[:, STOP_TAG] = -10000

    def _get_lstm_features(self, sentence):
        embeds = self.word_embeds(sentence).view(len(sentence), 1, -1)
        lstm_out, _ = self.lstm(embeds)
        return self.hidden2tag(lstm_out.view(len(sentence), -1))

    def _forward_alg(self, feats):
        forward_var = torch.full((self.tagset_size,), -10000.0)
        forward_var[START_TAG] = 0.0
        for feat in feats:
            forward_var = torch.logsumexp(forward_var.unsqueeze(0) + self.transitions, dim=1) + feat
        return torch.logsumexp(forward_var + self.transitions[STOP_TAG], dim=0)

    def _score_sentence(self, feats, tags):
        score = torch.zeros(1)
        tags = torch.cat([torch.tensor([START_TAG], dtype=torch.long), tags])
        for i, feat in enumerate(feats):
            score = score + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]
        return score + self.transitions[STOP_TAG, tags[-1]]

    def _viterbi_decode(self, feats):
        backpointers = []
        forward_var = torch.full((1, self.tagset_size), -10000.0)
        forward_var[0][START_TAG] = 0
        for feat in feats:
            best, idx = torch.max(forward_var + self.transitions, dim=1)
            forward_var = (best + feat).view(1, -1)
            backpointers.append(idx.tolist())
        terminal_var = forward_var + self.transitions[STOP_TAG]
        best_tag_id = torch.argmax(terminal_var, 1).item()
        path_score = terminal_var[0][best_tag_id]
        best_path = [best_tag_id]
        for bptrs_t in reversed(backpointers):
            best_path.append(bptrs_t[best_path[-1]])
        assert best_path.pop() == START_TAG
        return path_score, best_path[::-1]

    def neg_log_likelihood(self, sentence, tags):
        feats = self._get_lstm_features(sentence)
        return self._forward_alg(feats) - self._score_sentence(feats, tags)

    def forward(self, sentence):
        return self._viterbi_decode(self._get_lstm_features(sentence))


model = BiLSTM_CRF(8, 5, 4, 4)
fill(model)
model.forbid()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
sentence, tags = torch.tensor(integers(0, 8, (4,))), torch.tensor(integers(0, 3, (4,)))
losses = []
for epoch in range(2):
    model.zero_grad()
    loss = model.neg_log_likelihood(sentence, tags)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with torch.no_grad():
    score, path = model(sentence)
    losses += [score.item(), *path]
