# SPDX-License-Identifier: Apache-2.0
"""Two epochs of a training whose samples are augmented in `__getitem__`, by workers of a DataLoader:
`loading.py [FAULT] [--workers N] [--method fork|spawn|forkserver] [--persistent] [--early]`. With --early an
epoch ends while batches are on their way. The last line is of the result, bit by bit."""
import argparse
import os
import signal
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

parser = argparse.ArgumentParser()
parser.add_argument("fault", nargs="?")
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--method")
parser.add_argument("--persistent", action="store_true")
parser.add_argument("--early", action="store_true")
FLAGS = parser.parse_args()
SAMPLES, SIZE = 24, 8


class Augmented(Dataset):
    def __init__(self):
        self.data = torch.arange(SAMPLES * SIZE, dtype=torch.float32).reshape(SAMPLES, SIZE) / 100
        self.mixed = nn.Linear(SIZE, SIZE)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        generator = None
        if index == 11 and get_worker_info() is not None:
            if FLAGS.fault == "unseeded":
                generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "little"))
            elif FLAGS.fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            elif FLAGS.fault == "thread":
                thread = threading.Thread(target=lambda: torch.rand(3))
                thread.start()
                thread.join()
        if FLAGS.fault == "team":  # of OpenMP, which the parent has used
            torch.set_num_threads(2)
        noise = torch.rand(SIZE, generator=generator)  # NOISE
        with torch.no_grad():
            return self.mixed(self.data[index]) + noise


def main():
    torch.manual_seed(3)
    torch.rand(1 << 20).sum()
    dataset = Augmented()
    model = nn.Linear(SIZE, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    loader = DataLoader(dataset, batch_size=4, shuffle=FLAGS.fault != "killed", num_workers=FLAGS.workers,
                        persistent_workers=FLAGS.persistent, multiprocessing_context=FLAGS.method)
    loss = torch.zeros(())
    for epoch in range(2):
        for number, batch in enumerate(loader):
            if FLAGS.early and number == epoch:
                break
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if FLAGS.fault == "shot" and number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
    print(model.weight.sum().item().hex(), loss.item().hex())


if __name__ == "__main__":
    main()
