"""Part-of-speech tags by an LSTM, word after word."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from start import fill

training_data = [
    ("The dog ate the apple".split(), ["DET", "NN", "V", "DET", "NN"]),
    ("Everybody read that book".split(), ["NN", "V", "DET", "NN"]),
]
word_to_ix = {}
for sent, tags in training_data:
    for word in sent:
        if word not in word_to_ix:
            word_to_ix[word] = len(word_to_ix)
tag_to_ix = {"DET": 0, "NN": 1, "V": 2}


def prepare_sequence(seq, to_ix):
    return torch.tensor([to_ix[w] for w in seq], dtype=torch.long)


class LSTMTagger(nn.Module):
    def __init__(self, embedding_dim, hidden_dim, vocab_size, tagset_size):
        super(LSTMTagger, self).__init__()
        self.hidden_dim = hidden_dim
        self.word_embeddings = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, num_layers=2)
        self.hidden2tag = nn.Linear(hidden_dim, tagset_size)

    def forward(self, sentence):
        embeds = self.word_embeddings(sentence)
        hidden = (torch.zeros(2, 1, self.hidden_dim), torch.zeros(2, 1, self.hidden_dim))
        lstm_out, hidden = self.lstm(embeds.view(len(sentence), 1, -1), hidden)
        tag_space = self.hidden2tag(lstm_out.view(len(sentence), -1))
        return F.log_softmax(tag_space, dim=1)


model = LSTMTagger(4, 4, len(word_to_ix), len(tag_to_ix))
fill(model)
loss_function = nn.NLLLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1)
losses = []
for epoch in range(2):
    for sentence, tags in training_data:
        model.zero_grad()
        sentence_in = prepare_sequence(sentence, word_to_ix)
        targets = prepare_sequence(tags, tag_to_ix)
        loss = loss_function(model(sentence_in), targets)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
with torch.no_grad():
    scores = model(prepare_sequence(training_data[0][0], word_to_ix))
    _, predicted = torch.max(scores, 1)
    losses += [float(p) for p in predicted]
