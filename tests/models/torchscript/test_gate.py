# SPDX-License-Identifier: Apache-2.0
"""The gate with the real recorder: a first baseline, a changed weight, a changed input."""
import harness

harness.need("torch", "numpy")

import json
import os
import xml.etree.ElementTree as ElementTree

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.third = nn.Linear(4, 2)
        with torch.no_grad():
            for layer in (self.first, self.second, self.third):
                layer.weight.fill_(0.25)
                layer.bias.fill_(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


class Gate(harness.ToolTest):
    def save(self, second: float = 0.25, name: str = "m.pt"):
        """The model, the weights of its second layer as given."""
        model = Net()
        with torch.no_grad():
            model.second.weight.fill_(second)
        torch.jit.script(model).save(str(self.folder / name))

    def configure(self, seed: int = 1, **model) -> str:
        inputs = [{"generate": "uniform", "shape": [3, 4], "low": 1, "high": 2, "dtype": "float32",
                   "seed": seed}]
        return str(self.write_config({"model": {"path": "m.pt", **model}, "inputs": inputs}))

    def gate(self, expected: int, *words) -> str:
        result = self.tool("gate", *words)
        self.assertEqual(result.code, expected, result.stdout + result.stderr)
        return result.stdout

    def judge(self, expected: int, config: str) -> dict:
        report = json.loads(self.gate(expected, "-c", config, "--format", "json",
                                      "--report", "junit=gate.xml"))
        self.assertEqual(report["verdict"]["exit_code"], expected)
        return report

    def test_from_the_first_baseline_to_a_stale_one(self):
        self.save()
        config = self.configure()
        self.assertEqual(self.judge(4, config)["verdict"]["status"], "no_baseline")
        typed = self.type_next(self.gate(4, "-c", config))
        self.assertEqual([(line.split()[1:3], code) for line, code in typed], [(["gate", "accept"], 0)])
        accepted = self.judge(0, config)
        self.assertEqual(accepted["gate"]["baseline"]["state"], "same")
        self.assertGreaterEqual(accepted["coverage"]["compared"], 5)

        self.save(second=0.25 + 2.0 ** -20)
        changed = self.judge(1, config)
        self.assertTrue(changed["gate"]["runs_agree"])
        self.assertEqual(changed["verdict"]["kind"], "weights")
        self.assertIn("second.weight", changed["verdict"]["headline"])
        first = changed["first_divergence"]["key"]
        self.assertEqual(first["module"], "second")
        self.assertEqual(changed["coverage"]["equal"], first_of(changed))
        cases = ElementTree.parse(self.folder / "gate.xml").getroot().iter("testcase")
        failed = [case.get("classname") for case in cases if case.find("failure") is not None]
        self.assertTrue(any(name.endswith(".second") for name in failed), failed)

        self.gate(0, "accept", "-c", config)
        self.assertEqual(self.judge(0, config)["gate"]["baseline"]["state"], "same")

        stale = self.judge(4, self.configure(seed=2))
        self.assertEqual(stale["verdict"]["status"], "stale_baseline")
        names = [change["name"] for change in stale["gate"]["baseline"]["changes"]]
        self.assertTrue(any("input" in name for name in names), names)

    def test_weights_of_another_file_are_part_of_what_is_accepted(self):
        self.save()
        self.save(second=0.5, name="w.pt")
        config = self.configure(weights_from="w.pt")
        self.judge(4, config)
        self.save(second=0.75, name="w.pt")
        self.gate(2, "accept", "-c", config)
        self.save(second=0.5, name="w.pt")
        self.gate(0, "accept", "-c", config)
        self.assertEqual(self.judge(0, config)["gate"]["baseline"]["state"], "same")


def first_of(report: dict) -> int:
    """How many operators ran before the one that diverged first."""
    return report["first_divergence"]["op_index"]["baseline"]


if __name__ == "__main__":
    harness.main()
