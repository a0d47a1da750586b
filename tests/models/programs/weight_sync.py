# SPDX-License-Identifier: Apache-2.0
"""A trainer that leaves its weights in files, and an engine that loads them into fused layers.

usage: weight_sync.py train FOLDER [lora]     three steps; before.pt and last.pt of the last two
       weight_sync.py generate FOLDER HOW     HOW: right, half, earlier, block, rounded, shard, swapped, merged, base
"""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

WIDTH, HEADS, WORDS, LAYERS = 32, 4, 64, 2


class Adapted(torch.nn.Module):
    """A frozen weight and its adapter, as peft calls them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.base_layer = torch.nn.Linear(inputs, outputs, bias=False).requires_grad_(False)
        self.lora_A = torch.nn.Linear(inputs, 4, bias=False)
        self.lora_B = torch.nn.Linear(4, outputs, bias=False)
        torch.nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base_layer(x) + 2.0 * self.lora_B(self.lora_A(x))


class Layer(torch.nn.Module):
    def __init__(self, lora):
        super().__init__()
        make = Adapted if lora else lambda a, b: torch.nn.Linear(a, b, bias=False)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.q_proj, self.k_proj, self.v_proj = make(WIDTH, WIDTH), make(WIDTH, WIDTH), make(WIDTH, WIDTH)
        self.gate_proj, self.up_proj = make(WIDTH, 2 * WIDTH), make(WIDTH, 2 * WIDTH)
        self.down_proj = make(2 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (self.q_proj(y), self.k_proj(y), self.v_proj(y)))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return x + self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Trained(torch.nn.Module):
    def __init__(self, lora):
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(WORDS, WIDTH)
        self.layers = torch.nn.ModuleList(Layer(lora) for _ in range(LAYERS))
        self.lm_head = torch.nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


class Fused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ln = torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.gate_up = torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = torch.nn.Parameter(torch.empty(2 * WIDTH, WIDTH))  # turned

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.ln(x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        gate, up = self.gate_up(x).chunk(2, -1)
        return x + (F.silu(gate) * up) @ self.down


class Engine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.blocks = torch.nn.ModuleList(Fused() for _ in range(LAYERS))
        self.logits = torch.nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.logits(x)


def train(folder, lora):
    torch.manual_seed(0)
    model = Trained(lora)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for step in range(3):
        torch.save(model.state_dict(), folder / "before.pt")
        tokens = torch.randint(WORDS, (2, 8))
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save(model.state_dict(), folder / "last.pt")


def weight(state, name, how):
    if f"{name}.weight" in state:
        return state[f"{name}.weight"]
    base, up, down = (state[f"{name}.{part}.weight"] for part in ("base_layer", "lora_B", "lora_A"))
    return base + 2.0 * up @ down if how == "merged" else base


def generate(folder, how):
    last = torch.load(folder / "last.pt")
    before = torch.load(folder / "before.pt")
    engine = Engine()
    with torch.no_grad():
        state = before if how == "earlier" else last
        engine.words.weight.copy_(state["embed_tokens.weight"])
        engine.logits.weight.copy_(state["lm_head.weight"])
        for number, block in enumerate(engine.blocks):
            own = before if how == "block" and number == 1 else state
            name = f"layers.{number}."
            block.ln.load_state_dict({part: own[f"{name}norm.{part}"] for part in ("weight", "bias")})
            parts = [weight(own, f"{name}{part}_proj", how) for part in ("q", "k", "v")]
            if how == "swapped":
                parts[:2] = reversed(parts[:2])
            block.qkv.weight.copy_(torch.cat(parts))
            parts = [weight(own, f"{name}{part}_proj", how) for part in ("gate", "up")]
            if how == "shard" and number == 1:
                parts[1] = torch.randn(2 * WIDTH, WIDTH)
            block.gate_up.weight.copy_(torch.cat(parts))
            block.down.copy_(weight(own, f"{name}down_proj", how).T)
        if how == "rounded":
            for parameter in engine.parameters():
                parameter.copy_(parameter.bfloat16())
        if how == "half":
            engine.bfloat16()
        engine(torch.arange(8).view(1, 8))


if __name__ == "__main__":
    place = Path(sys.argv[2])
    if sys.argv[1] == "train":
        train(place, "lora" in sys.argv)
    else:
        generate(place, sys.argv[3])
