# SPDX-License-Identifier: Apache-2.0
"""The network of pytorch/examples for MNIST, on made-up digits: two convolutions, dropout, Adadelta,
a schedule and two worker processes. `convnet.py SEED [BACKEND]`, where BACKEND is one of
torch.compile."""
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(16 * 25, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = torch.flatten(self.dropout1(F.max_pool2d(x, 2)), 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def main():
    torch.manual_seed(int(sys.argv[1]))
    digits = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.rand(96, 1, 14, 14, generator=digits),
                         torch.randint(0, 10, (96,), generator=digits))
    train = DataLoader(data, batch_size=16, shuffle=True, num_workers=2)
    model = Net()
    run = model if len(sys.argv) < 3 else torch.compile(model, backend=sys.argv[2])
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(2):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            loss = F.nll_loss(run(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for x, y in DataLoader(data, batch_size=48):
                right += model(x).argmax(dim=1).eq(y).sum().item()
        schedule.step()
    print(loss.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex(), right)


if __name__ == "__main__":
    main()
