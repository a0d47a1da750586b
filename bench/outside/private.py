# SPDX-License-Identifier: Apache-2.0
"""Training under differential privacy with opacus, as its README does: gradients by sample, clipped, with noise."""
import warnings

from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
import torch
from opacus import PrivacyEngine

warnings.simplefilter("ignore")
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,))), batch_size=16)
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print("result", loss.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex(), engine.get_epsilon(1e-5))
