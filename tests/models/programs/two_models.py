# SPDX-License-Identifier: Apache-2.0
"""One model twice: by transformers, and by modules of other names that are cut otherwise.

usage: two_models.py llama|gpt2 reference [FAULT]    padded batch
       two_models.py llama|gpt2 ported [FAULT]       Llama: packed rows in another order, fused qkv and gate_up;
                                                     GPT-2: a Linear each for q, k and v
       two_models.py gpt2 decoded [FAULT]            10 tokens, then one at a time, with a cache
A fault is in block 1, if it is in a block.
"""
import math
import sys

import torch
import transformers
from torch import nn

WIDTH, INNER, LAYERS, WORDS, HEADS, LONGEST = 64, 176, 3, 200, 4, 16
TEMPERATURE = 0.7
kind, side = sys.argv[1:3]
fault = sys.argv[3] if len(sys.argv) > 3 else ""
transformers.logging.set_verbosity_error()


def has(name, block):
    return fault == name and block == 1


class Norm(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(WIDTH)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.gain


class PackedAttention(nn.Module):
    """Rotary, grouped heads, over rows of all requests."""

    def __init__(self, block):
        super().__init__()
        self.block = block
        self.qkv = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, position, request):
        size, half = WIDTH // HEADS, HEADS // 2
        q, k, v = self.qkv(x).split([WIDTH, WIDTH // 2, WIDTH // 2], -1)
        rows = x.shape[0]
        q, k, v = q.view(rows, HEADS, size), k.view(rows, half, size), v.view(rows, half, size)
        angle = position[:, None].float() / 10000.0 ** (torch.arange(0, size, 2).float() / size)
        cos, sin = (torch.cat([f(angle), f(angle)], -1)[:, None] for f in (torch.cos, torch.sin))
        if has("rotary-bf16", self.block):
            cos, sin = cos.bfloat16().float(), sin.bfloat16().float()

        def turned(t):
            return torch.cat([-t[..., size // 2:], t[..., :size // 2]], -1)

        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        ahead = 1 if has("mask", self.block) else 0
        seen = (request[:, None] == request[None]) & (position[:, None] + ahead >= position[None])
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(size)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return self.out(torch.einsum("hqk,khd->qhd", weights, v).reshape(rows, WIDTH))


class PackedFeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(nn.functional.silu(gate) * up)


class PackedBlock(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block
        self.first, self.second = Norm(1e-5 if has("eps", block) else 1e-6), Norm(1e-6)
        self.att, self.ff = PackedAttention(block), PackedFeedForward()

    def forward(self, x, position, request):
        x = x + self.att(self.first(x), position, request)
        return x + (0.5 if has("scale", self.block) else 1.0) * self.ff(self.second(x))


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(PackedBlock(i) for i in range(LAYERS))
        self.last, self.words = Norm(1e-6), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids, position, request):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, position, request)
        return self.words(self.last(x))


class SeparateAttention(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        batch, rows, _ = x.shape
        q, k, v = (each(x).view(batch, rows, HEADS, -1).transpose(1, 2) for each in (self.q, self.k, self.v))
        if has("swapped", self.block):
            q, k = k, q
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        seen = torch.ones(rows, rows).tril(1 if has("mask", self.block) else 0) == 1
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, rows, WIDTH))


class SeparateBlock(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block
        self.first = nn.LayerNorm(WIDTH, 1e-4 if has("eps", block) else 1e-5)
        self.second, self.att = nn.LayerNorm(WIDTH), SeparateAttention(block)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.att(self.first(x))
        inner = nn.functional.gelu(self.up(self.second(x)), approximate="none" if has("gelu", self.block) else "tanh")
        return x + (0.5 if has("scale", self.block) else 1.0) * self.down(inner)


class Separate(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(32, WIDTH)
        self.blocks = nn.ModuleList(SeparateBlock(i) for i in range(LAYERS))
        self.last, self.words = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.words.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.words(self.last(x))


def reference():
    if kind == "llama":
        config = transformers.LlamaConfig(hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
                                          num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, vocab_size=WORDS,
                                          attn_implementation="eager")
        model = transformers.LlamaForCausalLM(config)
    else:
        config = transformers.GPT2Config(n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, vocab_size=WORDS, n_positions=32,
                                         attn_implementation="eager")
        model = transformers.GPT2LMHeadModel(config)
    if fault != "fresh":  # norms of ones, biases of zeros
        for name, each in model.named_parameters():
            if "norm" in name or "ln_" in name or "bias" in name:
                nn.init.normal_(each, 0.0 if "bias" in name else 1.0, 0.02)
    return model.eval()


def put(module, **values):
    for name, value in values.items():
        getattr(module, name).copy_(value)


def packed(weights):
    model = Packed().eval()
    put(model.tokens, weight=weights["model.embed_tokens.weight"])
    put(model.words, weight=weights["lm_head.weight"])
    put(model.last, gain=weights["model.norm.weight"])
    for i, block in enumerate(model.blocks):
        of = {name.removeprefix(f"model.layers.{i}.").removesuffix(".weight"): value for name, value in weights.items()}
        put(block.first, gain=of["input_layernorm"])
        put(block.second, gain=of["post_attention_layernorm"])
        order = "kqv" if has("order", i) else "qkv"
        put(block.att.qkv, weight=torch.cat([of[f"self_attn.{each}_proj"] for each in order]))
        put(block.att.out, weight=of["self_attn.o_proj"])
        put(block.ff.gate_up, weight=torch.cat([of["mlp.gate_proj"], of["mlp.up_proj"]]))
        put(block.ff.down, weight=of["mlp.down_proj"])
    return model


def separate(weights):
    model = Separate().eval()
    put(model.tokens, weight=weights["transformer.wte.weight"])
    put(model.positions, weight=weights["transformer.wpe.weight"])
    put(model.last, weight=weights["transformer.ln_f.weight"], bias=weights["transformer.ln_f.bias"])
    for i, block in enumerate(model.blocks):
        of = {name.removeprefix(f"transformer.h.{i}."): value for name, value in weights.items()}
        put(block.first, weight=of["ln_1.weight"], bias=of["ln_1.bias"])
        put(block.second, weight=of["ln_2.weight"], bias=of["ln_2.bias"])
        parts = zip(of["attn.c_attn.weight"].split(WIDTH, 1), of["attn.c_attn.bias"].split(WIDTH))
        for each, (weight, bias) in zip((block.att.q, block.att.k, block.att.v), parts):
            put(each, weight=weight.T, bias=bias)
        for each, name in ((block.att.out, "attn.c_proj"), (block.up, "mlp.c_fc"), (block.down, "mlp.c_proj")):
            put(each, weight=of[name + ".weight"].T, bias=of[name + ".bias"])
    return model


def main():
    torch.manual_seed(0)
    model = reference()
    lengths = [11, 7, 16] if kind == "llama" else [16, 16]
    requests = [torch.randint(3, WORDS, (length,)) for length in lengths]
    ids = torch.stack([nn.functional.pad(each, (0, LONGEST - len(each))) for each in requests])
    there = torch.stack([torch.arange(LONGEST) < length for length in lengths]).long()
    if side == "reference":
        logits = model(input_ids=ids, attention_mask=there).logits / TEMPERATURE
    elif side == "decoded":
        logits = decoded(model, ids) / TEMPERATURE
    else:
        model = (packed if kind == "llama" else separate)(model.state_dict())
        if fault == "stale":
            for each in model.blocks[1].parameters():
                each += 1e-3 * torch.randn_like(each)
        if kind == "llama":
            order = [2, 0, 1]
            position = torch.cat([torch.arange(lengths[i]) for i in order])
            request = torch.cat([torch.full((lengths[i],), i) for i in order])
            logits = model(torch.cat([requests[i] for i in order]), position, request)
        else:
            logits = model(requests_of_others() if fault == "other-inputs" else ids)
        logits = logits / (1.0 if fault == "temperature" else TEMPERATURE)
    logits.log_softmax(-1)


def decoded(model, ids):
    cache, logits = transformers.DynamicCache(config=model.config), []
    for begin, end in ((0, 10), *((i, i + 1) for i in range(10, LONGEST))):
        if fault == "cache" and begin == 12:
            cache.layers[1].values[:, :, 3] *= 1.001
        logits.append(model(input_ids=ids[:, begin:end], past_key_values=cache, use_cache=True).logits)
    return torch.cat(logits, 1)


def requests_of_others():
    return torch.randint(3, WORDS, (2, LONGEST))


if __name__ == "__main__":
    with torch.no_grad():
        main()
