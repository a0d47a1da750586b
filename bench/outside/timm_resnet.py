# SPDX-License-Identifier: Apache-2.0
"""A small ResNet of timm with timm's AdamW, four steps."""
import timm
import torch
from timm.optim import create_optimizer_v2
from torch import nn


def main():
    torch.manual_seed(3)
    model = timm.create_model("resnet10t", num_classes=4)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.randn(4, 3, 64, 64)), torch.randint(0, 4, (4,)))
        loss.backward()
        optimizer.step()
    print(loss.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
