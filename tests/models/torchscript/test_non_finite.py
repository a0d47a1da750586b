# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity: counted at every level, and said with their birthplace whatever the verdict is."""
import harness

harness.need("torch")

import json

import torch
from torch import Tensor, nn

LEVELS = ("auto", "digest", "stats", "tensor")
BELOW_ZERO = [{"generate": "uniform", "shape": [7, 14], "low": -10, "high": -1, "dtype": "float32"}]


class Head(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x)


class Log(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * 2) + 1


class Masked(nn.Module):
    """A mask of -inf is no fault, the row of which nothing is left is."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.zeros_like(x, dtype=torch.bool)
        hidden[2] = True
        hidden[3, 4] = True
        return torch.softmax(x.masked_fill(hidden, float("-inf")), -1)


class NonFiniteTest(harness.ToolTest):
    def save(self, module: nn.Module, name: str = "m.pt") -> str:
        torch.jit.script(module.eval()).save(str(self.folder / name))
        return name

    def record_twice(self, module: nn.Module, level: str, expected: int = 0, **fields) -> dict:
        return self.run_config(
            expected, model=self.save(module), inputs=BELOW_ZERO, dump={"level": level}, **fields)

    def test_a_pass_says_where_nan_was_born_at_every_level(self):
        for level in LEVELS:
            with self.subTest(level):
                report = self.record_twice(Log(), level)
                self.assertEqual(report["verdict"]["status"], "reproducible")
                self.assertRegex(
                    report["warnings"][0],
                    r"^NaN in 2 outputs \(196 elements\), first made by op 1 aten::log "
                    r"\(head, test_non_finite\.py:\d+\)$")
                self.assertEqual(sum("NaN" in warning for warning in report["warnings"]), 1)

    def test_inspect_finds_them_at_every_level(self):
        for level in LEVELS:
            with self.subTest(level):
                self.record_twice(Log(), level)
                dump = self.folder / "repro-check-out" / "baseline"
                for condition, count in (("nan>0", 2), ("nan=98", 2), ("inf>0", 0), ("nan=0", 1)):
                    found = self.tool("inspect", dump, "--list", "--where", condition, "--format", "json")
                    self.assertEqual(found.code, 0 if count else 4, found.stderr)
                    listed = json.loads(found.stdout)
                    self.assertEqual(listed["unknown"], 0)
                    operators = [op for op in listed["ops"] if not op["operator"].startswith("repro_check")]
                    self.assertEqual(len(operators), count, condition)
                tree = self.tool("inspect", dump, "--modules")
                self.assertIn("\nhead\tHead\t1\t1\t1\t0\n", tree.stdout)
                self.assertNotIn("?", tree.stdout)
                statistics = self.tool("inspect", dump, "--list", "--where", "max<0")
                self.assertEqual(statistics.code, 0 if level in ("stats", "tensor") else 4)

    def test_every_format_says_it_once(self):
        self.record_twice(Log(), "digest")
        for name in "text json jsonl markdown junit sarif github html".split():
            shown = self.tool("diff", "repro-check-out/baseline", "repro-check-out/candidate",
                              "--report", f"{name}=report")
            self.assertEqual(shown.code, 0, shown.stderr)
            text = (self.folder / "report").read_text().split("<pre>")[0]  # a page holds the text as well
            # JSON has it among the warnings, and once more among those that are of NaN and infinity.
            times = 2 if name == "json" else 1
            self.assertEqual(" ".join(text.split()).count("NaN in 2 outputs (196 elements)"), times, name)

    def test_a_mask_is_told_from_what_it_leads_to(self):
        report = self.record_twice(Masked(), "digest")
        nan, infinity = report["warnings"][:2]
        self.assertRegex(nan, r"^NaN in 1 output \(14 elements\), first made by op \d+ aten::softmax")
        self.assertRegex(infinity, r"^Infinity in 1 output \(15 elements\), first in op \d+ aten::masked_fill"
                                   r".*, whose arguments ask for it$")

    def test_what_is_given_is_not_born(self):
        class Biased(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("bias", torch.tensor([float("nan"), 1.0]))

            def forward(self, x: Tensor) -> Tensor:
                return x[:, :2] + self.bias

        report = self.record_twice(Biased(), "digest")
        self.assertRegex(report["warnings"][0], r"^NaN in 1 output \(7 elements\), first in op \d+ aten::add"
                                                r".*, which was given it as argument other \(state:bias\)$")

    def test_a_divergence_says_it_of_each_run(self):
        finite = [{**BELOW_ZERO[0], "low": 1, "high": 2}]
        report = self.run_config(1, model=self.save(Log()), inputs=finite, dump={"level": "digest"},
                                 runs=[{"name": "baseline"}, {"name": "candidate", "inputs": BELOW_ZERO}])
        self.assertRegex(report["warnings"][0], "^NaN in the candidate: 2 outputs")
        self.assertFalse([text for text in report["warnings"] if "NaN in the baseline" in text])

    def test_where_there_are_none_nothing_is_said(self):
        class Plain(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.exp(x) * 2

        for level in LEVELS:
            report = self.record_twice(Plain(), level)
            self.assertFalse([w for w in report["warnings"] if "NaN" in w or "nfinity" in w])


if __name__ == "__main__":
    harness.main()
