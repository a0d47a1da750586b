# SPDX-License-Identifier: Apache-2.0
"""A convolutional net, and the same by other means.

usage: two_convnets.py reference
       two_convnets.py channels-last|folded [FAULT]    folded: batch norms are in the convolutions
"""
import sys

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

side = sys.argv[1]
fault = sys.argv[2] if len(sys.argv) > 2 else ""


class Block(nn.Module):
    def __init__(self, width, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = None if stride == 1 else nn.Conv2d(width, out, 1, stride)
        self.scale = 1.0

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return ((x if self.down is None else self.down(x)) + self.scale * y).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(Block(16, 16), Block(16, 32, 2), Block(32, 32))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.blocks(self.norm(self.stem(x)).relu())
        return self.head(x.mean((2, 3)))


def fold(net):
    net.stem, net.norm = fuse_conv_bn_eval(net.stem, net.norm), nn.Identity()
    for block in net.blocks:
        for k in ("1", "2"):
            conv, norm = getattr(block, "conv" + k), getattr(block, "bn" + k)
            setattr(block, "conv" + k, fuse_conv_bn_eval(conv, norm))
            setattr(block, "bn" + k, nn.Identity())


def main():
    torch.manual_seed(0)
    net = Net().eval()
    for each in net.modules():
        if isinstance(each, nn.BatchNorm2d):
            nn.init.normal_(each.weight, 1, 0.1)
            nn.init.normal_(each.bias, 0, 0.1)
            nn.init.normal_(each.running_mean, 0, 0.1)
            nn.init.uniform_(each.running_var, 0.5, 1.5)
    x = torch.randn(4, 3, 16, 16)
    if fault == "eps":
        net.blocks[1].bn1.eps = 1e-3
    if fault == "scale":
        net.blocks[1].scale = 0.5
    if fault == "stale":
        net.blocks[1].conv1.weight.add_(1e-3 * torch.randn_like(net.blocks[1].conv1.weight))
    if side == "channels-last":
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if side == "folded":
        fold(net)
    if fault == "stride":
        net.blocks[1].conv2.padding = (0, 2)
    net(x).log_softmax(-1)


if __name__ == "__main__":
    with torch.no_grad():
        main()
