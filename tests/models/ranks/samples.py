# SPDX-License-Identifier: Apache-2.0
"""Two epochs over a small dataset, alone or on gloo ranks: `samples.py SITUATION [--workers N] [--augment]
[--seed S]`. Each situation orders the samples in one of the ways that people do."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Subset, get_worker_info

parser = argparse.ArgumentParser()
parser.add_argument("situation")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--augment", action="store_true")
parser.add_argument("--seed", type=int)
FLAGS = parser.parse_args()
SAMPLES = 33 if FLAGS.situation == "padded" else 32
RANKS = int(os.environ.get("WORLD_SIZE", "1"))


class Numbered(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        sample = torch.full((4,), float(index))
        return sample + torch.rand(4) if FLAGS.augment else sample


class Stream(IterableDataset):
    """`split`: each worker of each rank yields its own part."""

    def __iter__(self):
        part, parts = 0, 1
        if FLAGS.situation == "split":
            info = get_worker_info()
            workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
            rank = int(os.environ.get("RANK", "0"))
            part, parts = rank * workers + worker, RANKS * workers
        for index in range(part, SAMPLES, parts):
            yield torch.full((4,), float(index))


class Epochs(Stream):
    """Another order in each epoch that it is told of."""
    epoch = 0

    def __iter__(self):
        for index in torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(self.epoch)):
            yield torch.full((4,), float(index))


KEPT = Epochs()
LOADER = DataLoader(KEPT, batch_size=4, num_workers=FLAGS.workers, persistent_workers=FLAGS.workers > 0)


def loader_of(epoch):
    options = {"batch_size": 4, "num_workers": FLAGS.workers}
    if FLAGS.situation in ("stream", "split"):
        return DataLoader(Stream(), **options)
    if FLAGS.situation in ("distributed", "set-epoch", "padded", "in-order"):
        sampler = DistributedSampler(Numbered(), shuffle=FLAGS.situation != "in-order")
        if FLAGS.situation in ("set-epoch", "padded"):
            sampler.set_epoch(epoch)
        return DataLoader(sampler.dataset, sampler=sampler, **options)
    if FLAGS.situation.startswith("subset-"):  # of twice as many
        begin = int(FLAGS.situation.rpartition("-")[2])
        return DataLoader(Subset(Numbered(), range(begin, begin + SAMPLES // 2)), shuffle=True, **options)
    if FLAGS.situation in ("told", "untold"):  # the epoch
        KEPT.epoch = epoch if FLAGS.situation == "told" else 0
        return LOADER
    if FLAGS.situation == "generator":
        return DataLoader(Numbered(), shuffle=True, generator=torch.Generator().manual_seed(7 + epoch), **options)
    if FLAGS.situation == "frozen":
        return DataLoader(Numbered(), shuffle=True, generator=torch.Generator().manual_seed(7), **options)
    return DataLoader(Numbered(), shuffle=FLAGS.situation == "shuffle", **options)


def main():
    if FLAGS.seed is not None:
        torch.manual_seed(FLAGS.seed)
    model = nn.Linear(4, 1)
    if RANKS > 1:
        dist.init_process_group("gloo")
        # Ranks that shuffle for themselves each have an order of their own.
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    kept = None if FLAGS.situation in ("generator", "frozen", "padded", "set-epoch", "told", "untold") else loader_of(0)
    for epoch in range(2):
        loader = kept
        if loader is None:
            loader = loader_of(epoch)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        loader = None
    if RANKS > 1:
        dist.barrier()
        del model, optimizer
        time.sleep(0.3)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
