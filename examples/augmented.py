# SPDX-License-Identifier: Apache-2.0
"""A small network that is trained with augmented data, with a fault that is easily made: PyTorch is
seeded, and the noise of the second epoch comes from a generator of NumPy's that is not. What
docs/TUTORIAL.md looks for."""
import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Noise(nn.Module):
    """Adds to what the network reads in training."""

    def __init__(self):
        super().__init__()
        self.scale = 0.0
        self.generator = numpy.random.default_rng()

    def forward(self, x):
        if self.scale == 0 or not self.training:
            return x
        noise = self.generator.normal(size=x.shape, scale=self.scale)
        return x + torch.from_numpy(noise).float()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.augment = Noise()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.encoder(self.augment(x)))


def main():
    torch.manual_seed(7)
    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(2):
        model.augment.scale = 0.01 * epoch
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())


if __name__ == "__main__":
    main()
