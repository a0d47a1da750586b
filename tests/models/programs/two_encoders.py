# SPDX-License-Identifier: Apache-2.0
"""BERT of transformers, and the same by PyTorch's own encoder.

usage: two_encoders.py reference
       two_encoders.py ported [FAULT]    a fault is in layer 1, if it is in a layer
"""
import sys

import torch
import transformers
from torch import nn

WIDTH, INNER, LAYERS, WORDS, HEADS, LONGEST = 64, 160, 3, 200, 4, 16
side = sys.argv[1]
fault = sys.argv[2] if len(sys.argv) > 2 else ""
transformers.logging.set_verbosity_error()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(32, WIDTH)
        self.kinds, self.first = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH, 1e-12)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.1, "gelu", 1e-12, batch_first=True)
        self.stack = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor="nested" in fault)
        self.pool = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids, there):
        x = self.words(ids) + self.kinds(torch.zeros_like(ids)) + self.places(torch.arange(ids.shape[1]))
        x = self.stack(self.first(x), src_key_padding_mask=None if fault == "padding" else there == 0)
        return x, self.pool(x[:, 0]).tanh()


def reference():
    config = transformers.BertConfig(hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
                                     num_attention_heads=HEADS, vocab_size=WORDS, max_position_embeddings=32,
                                     attn_implementation="eager")
    model = transformers.BertModel(config).eval()
    for name, each in model.named_parameters():
        if "LayerNorm" in name or "bias" in name:
            nn.init.normal_(each, 0.0 if "bias" in name else 1.0, 0.02)
    return model


def put(module, **values):
    for name, value in values.items():
        getattr(module, name).copy_(value)


def ported(weights):
    model = Encoder().eval()

    def of(name):
        return {"weight": weights[name + ".weight"], "bias": weights[name + ".bias"]}

    for each, name in ((model.words, "word"), (model.places, "position"), (model.kinds, "token_type")):
        put(each, weight=weights[f"embeddings.{name}_embeddings.weight"])
    put(model.first, **of("embeddings.LayerNorm"))
    put(model.pool, **of("pooler.dense"))
    for i, layer in enumerate(model.stack.layers):
        at = f"encoder.layer.{i}."
        order = ("key", "query", "value") if (fault, i) == ("swapped", 1) else ("query", "key", "value")
        parts = [of(f"{at}attention.self.{each}") for each in order]
        put(layer.self_attn, in_proj_weight=torch.cat([each["weight"] for each in parts]),
            in_proj_bias=torch.cat([each["bias"] for each in parts]))
        put(layer.self_attn.out_proj, **of(at + "attention.output.dense"))
        put(layer.norm1, **of(at + "attention.output.LayerNorm"))
        put(layer.linear1, **of(at + "intermediate.dense"))
        put(layer.linear2, **of(at + "output.dense"))
        put(layer.norm2, **of(at + "output.LayerNorm"))
        if (fault, i) == ("eps", 1):
            layer.norm1.eps = 1e-3
        if (fault, i) == ("gelu", 1):
            layer.activation_relu_or_gelu, layer.activation = 0, lambda x: nn.functional.gelu(x, approximate="tanh")
        if (fault, i) == ("stale", 1):
            for each in layer.parameters():
                each += 1e-3 * torch.randn_like(each)
    return model


def main():
    torch.manual_seed(0)
    model = reference()
    lengths = torch.tensor([11, 7, 16])
    ids = torch.randint(3, WORDS, (3, LONGEST))
    there = (torch.arange(LONGEST) < lengths[:, None]).long()
    if side == "reference":
        model(input_ids=ids, attention_mask=there)
    else:
        ported(model.state_dict())(ids, there)


if __name__ == "__main__":
    with torch.no_grad():
        main()
