# SPDX-License-Identifier: Apache-2.0
"""Memory that is allocated and not written in whole: who allocated it, and who reads it."""
import harness

harness.need("torch")

import shlex
from typing import List

import torch
from torch import Tensor, nn

FLOATS = [{"generate": "uniform", "shape": [8, 8], "low": 1, "high": 2, "dtype": "float32", "seed": 3}]


# glibc fills what it hands out: with something else in each run.
FILLED = [{"name": name, "env": {"MALLOC_PERTURB_": pattern}} for name, pattern in (("a", "165"), ("b", "90"))]


class Reads(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b = torch.empty([512, 8])
        b[0] = x[0]
        return b.sum() + x


class Filled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b = torch.zeros([512, 8])
        b[0] = x[0]
        return b.sum() + x


class Returns(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b = torch.empty([8, 8])
        b[0] = x[0]
        return b


class Listed(nn.Module):
    def forward(self, x: Tensor, numbers: List[float]) -> Tensor:
        return torch.relu(x[0, :2] + 1 + torch.tensor(numbers))


class Unwritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.empty([512, 8])


class Whole(nn.Module):
    """Written row by row, column by column, by index, by mask, or read where it is written alone."""

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.empty([8, 8])
        for i in range(8):
            rows[i] = x[i]
        columns = torch.empty([8, 8])
        for i in range(8):
            columns[:, i] = x[i]
        put = torch.empty([8, 8])
        put[torch.arange(8)] = x
        masked = torch.empty([8, 8])
        masked[x > 1.5] = 1.0
        masked[x <= 1.5] = 2.0
        cache = torch.empty([4, 64, 8])
        for i in range(8):
            cache[0, i] = x[i]
        seen = cache[0, :8] @ x
        listed = torch.tensor([0, 0, 0])
        listed[1] = 7
        like = torch.zeros_like(torch.empty([3])).sum() + torch.empty([5, 3]).size(0)
        picked = cache[0].index_select(0, torch.tensor([1, 2]))
        return rows + columns + put + masked + seen + like + picked.sum() + listed.sum()


class Uninitialised(harness.ToolTest):
    def compare(self, expected: int, first: nn.Module, second: nn.Module, *flags, **fields) -> dict:
        for name, module in (("a.pt", first), ("b.pt", second)):
            torch.jit.script(module).save(str(self.folder / name))
        return self.run_config(expected, *flags, inputs=FLOATS, model={"path": "a.pt"},
                               runs=[{"name": "a"}, {"name": "b", "model": {"path": "b.pt"}}], **fields)

    def warning(self, report: dict) -> str:
        found = [text for text in report["warnings"] if "nobody has written" in text]
        self.assertEqual(len(found), 1, report["warnings"])
        return found[0]

    def test_the_reader_and_the_allocator_are_named(self):
        torch.jit.script(Reads()).save(str(self.folder / "a.pt"))
        report = self.run_config(1, inputs=FLOATS, model={"path": "a.pt"}, runs=FILLED)
        reads = [op for op in report["divergences"]["items"] if op["cause"]["name"] == "uninitialised memory"]
        self.assertEqual(len(reads), 1, report["divergences"])
        self.assertEqual(reads[0]["key"]["operator"], "aten::sum")
        evidence = reads[0]["cause"]["evidence"]
        self.assertRegex(evidence, r"`self` is memory that op \d+ aten::empty\S* \(test_uninitialised.py:\d+\) allocated")
        self.assertRegex(evidence, r"written in part alone, last by op \d+ aten::copy_")
        names = {op["cause"]["name"] for op in report["divergences"]["items"]}
        self.assertNotIn("unobserved write", names)

    def test_what_mends_it(self):
        for module, expected in ((Reads(), 1), (Filled(), 0)):
            torch.jit.script(module).save(str(self.folder / "a.pt"))
            self.run_config(expected, inputs=FLOATS, model={"path": "a.pt"}, runs=FILLED)
        torch.jit.script(Reads()).save(str(self.folder / "a.pt"))
        shown = self.tool("run", "-c", "config.json").stdout
        (line,) = [line for line in shown.splitlines() if line.startswith("next: repro-check run ")]
        self.assertIn("/determinism=error", line)
        again = self.tool(*shlex.split(line)[2:])
        self.assertEqual(again.code, 0, again.stdout + again.stderr)
        self.assertIn("nobody has written", again.stdout)

    def test_a_pass_is_warned_of(self):
        # Determinism mode fills the memory with NaN on both sides.
        report = self.compare(0, Reads(), Reads(), determinism="warn")
        self.assertRegex(self.warning(report),
                         r"first op \d+ aten::sum \(test_uninitialised.py:\d+\): `self` is memory that op \d+ aten::empty")

    def test_a_fill_pattern_that_is_returned(self):
        report = self.compare(0, Returns(), Returns(), determinism="warn")
        self.assertEqual(report["returned"]["equal"], 1)
        self.assertRegex(self.warning(report), "what the model returns: `out` is memory that op")

    def test_what_is_returned_unwritten_is_named(self):
        torch.jit.script(Unwritten()).save(str(self.folder / "a.pt"))
        report = self.run_config(1, inputs=FLOATS, model={"path": "a.pt"}, runs=FILLED)
        self.assertEqual(report["verdict"]["kind"], "uninitialised")
        cause = report["first_divergence"]["cause"]
        self.assertEqual(cause["name"], "uninitialised memory")
        self.assertRegex(cause["evidence"], r"`out` is memory that op \d+ aten::empty\S* .*no operator has written")

    def test_memory_that_is_written_in_whole_is_no_finding(self):
        for depth in ("top", "leaf", "all"):
            report = self.compare(0, Whole(), Whole(), dump={"depth": depth})
            self.assertFalse([text for text in report["warnings"] if "nobody has written" in text],
                             report["warnings"])

    def first_of_lists(self, exclude):
        torch.jit.script(Listed()).save(str(self.folder / "a.pt"))
        runs = [{"name": name, "inputs": [*FLOATS, {"list": [1.0, number]}]} for name, number in (("a", 2.0), ("b", 3.0))]
        report = self.run_config(1, model={"path": "a.pt"}, runs=runs, dump={"level": "digest", "exclude": exclude})
        return report["first_divergence"]

    def test_a_tensor_that_is_made_of_numbers_is_none_of_it(self):
        first = self.first_of_lists([])
        self.assertEqual((first["relation"], first["cause"]["name"]), ("origin", "constant differs"))
        self.assertIn("made room for it: the model did", first["cause"]["evidence"])

    def test_what_an_operator_made_that_nobody_read_comes_from_it(self):
        first = self.first_of_lists(["aten::add*"])
        self.assertEqual((first["key"]["operator"], first["relation"]), ("aten::relu", "propagated"))
        self.assertRegex(first["cause"]["evidence"], r"^argument `self` comes from op \d+$")


if __name__ == "__main__":
    harness.main()
