# SPDX-License-Identifier: Apache-2.0
"""A language model of words as that of pytorch/examples: an LSTM that is handed its state from batch
to batch, clipped gradients, plain SGD by hand, an evaluation after each epoch. `language_model.py SEED`."""
import sys

import torch
from torch import nn

WORDS, BATCH, LENGTH = 50, 4, 7


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(WORDS, 24)
        self.rnn = nn.LSTM(24, 24, num_layers=2, dropout=0.2)
        self.decoder = nn.Linear(24, WORDS)

    def forward(self, words, state):
        out, state = self.rnn(self.drop(self.encoder(words)), state)
        return torch.log_softmax(self.decoder(self.drop(out)).view(-1, WORDS), dim=1), state


def passes(model, text, rate=None):
    state = tuple(torch.zeros(2, BATCH, 24) for _ in range(2))
    for begin in range(0, len(text) - 1 - LENGTH, LENGTH):
        state = tuple(part.detach() for part in state)
        out, state = model(text[begin:begin + LENGTH], state)
        loss = nn.functional.nll_loss(out, text[begin + 1:begin + 1 + LENGTH].reshape(-1))
        if rate is not None:
            model.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for parameter in model.parameters():
                parameter.data.add_(parameter.grad, alpha=-rate)
    return loss


def main():
    torch.manual_seed(int(sys.argv[1]))  # SEED
    text = torch.randint(0, WORDS, (40, BATCH), generator=torch.Generator().manual_seed(1))
    model = Model()
    for _ in range(2):
        model.train()
        passes(model, text, rate=2.0)
        model.eval()
        with torch.no_grad():
            loss = passes(model, text)
    print(loss.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
