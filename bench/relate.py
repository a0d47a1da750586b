#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Llama by transformers against Llama by litgpt: `relate.py REPRO_CHECK SCRATCH`, by a Python that has both packages
(that of bench/programs). Records both, relates them, then the second one with a fault each. Prints the first line, and
ends with 1 where the healthy one is accused or a fault is not at its module."""
import json
import subprocess
import sys
from pathlib import Path

WORDS, WIDTH, LAYERS, HEADS, GROUPS, INNER = 128, 64, 3, 4, 2, 160
#: The modules of litgpt at which a fault shows.
FAULTS = {"": "", "base": "transformer.h.0.attn.proj", "eps": "transformer.h.0.norm_1",
          "stale": "transformer.h.1.mlp.proj", "order": "transformer.h.1.attn.proj"}


def compute(side: str, fault: str) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=GROUPS, intermediate_size=INNER, rms_norm_eps=1e-6, rope_theta=10000.0,
        attn_implementation="eager")).eval()
    for name, each in model.named_parameters():
        if "norm" in name:  # ones
            torch.nn.init.normal_(each, 1.0, 0.02)
    ids = torch.randint(3, WORDS, (2, 12))
    with torch.no_grad():
        logits = model(input_ids=ids).logits if side == "transformers" else by_litgpt(model, fault)(ids)
        logits.log_softmax(-1)


def by_litgpt(model, fault: str):
    import litgpt
    from litgpt.scripts.convert_hf_checkpoint import copy_weights_hf_llama

    config = litgpt.Config(
        name="tiny", n_layer=LAYERS, n_head=HEADS, n_query_groups=GROUPS, n_embd=WIDTH, vocab_size=WORDS,
        padded_vocab_size=WORDS, block_size=64, bias=False, parallel_residual=False, rotary_percentage=1.0,
        norm_class_name="RMSNorm", norm_eps=1e-5 if fault == "eps" else 1e-6, mlp_class_name="LLaMAMLP",
        intermediate_size=INNER, rope_base=500000 if fault == "base" else 10000)
    weights: dict = {}
    copy_weights_hf_llama(config, {}, weights, dict(model.state_dict()))
    other = litgpt.GPT(config).eval()
    other.load_state_dict(weights)
    if fault == "stale":
        other.transformer.h[1].mlp.proj.weight.add_(1e-3)
    if fault == "order":  # keys before queries
        qkv = other.transformer.h[1].attn.qkv.weight
        q, k, v = qkv.clone().split([WIDTH, WIDTH // 2, WIDTH // 2])
        qkv.copy_(q.new_tensor(0).expand_as(qkv))
        qkv[:WIDTH // 2], qkv[WIDTH // 2:WIDTH + WIDTH // 2], qkv[-WIDTH // 2:] = k, q, v
    return other


def main() -> int:
    tool, scratch = sys.argv[1:]

    def record(side: str, fault: str, depth: str) -> Path:
        dump = Path(scratch) / f"{side}{fault}"
        subprocess.run([tool, "exec", "-q", "--force", "--level", "tensor", "--depth", depth, "-o", dump, "--",
                        sys.executable, __file__, side, fault], check=True)
        return dump

    reference, wrong = record("transformers", "", "all"), 0
    for fault, module in FAULTS.items():
        done = subprocess.run([tool, "relate", reference, record("litgpt", fault, "top"), "--format", "json"],
                              stdout=subprocess.PIPE, text=True, check=False)
        report = json.loads(done.stdout)
        first = report["findings"][0]["where"]["tensor"] if report["findings"] else ""
        wrong += first != module or done.returncode != bool(fault)
        print(f"{fault or 'healthy':<8} {'right' if first == module else 'WRONG'}  {report['headline']}")
    return wrong > 0


if __name__ == "__main__":
    if sys.argv[1] in ("transformers", "litgpt"):
        compute(*sys.argv[1:])
    else:
        sys.exit(main())
