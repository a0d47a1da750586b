# SPDX-License-Identifier: Apache-2.0
"""Plants faults into models, one at a time, and asks repro-check where they are and what they are.

usage: planted_faults.py [--full] [NAME ...]     faults whose name holds one of these words; all by
                                                 default
  --full   models of full size, and one fault of each kind in each: ResNet-50 on 224 x 224, BERT-base
           on 128 tokens, a decoder of 12 layers of 768 on 64; some GB of memory and disk

Prints a table and totals, and ends with 1 when a fault was missed or named wrongly. What is expected
comes from where a fault was planted and, for faults that need not show, from running the module by
itself in Python."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, NamedTuple

import harness

harness.need("torch", "transformers", "numpy")

import numpy
import torch
import transformers
from torch import nn

from torchscript import architectures, faults


class Expected(NamedTuple):
    module: str
    operator: str  # a regular expression
    causes: tuple
    later: str = ""  # a cause that some later operator must have


class Fault(NamedTuple):
    model: str
    kind: str
    place: str
    plant: Callable
    expected: Expected
    may_hide: bool = False  # where the module gives the same bits, the runs must be reproducible
    prepare: Callable = None  # done to the baseline too


class Size(NamedTuple):
    layers: int
    width: int
    heads: int
    tokens: tuple  # of BERT, and of the decoder: batch and length
    prompt: tuple
    image: int


SMALL = Size(layers=4, width=64, heads=4, tokens=(2, 16), prompt=(2, 12), image=64)
FULL = Size(layers=12, width=768, heads=12, tokens=(1, 128), prompt=(1, 64), image=224)
size = SMALL


def resnet(train: bool = False):
    """ResNet-50, and in small its layers an eighth as wide."""
    torch.manual_seed(12)
    thin = {} if size is FULL else {"embedding_size": 8, "hidden_sizes": [32, 64, 128, 256]}
    config = transformers.ResNetConfig(return_dict=False, **thin)
    return transformers.ResNetForImageClassification(config).eval()


def bert(train: bool = False):
    return architectures.bert(layers=size.layers, train=train, width=max(size.width, 128))[1]


class Block(architectures.DecoderBlock):
    """Without its mask."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.size()
        parts = self.c_attn(self.ln_1(x)).chunk(3, dim=2)
        query, key, value = [
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        ]
        scores = torch.matmul(query, key.transpose(2, 3)) / (width // self.heads) ** 0.5
        weights = torch.softmax(scores, dim=-1)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.c_proj(mixed)
        return x + self.mlp(self.ln_2(x))


class OneStep(nn.Module):
    """One pass of the decoder, its logits: nothing is chosen by value. Dropout before the end shows
    what an inserted draw does to a later one."""

    def __init__(self, decoder, dropout: float):
        super().__init__()
        self.decoder = decoder
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens):
        place = torch.arange(tokens.size(1))
        mask = torch.ones(tokens.size(1), tokens.size(1)).triu(1) > 0
        x = self.decoder.wte(tokens) + self.decoder.wpe(place)
        for block in self.decoder.h:
            x = block(x, mask)
        return torch.matmul(self.decoder.ln_f(self.drop(x)), self.decoder.wte.weight.t())


def decoder(train: bool = False):
    torch.manual_seed(13)
    return OneStep(architectures.Decoder(width=size.width, layers=size.layers, heads=size.heads),
                   0.1).train(train)


def example(model: str) -> tuple:
    rng = numpy.random.default_rng(5)
    if model.startswith("resnet"):
        image = rng.standard_normal((1, 3, size.image, size.image))
        return (torch.from_numpy(image.astype("float32")),)
    if model.startswith("bert"):
        mask = torch.ones(*size.tokens, dtype=torch.int64)
        mask[-1, -4:] = 0  # padding: what a dropped mask lets in
        return (torch.from_numpy(rng.integers(0, 1000, size.tokens)), mask)
    return (torch.from_numpy(rng.integers(1, 97, size.prompt)),)


