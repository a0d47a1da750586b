# SPDX-License-Identifier: Apache-2.0
"""A training of two blocks under torch.compile: `compiled_blocks.py CASE`. Cases with a fault: decomposition (of silu),
lowering (of the operator own::scale), captured (a branch that only compiled code takes). Without: dropout, breaks (in
the graph), regions (the blocks are compiled one by one)."""
import sys

import torch
from torch import nn

CASE = sys.argv[1]

if CASE == "decomposition":
    from torch._inductor import decomposition

    decomposition.decompositions[torch.ops.aten.silu.default] = lambda x: x * torch.sigmoid(1.01 * x)

if CASE == "lowering":
    from torch._inductor.lowering import lowerings, register_lowering

    library = torch.library.Library("own", "DEF")
    library.define("scale(Tensor x) -> Tensor")
    library.impl("scale", lambda x: x * 1.5, "CompositeExplicitAutograd")
    torch.library.register_fake("own::scale", torch.empty_like)
    torch.library.register_autograd("own::scale", lambda _, gradient: gradient * 1.5)
    register_lowering(torch.ops.own.scale.default)(lambda x: lowerings[torch.ops.aten.mul.Tensor](x, 1.25))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.drop = nn.Dropout(0.5 if CASE == "dropout" else 0.0)

    def forward(self, x):
        hidden = nn.functional.silu(self.up(self.norm(x)))
        if CASE == "lowering":
            hidden = torch.ops.own.scale(hidden)
        if CASE == "captured" and torch.compiler.is_compiling():
            hidden = hidden * 1.0001
        return x + self.drop(self.down(hidden))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        x = self.blocks[0](x)
        if CASE == "breaks":
            torch._dynamo.graph_break()
        return self.norm(self.blocks[1](x))


net = Net()
if CASE == "regions":
    for block in net.blocks:
        block.compile()
    run = net
else:
    run = torch.compile(net)
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    loss = run(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
