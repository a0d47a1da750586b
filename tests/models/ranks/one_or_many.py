# SPDX-License-Identifier: Apache-2.0
"""One training, on one device or on several gloo ranks: `one_or_many.py WAY [FAULT]`. WAY is `one` or `experts`, in one
process; `ddp`, `fsdp`, `hand` (gradients are reduced by hand) and `dtensor` train as `one` does, so do `megatron` (two
linear layers in parts, a norm on parts of the tokens) and `pipeline` (two stages); `expert` (one expert a rank) trains
as `experts` does. What each FAULT plants is at its place."""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, Dataset

WAY = sys.argv[1]
FAULT = sys.argv[2] if len(sys.argv) > 2 else ""
STEPS, BATCH, LENGTH, VOCABULARY, WIDTH = 3, 8, 8, 40, 16
SINGLE = WAY in ("one", "experts")
SHARES_DATA = WAY in ("dtensor", "megatron", "expert", "pipeline")


class Sentences(Dataset):
    def __init__(self):
        self.tokens = torch.randint(VOCABULARY, (STEPS * BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(5))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index]


class ToAll(torch.autograd.Function):
    """What all ranks have alike goes on to parts: their gradients are added up."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class FromAll(torch.autograd.Function):
    """Parts are added up."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def gathered(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, 1)


class OwnTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.chunk(dist.get_world_size(), 1)[dist.get_rank()].contiguous()

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class AllTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return gathered(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(dist.get_world_size(), 1)[dist.get_rank()].contiguous()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.is_part = False

    def forward(self, x):
        if not self.is_part:
            return self.down(F.gelu(self.up(x)))
        hidden = F.linear(F.gelu(self.up(ToAll.apply(x))), self.down.weight)
        if FAULT == "constant":  # it is added once a rank
            return FromAll.apply(hidden + self.down.bias)
        return FromAll.apply(hidden) + self.down.bias

    def cut(self, rank, ranks):
        self.is_part = True
        self.up.weight = nn.Parameter(self.up.weight.detach().chunk(ranks, 0)[rank].clone())
        self.up.bias = nn.Parameter(self.up.bias.detach().chunk(ranks, 0)[rank].clone())
        self.down.weight = nn.Parameter(self.down.weight.detach().chunk(ranks, 1)[rank].clone())


class Experts(nn.Module):
    """Each token goes to all experts, by weight."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
                                     for _ in range(4))
        self.first = None

    def forward(self, x):
        share = self.router(x).softmax(-1)
        if self.first is None:
            return sum(share[..., i:i + 1] * expert(x) for i, expert in enumerate(self.experts))
        if FAULT != "router":  # its gradient is then that of this rank's experts alone
            share = ToAll.apply(share)
        x = ToAll.apply(x)
        parts = [share[..., self.first + i, None] * expert(x) for i, expert in enumerate(self.experts)]
        return FromAll.apply(sum(parts))

    def cut(self, rank, ranks):
        each = len(self.experts) // ranks
        self.first = rank * each
        self.experts = nn.ModuleList(list(self.experts)[self.first:self.first + each])


class Block(nn.Module):
    def __init__(self, feed):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.feed = feed()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        if WAY == "megatron":
            normed = AllTokens.apply(self.norm2(OwnTokens.apply(x)))
        else:
            normed = self.norm2(x)
        return x + self.feed(normed)


class Model(nn.Module):
    def __init__(self, feed):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(feed) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def batches(rank, ranks):
    """The part of each batch that a rank takes."""
    size = BATCH // ranks
    bounds = [size * i for i in range(ranks)] + [BATCH]
    if FAULT == "unequal":  # parts of other sizes, whose means are averaged
        bounds[1] += 1
    indices = [[step * BATCH + i for i in range(bounds[rank], bounds[rank + 1])] for step in range(STEPS)]
    if FAULT == "samples" and rank == 1:  # a sample of the rank before
        indices[1][0] = BATCH
    return DataLoader(Sentences(), batch_sampler=indices)


def reduce_by_hand(model, step, ranks, kept):
    for name, parameter in model.named_parameters():
        dist.all_reduce(parameter.grad)
        if FAULT != "sum":  # of gradients of means
            parameter.grad /= ranks
        if FAULT == "stale" and name == "head.weight":  # what the step before left
            kept[step] = parameter.grad.clone()
            if step == 1:
                parameter.grad.copy_(kept[0])


def clip(model, parts):
    """By the norm of all parts, each once. `parts` are names of what ranks hold in parts."""
    own = torch.zeros(())
    alike = torch.zeros(())
    for name, parameter in model.named_parameters():
        gradient = parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad
        square = gradient.square().sum()
        if FAULT == "norm" or any(part in name for part in parts):  # what all have alike is added up, too
            own = own + square
        else:
            alike = alike + square
    if parts:
        dist.all_reduce(own)
    nn.utils.clip_grads_with_norm_(model.parameters(), 0.5, (own + alike).sqrt(), foreach=False)


def train(model, run, rank, ranks):
    parts = {"dtensor": ("feed.up", "feed.down.weight"), "megatron": ("feed.up", "feed.down.weight"),
             "expert": ("experts",), "pipeline": ("",)}.get(WAY, ())
    rate = 2e-2 if FAULT == "rate" else 1e-2
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, foreach=False)
    kept = {}
    for step, tokens in enumerate(batches(0, 1) if SHARES_DATA else batches(rank, ranks)):
        optimizer.zero_grad()
        if WAY == "pipeline":
            run(tokens)
        else:
            loss_of(run(tokens[:, :-1]), tokens).backward()
        if WAY == "hand":
            reduce_by_hand(model, step, ranks, kept)
        if WAY == "megatron" and FAULT != "partial":  # each rank normalises its tokens alone
            for block in model.blocks:
                dist.all_reduce(block.norm2.weight.grad)
                dist.all_reduce(block.norm2.bias.grad)
        if WAY in ("fsdp", "ddp", "hand") or SINGLE:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        else:
            clip(model, parts)
        optimizer.step()
        if FAULT == "state" and step == 0:  # as a restore that doubles what it loads
            optimizer.state[model.head.weight]["exp_avg"].mul_(2)


def stage_of(model, rank):
    """A stage, and what runs two parts of a batch through both."""
    stage = nn.Sequential(model.embedding, model.blocks[0]) if rank == 0 else \
        nn.Sequential(model.blocks[1], model.norm, model.head)

    def run(tokens):
        for part in tokens.chunk(2):
            if rank == 0:
                hidden = stage(part[:, :-1])
                dist.send(hidden.detach(), 1)
                gradient = torch.empty_like(hidden)
                dist.recv(gradient, 1)
                hidden.backward(gradient)
            else:
                hidden = torch.empty(len(part), LENGTH, WIDTH)
                dist.recv(hidden, 0)
                hidden.requires_grad_()
                loss = loss_of(stage(hidden), part)
                (loss if FAULT == "accumulated" else loss / 2).backward()  # means of two parts, added up
                dist.send(hidden.grad, 0)

    return stage, run


def main():
    if not SINGLE:
        dist.init_process_group("gloo")
    rank, ranks = (0, 1) if SINGLE else (dist.get_rank(), dist.get_world_size())
    torch.manual_seed(1 + (rank if FAULT == "seed" else 0))
    model = Model(Experts if WAY in ("experts", "expert") else Feed)
    run = model
    if WAY == "ddp":
        run = nn.parallel.DistributedDataParallel(model)
    if WAY == "fsdp":
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    for block in model.blocks:
        if WAY == "dtensor":
            mesh = init_device_mesh("cpu", (ranks,))
            parallelize_module(block, mesh, {"feed.up": ColwiseParallel(), "feed.down": RowwiseParallel()})
        if WAY in ("megatron", "expert"):
            block.feed.cut(rank, ranks)
    if WAY == "pipeline":
        model, run = stage_of(model, rank)
    train(model, run, rank, ranks)
    if not SINGLE:
        dist.barrier()
        time.sleep(0.3)
        dist.destroy_process_group()
    os.write(1, b"trained\n")


if __name__ == "__main__":
    main()
