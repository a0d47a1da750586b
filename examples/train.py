# SPDX-License-Identifier: Apache-2.0
"""A small network that is trained in plain PyTorch: what `repro-check exec` records unchanged.

    repro-check exec -o A -- python3 examples/train.py
    repro-check exec -o B -- python3 examples/train.py --eps 1e-7
    repro-check diff A B
"""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1))
        self.norm = nn.BatchNorm1d(32)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.norm(self.encoder(x)))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--eps", type=float, default=1e-8)
    options = options.parse_args()

    torch.manual_seed(0)
    numbers = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(64, 16, generator=numbers),
                         torch.randint(0, 4, (64,), generator=numbers))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=options.eps)
    for _ in range(options.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    print("loss", loss.item(), "weights", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
