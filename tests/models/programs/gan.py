# SPDX-License-Identifier: Apache-2.0
"""Two networks that are trained against each other, each with an optimizer of its own: `gan.py SEED`."""
import sys

import torch
from torch import nn


def main():
    torch.manual_seed(int(sys.argv[1]))
    generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 16), nn.Tanh())
    discriminator = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judge = nn.BCEWithLogitsLoss()
    real, fake = torch.ones(16, 1), torch.zeros(16, 1)
    for _ in range(6):
        of_discriminator.zero_grad()
        made = generator(torch.randn(16, 8))
        judge(discriminator(torch.randn(16, 16).clamp(-1, 1)), real).backward()
        judge(discriminator(made.detach()), fake).backward()
        of_discriminator.step()
        of_generator.zero_grad()
        loss = judge(discriminator(made), real)
        loss.backward()
        of_generator.step()
    networks = nn.ModuleList([generator, discriminator])
    print(loss.item().hex(), sum(p.double().sum().item() for p in networks.parameters()).hex())


if __name__ == "__main__":
    main()
