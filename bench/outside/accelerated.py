# SPDX-License-Identifier: Apache-2.0
"""A loop with accelerate: dropout, clipped gradients, two micro-steps a step, a schedule."""
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(3)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    model, optimizer, loader, schedule = accelerator.prepare(
        model, optimizer, DataLoader(data, batch_size=8, shuffle=True), schedule)
    for _ in range(2):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    print(loss.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
