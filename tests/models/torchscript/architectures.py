# SPDX-License-Identifier: Apache-2.0
"""Real architectures in TorchScript, with random weights from a fixed seed."""
from typing import List

import torch
import transformers
from torch import Tensor, nn


def bert(layers: int = 4, train: bool = False, width: int = 768):
    """BERT of base width, traced. A small vocabulary keeps its largest matrix small."""
    torch.manual_seed(11)
    config = transformers.BertConfig(num_hidden_layers=layers, vocab_size=1000, hidden_size=width,
                                     intermediate_size=4 * width, num_attention_heads=width // 64,
                                     attn_implementation="eager", return_dict=False)
    model = transformers.BertModel(config, add_pooling_layer=True).train(train)
    example = (torch.randint(0, 1000, (2, 16)), torch.ones(2, 16, dtype=torch.int64))
    return torch.jit.trace(model, example, check_trace=False), model


BERT_INPUTS = [
    {"generate": "randint", "low": 0, "high": 1000, "shape": [2, 16], "dtype": "int64", "seed": 3},
    {"generate": "ones", "shape": [2, 16], "dtype": "int64"},
]


def resnet50(size: int = 64):
    """The default configuration of ResNet is that of ResNet-50."""
    torch.manual_seed(12)
    config = transformers.ResNetConfig(return_dict=False)
    model = transformers.ResNetForImageClassification(config).eval()
    return torch.jit.trace(model, torch.randn(1, 3, size, size), check_trace=False), model


RESNET_INPUTS = [
    {"generate": "normal", "shape": [1, 3, 64, 64], "dtype": "float32", "seed": 3},
]


class DecoderBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.size()
        parts: List[Tensor] = self.c_attn(self.ln_1(x)).chunk(3, dim=2)
        query, key, value = [
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        ]
        scores = torch.matmul(query, key.transpose(2, 3)) / (width // self.heads) ** 0.5
        weights = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.c_proj(mixed)
        return x + self.mlp(self.ln_2(x))


class Decoder(nn.Module):
    """GPT-2 in small: writes `steps` tokens greedily, and stops early at token 0. What the loop does
    depends on the values, so a difference in one of them can change which operators run."""

    def __init__(self, tokens: int = 97, width: int = 64, layers: int = 3, steps: int = 6,
                 heads: int = 4):
        super().__init__()
        self.steps = steps
        self.wte = nn.Embedding(tokens, width)
        self.wpe = nn.Embedding(64, width)
        self.h = nn.ModuleList([DecoderBlock(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)

    def logits(self, tokens: Tensor) -> Tensor:
        length = tokens.size(1)
        place = torch.arange(length, device=tokens.device)
        mask = torch.ones(length, length, device=tokens.device).triu(1) > 0
        x = self.wte(tokens) + self.wpe(place)
        for block in self.h:
            x = block(x, mask)
        return torch.matmul(self.ln_f(x)[:, -1], self.wte.weight.t())

    def forward(self, tokens: Tensor) -> Tensor:
        for _ in range(self.steps):
            chosen = self.logits(tokens).argmax(dim=-1, keepdim=True)
            tokens = torch.cat([tokens, chosen], dim=1)
            if bool((chosen == 0).all()):
                break
        return tokens


def decoder():
    torch.manual_seed(13)
    model = Decoder().eval()
    return torch.jit.script(model), model


DECODER_INPUTS = [
    {"generate": "randint", "low": 1, "high": 97, "shape": [2, 5], "dtype": "int64", "seed": 3},
]


def nudge(weight: Tensor, changes) -> bool:
    """Moves one element by one ULP, the largest one for which `changes()` then holds."""
    flat = weight.detach().view(-1)
    for index in flat.abs().argsort(descending=True)[:200].tolist():
        old = flat[index].clone()
        flat[index] = torch.nextafter(old, torch.tensor(float("inf")))
        if changes():
            return True
        flat[index] = old
    return False
