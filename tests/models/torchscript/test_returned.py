# SPDX-License-Identifier: Apache-2.0
"""What a model returns: recorded with every call and compared, though no operator differs."""
import harness

harness.need("torch", "h5py")

import enum
from typing import Dict, List, NamedTuple, Optional, Tuple

import h5py
import torch
from torch import Tensor, nn

FLOATS = [{"generate": "uniform", "shape": [8, 8], "low": 1, "high": 2, "dtype": "float32", "seed": 3}]


class Twice(nn.Module):
    def forward(self, x: Tensor) -> float:
        return float(x.sum()) * 2.0


class Thrice(nn.Module):
    def forward(self, x: Tensor) -> float:
        return float(x.sum()) * 3.0


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.ones(4))
        self.register_buffer("second", torch.zeros(4))


class First(Buffers):
    def forward(self, x: Tensor) -> Tensor:
        x + self.second
        return self.first


class Second(Buffers):
    def forward(self, x: Tensor) -> Tensor:
        x + self.second
        return self.second


class Pair(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return x + 1, x * 2


class Swapped(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        a, b = x + 1, x * 2
        return b, a


class Yes(nn.Module):
    def forward(self, x: Tensor) -> bool:
        x + 1
        return True


class No(nn.Module):
    def forward(self, x: Tensor) -> bool:
        x + 1
        return False


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Red(nn.Module):
    def forward(self, x: Tensor) -> Colour:
        x + 1
        return Colour.RED


class Green(nn.Module):
    def forward(self, x: Tensor) -> Colour:
        x + 1
        return Colour.GREEN


class HalfFilled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = torch.empty([1024])
        out[:16] = x.flatten()[:16]
        return out


class Named(NamedTuple):
    logits: List[Tensor]
    loss: float


class Deep(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Named, Dict[str, Tensor], Optional[Tensor], str]:
        return Named([x + 1, x + 2], 0.5), {"last state": x, "mask": x > 1}, None, "done"


class Chain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)


class Parted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(x, min=0.0)


class Returned(harness.ToolTest):
    def compare(self, expected: int, first: nn.Module, second: nn.Module, **fields) -> dict:
        for name, module in (("a.pt", first), ("b.pt", second)):
            torch.jit.script(module).save(str(self.folder / name))
        return self.run_config(expected, inputs=FLOATS, model={"path": "a.pt"},
                               runs=[{"name": "a"}, {"name": "b", "model": {"path": "b.pt"}}], **fields)

    def check_differs(self, first: nn.Module, second: nn.Module, cause: str) -> dict:
        report = self.compare(1, first, second)
        self.assertEqual(report["coverage"]["diverged"], 0)
        self.assertEqual(report["returned"]["diverged"], 1)
        op = report["first_divergence"]
        self.assertEqual(op["key"]["operator"], "repro_check::returned")
        self.assertEqual(op["cause"]["name"], cause)
        self.assertIn("in what the model returns: out", report["verdict"]["headline"])
        return op

    def test_arithmetic_of_the_interpreter(self):
        self.check_differs(Twice(), Thrice(), "computed outside of operators")
        self.check_differs(Yes(), No(), "computed outside of operators")
        op = self.check_differs(Red(), Green(), "computed outside of operators")
        self.assertIn("out: Colour.RED against Colour.GREEN", op["cause"]["evidence"])

    def test_another_buffer_and_two_results_that_are_swapped(self):
        op = self.check_differs(First(), Second(), "another value is returned")
        self.assertIn("state:first", op["cause"]["evidence"])
        self.check_differs(Pair(), Swapped(), "another value is returned")

    def test_the_gate_fails_as_well(self):
        torch.jit.script(Twice()).save(str(self.folder / "m.pt"))
        config = self.write_config({"model": {"path": "m.pt"}, "inputs": FLOATS})
        self.assertEqual(self.tool("gate", "-c", config).code, 4)
        self.assertEqual(self.tool("gate", "accept", "-c", config).code, 0)
        self.assertEqual(self.tool("gate", "-c", config).code, 0)
        torch.jit.script(Thrice()).save(str(self.folder / "m.pt"))
        changed = self.tool("gate", "-c", config)
        self.assertEqual(changed.code, 1, changed.stdout + changed.stderr)
        self.assertIn("in what the model returns: out", changed.stdout)

    def test_every_path_of_a_structure(self):
        torch.jit.script(Deep()).save(str(self.folder / "a.pt"))
        config = self.write_config({"model": {"path": "a.pt"}, "inputs": FLOATS})
        recorded = self.tool("record", "-c", config, "-o", "dump")
        self.assertEqual(recorded.code, 0, recorded.stderr)
        shown = self.tool("inspect", "dump", "--list", "--format", "json").stdout
        self.assertIn('"repro_check::returned"', shown)
        for path in ("out[0].logits[0]", "out[0].logits[1]", "out[0].loss", 'out[1][\\"last state\\"]',
                     "out[1].mask", "out[2]", "out[3]"):
            self.assertIn(f'"{path}"', shown)
        with h5py.File(self.folder / "dump" / "trace.h5") as file:
            self.assertIn("index", file)
        verified = self.tool("verify", "dump")
        self.assertEqual(verified.code, 0, verified.stdout + verified.stderr)
        last = self.tool("replay", "dump", "--op", "5")
        self.assertEqual(last.code, 4, last.stdout + last.stderr)

    def test_agreeing_values_are_said(self):
        report = self.compare(0, Deep(), Deep())
        self.assertEqual(report["returned"]["equal"], 1)
        self.assertEqual((report["returned"]["tensors"], report["returned"]["others"]), (4, 3))
        text = self.tool("run", "-c", "config.json", "--force").stdout
        self.assertIn("returned   1 call bit-identical (4 tensors, 3 other values)", text)

    def test_other_operators_that_return_the_same(self):
        report = self.compare(4, Chain(), Parted())
        self.assertEqual(report["returned"]["equal"], 1)

    def test_memory_that_was_filled_in_part(self):
        # glibc fills what it hands out: with something else in each run.
        runs = [{"name": name, "env": {"MALLOC_PERTURB_": pattern}} for name, pattern in (("a", "165"), ("b", "90"))]
        torch.jit.script(HalfFilled()).save(str(self.folder / "a.pt"))
        report = self.run_config(1, inputs=FLOATS, model={"path": "a.pt"}, runs=runs)
        self.assertEqual(report["returned"]["diverged"], 1)


if __name__ == "__main__":
    harness.main()