MODELS = {"resnet": resnet, "bert": bert, "decoder": decoder,
          "bert-train": lambda: bert(True), "decoder-train": lambda: decoder(True)}

# Places of each kind of module: early, in the middle, late.
PLACES = {
    "resnet": {
        "product": ["resnet.embedder.embedder.convolution",
                    "resnet.encoder.stages.1.layers.2.layer.1.convolution",
                    "resnet.encoder.stages.3.layers.2.layer.2.convolution", "classifier.1"],
        "pointwise": ["resnet.encoder.stages.0.layers.0.layer.0.convolution",
                      "resnet.encoder.stages.2.layers.3.layer.2.convolution", "classifier.1"],
        "norm": ["resnet.embedder.embedder.normalization",
                 "resnet.encoder.stages.1.layers.0.layer.2.normalization",
                 "resnet.encoder.stages.3.layers.1.layer.1.normalization"],
        "swap": [("resnet.encoder.stages.0.layers.1", "resnet.encoder.stages.0.layers.2"),
                 ("resnet.encoder.stages.2.layers.2", "resnet.encoder.stages.2.layers.4")],
        "first": ["resnet.encoder.stages.0.layers.1.layer.0.convolution",
                  "resnet.encoder.stages.2.layers.2.layer.0.convolution"],
    },
    "bert": {
        "product": ["encoder.layer.0.attention.self.query", "encoder.layer.1.intermediate.dense",
                    "encoder.layer.3.output.dense", "pooler.dense"],
        "pointwise": ["encoder.layer.0.attention.self.value", "encoder.layer.2.output.dense",
                      "pooler.dense"],
        "norm": ["embeddings.LayerNorm", "encoder.layer.1.attention.output.LayerNorm",
                 "encoder.layer.3.output.LayerNorm"],
        "swap": [("encoder.layer.0", "encoder.layer.1"), ("encoder.layer.1", "encoder.layer.3")],
        "first": ["encoder.layer.0.attention.self.query", "encoder.layer.1.attention.self.query"],
    },
    "decoder": {
        "product": ["decoder.h.0.c_attn", "decoder.h.1.mlp.0", "decoder.h.2.c_proj",
                    "decoder.h.3.mlp.2"],
        "pointwise": ["decoder.h.0.mlp.2", "decoder.h.2.c_attn", "decoder.h.3.c_proj"],
        "norm": ["decoder.h.0.ln_1", "decoder.h.2.ln_2", "decoder.ln_f"],
        "swap": [("decoder.h.0", "decoder.h.1"), ("decoder.h.1", "decoder.h.3")],
        # The norms before them all begin with the same weights.
        "first": ["decoder.h.0.c_attn", "decoder.h.1.c_attn"],
    },
}

UNMATCHED = ("extra", "missing", "operator differs", "decomposed", "control flow")


def own(model: str, place: str, causes: tuple, **more) -> Expected:
    module = MODELS[model]().get_submodule(place)
    return Expected(place, faults.OWN_OPERATOR[faults.base_of(module)], causes, **more)


def weight_faults(model: str, places: dict) -> list:
    found = []
    for place in places["product"]:
        for element in (0, 40):
            found.append(Fault(
                model, "one ULP", f"{place} #{element}",
                lambda m, p=place, e=element: faults.nudge_weight(m, p, e),
                own(model, place, ("weights",)), may_hide=True))
    place = places["product"][1]
    found.append(Fault(model, "one ULP, absorbed", place,
                       lambda m: faults.tiny_weight(m, place), own(model, place, ("weights",)),
                       may_hide=True, prepare=lambda m: faults.zero_weight(m, place)))
    place = places["product"][2]
    found.append(Fault(model, "noise in a weight", place,
                       lambda m: faults.noisy_weight(m, place), own(model, place, ("weights",))))
    for (left, right), first in zip(places["swap"], places["first"]):
        found.append(Fault(model, "swapped layers", f"{left} {right}",
                           lambda m, a=left, b=right: faults.swap(m, a, b),
                           own(model, first, ("weights",)), may_hide=True))
    return found


