# SPDX-License-Identifier: Apache-2.0
"""Weights on their way from a program that trains to one that generates, with fused layers of other names."""
import json
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch")

PROGRAM = Path(__file__).with_name("weight_sync.py")


class Sync(ToolTest):
    def record(self, name, *words):
        shown = self.tool("exec", "--level", "tensor", "-o", name, "--", sys.executable, PROGRAM, *words)
        self.assertEqual(shown.code, 0, shown.stderr)

    def judge(self, how, *options):
        self.record(f"engine-{how}", "generate", self.folder, how)
        shown = self.tool("relate", "--weights", "trainer", f"engine-{how}", "--format", "json", *options)
        report = json.loads(shown.stdout)
        self.assertEqual(report["verdict"]["exit_code"], shown.code)
        return shown.code, [finding["id"] for finding in report["findings"]], report

    def test_weights_that_arrived(self):
        self.record("trainer", "train", self.folder)
        code, findings, report = self.judge("right")
        self.assertEqual((code, findings), (0, []))
        self.assertEqual(report["counts"]["arrived"], len(report["weights"]))
        self.assertEqual(report["unsent"], [])
        relations = {weight["name"]: weight["relation"] for weight in report["weights"]}
        self.assertEqual(relations["blocks.1.qkv.weight"],
                         "blocks.1.qkv.weight = cat(layers.1.q_proj.weight, layers.1.k_proj.weight, layers.1.v_proj.weight)")
        self.assertEqual(relations["blocks.0.down"], "blocks.0.down = layers.0.down_proj.weight.T")
        code, findings, report = self.judge("half")
        self.assertEqual((code, findings), (0, []))
        self.assertIn(".to(bfloat16)", report["weights"][0]["relation"])

    def test_weights_that_did_not(self):
        self.record("trainer", "train", self.folder)
        for how, finding, weights in (("earlier", "weights-of-earlier-step", 12), ("block", "weights-of-earlier-step", 5),
                                      ("rounded", "weights-rounded", 12), ("shard", "weights-of-other-values", 1)):
            with self.subTest(how):
                code, findings, report = self.judge(how)
                self.assertEqual((code, findings), (1, [finding]))
                self.assertEqual(report["findings"][0]["fields"]["weights"], weights)
        self.assertIn("blocks.1.gate_up.weight", report["findings"][0]["fields"]["names"])
        text = self.tool("relate", "--weights", "trainer", "engine-earlier").stdout
        self.assertRegex(text.splitlines()[0], r"^DIVERGED at .*after 2 steps, not those after 3")

    def test_adapters(self):
        self.record("trainer", "train", self.folder, "lora")
        code, findings, report = self.judge("merged")
        self.assertEqual((code, findings), (0, []))
        self.assertEqual(report["unsent"], [])
        code, findings, _ = self.judge("base")
        self.assertEqual((code, findings), (1, ["adapter-not-merged"]))

    def test_another_model(self):
        self.record("trainer", "train", self.folder)
        other = self.folder / "other.py"
        other.write_text("import torch\nm = torch.nn.Linear(8, 16)\nm(torch.ones(2, 8))\n", encoding="utf-8")
        shown = self.tool("exec", "--level", "tensor", "-o", "other", "--", sys.executable, other)
        self.assertEqual(shown.code, 0, shown.stderr)
        shown = self.tool("relate", "--weights", "trainer", "other")
        self.assertEqual(shown.code, 4, shown.stdout)
        self.assertTrue(shown.stdout.startswith("NOT COMPARABLE"), shown.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
