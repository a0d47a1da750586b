# SPDX-License-Identifier: Apache-2.0
"""Programs that give the same numbers by other operators, and some that do not."""
import json
import subprocess
import sys
import textwrap
import unittest

from harness import ToolTest, need

need("torch")

PROGRAM = """
    import hashlib
    import sys
    import torch
    import torch.nn.functional as F

    attention, dtype = sys.argv[1:3]
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)


    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(16, 48)
            self.out = torch.nn.Linear(16, 16)

        def forward(self, x):
            q, k, v = (t.view(2, 5, 4, 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            if attention == "sdpa":
                mixed = F.scaled_dot_product_attention(q, k, v)
            else:
                mixed = (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v
            mixed = mixed.transpose(1, 2)
            mixed = mixed.contiguous().view(2, 5, 16) if attention == "view" else mixed.reshape(2, 5, 16)
            return self.out(mixed)


    model = torch.nn.Sequential(torch.nn.Linear(8, 16), Attention(), torch.nn.Linear(16, 1)).to(getattr(torch, dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.Generator().manual_seed(1)
    for step in range(3):
        loss = model(torch.randn(2, 5, 8, generator=data).to(getattr(torch, dtype))).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    found = hashlib.sha256()
    for value in model.state_dict().values():
        found.update(value.double().numpy().tobytes())
    print(found.hexdigest())
"""


class Numbers(ToolTest):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "train.py"
        self.program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")

    def record(self, attention, dtype="float32", level="digest"):
        """@return what the program says of the parameters that it ends with"""
        command = [sys.executable, str(self.program), attention, dtype]
        shown = self.tool("exec", "--level", level, "--force", "-o", attention, "--", *command)
        self.assertEqual(shown.code, 0, shown.stderr)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def judge(self, *words):
        shown = self.tool("diff", *words, "--format", "json")
        return shown.code, json.loads(shown.stdout)

    def test_refactored_view(self):
        self.assertEqual(self.record("eager"), self.record("view"))
        self.assertEqual(self.tool("diff", "eager", "view").code, 1)
        shown = self.tool("diff", "--numbers", "eager", "view")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        first = shown.stdout.splitlines()[0]
        equal = "losses, parameters, gradients, optimizer state of 3 steps bit-equal"
        self.assertTrue(first.startswith(f"REPRODUCIBLE numbers: {equal}; 9 operators differ"), first)
        self.assertIn("3 only in the baseline (aten::reshape 3)", shown.stdout)
        self.assertIn("6 only in the candidate (aten::contiguous 3, aten::view 3)", shown.stdout)
        code, report = self.judge("--numbers", "losses,results", "eager", "view")
        self.assertEqual(code, 4)
        self.assertEqual(report["numbers"]["not_recorded"], ["results"])

    def test_another_attention(self):
        """The fused kernel rounds otherwise: what the bare program ends with says whether."""
        same = self.record("eager", level="tensor") == self.record("sdpa", level="tensor")
        code, report = self.judge("--numbers", "eager", "sdpa")
        self.assertEqual(code, 0 if same else 1)
        self.assertGreater(report["numbers"]["operators"]["total"], 0)
        first = report["first_divergence"]
        if not same:
            self.assertTrue(first["key"]["operator"].startswith("repro_check::"))
            self.assertIsNotNone(first["outputs"][0]["metrics"])
        code, report = self.judge("--numbers", "eager", "sdpa", "--rtol", "1e-2", "--atol", "1e-4")
        self.assertEqual(code, 0, report["verdict"]["headline"])
        self.assertTrue(report["verdict"]["headline"].startswith("REPRODUCIBLE numbers: "))

    def test_run_of_both(self):
        command = [sys.executable, str(self.program), "eager", "float32"]
        other = [sys.executable, str(self.program), "view", "float32"]
        config = self.folder / "config.json"
        config.write_text(json.dumps({"program": {"command": command},
                                      "compare": {"numbers": True},
                                      "runs": [{"name": "baseline"},
                                               {"name": "refactored", "program": {"command": other}}]}))
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertIn("9 operators differ", shown.stdout.splitlines()[0])

    def test_gate_of_a_refactored_program(self):
        program = """
            import torch
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(2):
                loss = model(torch.ones(2, 4)).t().reshape(6).pow(2).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        """
        self.program.write_text(textwrap.dedent(program), encoding="utf-8")
        config = self.folder / "config.json"
        config.write_text(json.dumps({"program": {"command": [sys.executable, str(self.program)]}, "seed": None}))
        gate = ["gate", "-c", "config.json", "--numbers"]
        self.assertEqual(self.tool(*gate).code, 4)
        self.assertEqual(self.tool("gate", "accept", "-c", "config.json", "--yes-in-ci").code, 0)
        refactored = program.replace(".reshape(6)", ".contiguous().view(6)")
        self.program.write_text(textwrap.dedent(refactored), encoding="utf-8")
        shown = self.tool(*gate)
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertIn("6 operators differ", shown.stdout.splitlines()[0])
        self.program.write_text(textwrap.dedent(refactored.replace("lr=0.1", "lr=0.2")), encoding="utf-8")
        shown = self.tool(*gate)
        self.assertEqual(shown.code, 1, shown.stdout + shown.stderr)
        self.assertIn("DIVERGED numbers from the baseline at step 0", shown.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