def class_faults(model: str, places: dict) -> list:
    found = []
    for place in [*places["pointwise"], places["norm"][1]]:
        found.append(Fault(model, "slower equivalent", place,
                           lambda m, p=place: faults.replace(m.get_submodule(p), faults.SLOWER),
                           Expected(place, r"aten::.*", UNMATCHED)))
    for place in places["product"][:3]:
        found.append(Fault(model, "noise added", place,
                           lambda m, p=place: faults.noisy_output(m, p),
                           Expected(place, r"aten::add", UNMATCHED)))
        found.append(Fault(model, "bf16 cast", place,
                           lambda m, p=place: faults.replace(m.get_submodule(p), faults.BF16),
                           Expected(place, r"aten::to", UNMATCHED)))
    for place in places["norm"]:
        def other_epsilon(m, p=place):
            m.get_submodule(p).eps = 1e-3

        found.append(Fault(model, "changed epsilon", place, other_epsilon,
                           own(model, place, ("argument differs",)), may_hide=True))
    drawing = f"{model}-train" if f"{model}-train" in MODELS else model
    for place in places["pointwise"][:2]:
        later = "rng stream" if drawing != model else ""
        found.append(Fault(drawing, "draw inserted", place,
                           lambda m, p=place: faults.replace(m.get_submodule(p), faults.DRAWING),
                           Expected(place, r"aten::rand", UNMATCHED, later)))
    return found


def drop_mask(model, number: int):
    model.decoder.h[number].__class__ = Block


def every_fault() -> list:
    found = []
    for model, places in PLACES.items():
        found += weight_faults(model, places) + class_faults(model, places)
    for number in range(4):
        place = f"decoder.h.{number}"
        found.append(Fault("decoder", "dropped mask", place,
                           lambda m, n=number: drop_mask(m, n),
                           Expected(place, r"aten::masked_fill", UNMATCHED)))
        place = f"encoder.layer.{number}.attention.self"
        found.append(Fault("bert", "dropped mask", place,
                           lambda m, p=place: faults.drop_attention_mask(m, p),
                           Expected(place, r"aten::add", UNMATCHED)))
    return found


def one_of_each(faults_of_all: list) -> list:
    """The middle one of every kind in every model."""
    kinds = {}
    for fault in faults_of_all:
        kinds.setdefault((fault.model.split("-")[0], fault.kind), []).append(fault)
    return [found[len(found) // 2] for found in kinds.values()]


def shows(fault: Fault) -> bool:
    """Whether the module by itself gives other bits for what it is given in the baseline."""
    place = fault.expected.module
    outputs = []
    for plant in (False, True):
        model = MODELS[fault.model]()
        if fault.prepare:
            fault.prepare(model)
        if plant:
            fault.plant(model)
        hook = model.get_submodule(place).register_forward_hook(
            lambda module, inputs, output: outputs.append(output.detach().clone()))
        with torch.no_grad():
            model(*example(fault.model))
        hook.remove()
    return not torch.equal(outputs[0], outputs[1])


class Bench:
    """A folder with one recording of each baseline."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.baselines = {}

    def tool(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run([os.environ["REPRO_CHECK"], *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, timeout=600)

    def record(self, name: str, model: str, module: nn.Module) -> Path:
        inputs = example(model)
        traced = torch.jit.trace(module, inputs, check_trace=False)
        torch.jit.save(traced, str(self.folder / f"{name}.pt"))
        specification = []
        for number, tensor in enumerate(inputs):
            file = self.folder / f"{model}-input{number}.npy"
            numpy.save(file, tensor.numpy())
            specification.append({"npy": file.name})
        config = self.folder / f"{name}.json"
        config.write_text(json.dumps({"model": {"path": f"{name}.pt"}, "inputs": specification,
                                      "threads": 2, "seed": 1,
                                      "disable_dropout": not model.endswith("-train"),
                                      "dump": {"level": "tensor"}}),
                          encoding="utf-8")
        done = self.tool("record", "-c", config.name, "-o", name, "--force")
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")
        return self.folder / name

    def baseline(self, fault: Fault) -> Path:
        key = f"{fault.model}-prepared" if fault.prepare else fault.model
        if key not in self.baselines:
            module = MODELS[fault.model]()
            if fault.prepare:
                fault.prepare(module)
            self.baselines[key] = self.record(f"baseline-{key}", fault.model, module)
        return self.baselines[key]

    def report(self, fault: Fault) -> dict:
        baseline = self.baseline(fault)
        module = MODELS[fault.model]()
        if fault.prepare:
            fault.prepare(module)
        with torch.no_grad():
            fault.plant(module)
        candidate = self.record("candidate", fault.model, module)
        done = self.tool("diff", baseline.name, candidate.name, "--format", "json")
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{fault}: {done.returncode} {done.stdout[:500]}{done.stderr}")
        return json.loads(done.stdout)


def problems(fault: Fault, report: dict) -> list:
    """What the report says wrongly or not at all; empty when all of it is right."""
    first = report["first_divergence"]
    if fault.may_hide and not shows(fault):
        if report["verdict"]["exit_code"] == 0:
            return []
        return [f"is bit-identical, and not called so: {report['verdict']['headline']}"]
    if first is None:
        return ["missed"]
    expected = fault.expected
    found = []
    if first["key"]["module"] != expected.module:
        found.append(f"module {first['key']['module']}")
    if not re.fullmatch(expected.operator + r"(\..*)?", first["key"]["operator"]):
        found.append(f"operator {first['key']['operator']}")
    if first["cause"]["name"] not in expected.causes:
        found.append(f"cause {first['cause']['name']}")
    if expected.later and not any(item["cause"] and item["cause"]["name"] == expected.later
                                  for item in report["divergences"]["items"]):
        found.append(f"no later operator with cause {expected.later}")
    return found


def check(chosen: list) -> tuple:
    """Prints a line a fault. @return how many were wrong, and missed"""
    wrong = missed = hidden = 0
    with tempfile.TemporaryDirectory(prefix="repro-check-faults-") as folder:
        bench = Bench(Path(folder))
        for fault in chosen:
            report = bench.report(fault)
            found = problems(fault, report)
            missed += found == ["missed"]
            wrong += bool(found) and found != ["missed"]
            hidden += not found and report["verdict"]["exit_code"] == 0
            first = report["first_divergence"]
            said = ("reproducible" if first is None else
                    f"{first['key']['operator']} in {first['key']['module']}: "
                    f"{first['cause']['name']}")
            print(f"{'ok   ' if not found else 'WRONG'} {fault.model:13} {fault.kind:18} "
                  f"{fault.place}\n      {said}"
                  + ("" if not found else f"\n      not right: {'; '.join(found)}"), flush=True)
    print(f"{len(chosen)} faults: {len(chosen) - wrong - missed} named rightly, of which {hidden} "
          f"bit-identical and called reproducible; {wrong} wrong, {missed} missed")
    return wrong, missed


def main() -> int:
    global size
    torch.set_num_threads(2)
    words = sys.argv[1:]
    if words in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    known = every_fault()  # the module paths of small models are in large ones too
    if "--full" in words:
        words.remove("--full")
        size = FULL
        known = one_of_each(known)
    chosen = [fault for fault in known
              if not words or any(word in f"{fault.model} {fault.kind}" for word in words)]
    if not chosen:
        print(f"no fault is called {' or '.join(words)}", file=sys.stderr)
        return 2
    start = time.monotonic()
    outcome = check(chosen)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if any(outcome) else 0


if __name__ == "__main__":
    sys.exit(main())
