# SPDX-License-Identifier: Apache-2.0
"""Two implementations of one model: healthy ones agree, and of one with a fault the first line names the module."""
import json
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch", "transformers")

PROGRAM = Path(__file__).with_name("two_models.py")

# Fault: the module of the ported model where it shows first, and what it is called.
LLAMA = {
    "rotary-bf16": ("blocks.1.att.out", "module-beyond-floor"),
    "mask": ("blocks.1.att.out", "module-beyond-floor"),
    "order": ("blocks.1.att.out", "module-beyond-floor"),
    "eps": ("blocks.1.first", "module-beyond-floor"),
    "scale": ("blocks.1", "module-beyond-floor"),
    "stale": ("blocks.1.first", "module-with-other-weights"),
    "temperature": ("(logits)", "logits-scaled"),
}
GPT2 = {
    "swapped": ("blocks.1.att.out", "module-beyond-floor"),
    "mask": ("blocks.1.att.out", "module-beyond-floor"),
    "gelu": ("blocks.1.down", "module-beyond-floor"),
    "eps": ("blocks.1.first", "module-beyond-floor"),
    "scale": ("blocks.1", "module-beyond-floor"),
    "stale": ("blocks.1.first", "module-with-other-weights"),
    "temperature": ("(logits)", "logits-scaled"),
}


class TwoModels(ToolTest):
    def record(self, kind, side, fault="", depth="top"):
        name = f"{side}-{fault}"
        program = (sys.executable, PROGRAM, kind, side, fault)
        shown = self.tool("exec", "--level", "tensor", "--depth", depth, "-o", name, "--", *program)
        self.assertEqual(shown.code, 0, shown.stderr)
        return name

    def relate(self, a, b):
        shown = self.tool("relate", a, b, "--format", "json", "--all")
        self.assertTrue(shown.stdout, shown.stderr)
        report = json.loads(shown.stdout)
        self.assertEqual(report["verdict"]["exit_code"], shown.code, shown.stderr)
        return shown.code, report

    def worst(self, report):
        return max(max(module["own_ratio"] / 8, module["row_ratio"] / 32) for module in report["modules"])

    def check(self, kind, faults, modules):
        reference = self.record(kind, "reference", depth="all")
        code, report = self.relate(reference, self.record(kind, "ported"))
        self.assertEqual((code, report["findings"]), (0, []), report["headline"])
        self.assertEqual(report["related"]["within"], modules)
        self.assertEqual(report["shadow"]["cuts"], [])
        healthy = self.worst(report)
        least = []
        for fault, (module, finding) in faults.items():
            with self.subTest(fault):
                code, report = self.relate(reference, self.record(kind, "ported", fault))
                self.assertEqual(code, 1, report["headline"])
                first = report["findings"][0]
                self.assertEqual((first["where"]["tensor"], first["id"]), (module, finding), report["headline"])
                self.assertTrue(report["headline"].startswith(f"DIVERGED at {module} ~ "), report["headline"])
                accused = {each["where"]["tensor"] for each in report["findings"]}
                block = {each["b"] for each in report["modules"] if each["b"].startswith("blocks.1")}
                self.assertLessEqual(accused, block if fault == "stale" else {module})
                if fault != "stale":
                    least.append(self.worst(report))
        print(f"{kind}: worst healthy module at {healthy:.3g} of the bound, least fault at {min(least):.3g}")
        self.assertGreater(min(least), 4 * healthy)

    def test_llama_against_a_fused_packed_one(self):
        self.check("llama", LLAMA, 25)

    def test_gpt2_against_separate_linears(self):
        self.check("gpt2", GPT2, 32)

    def test_fresh_norms_and_other_inputs(self):
        reference = self.record("llama", "reference", "fresh", depth="all")
        code, report = self.relate(reference, self.record("llama", "ported", "fresh"))
        self.assertEqual((code, report["findings"]), (0, []), report["headline"])
        self.assertEqual((report["rows"]["same"], report["rows"]["pieces"]), (34, 3))
        reference = self.record("gpt2", "reference", depth="all")
        code, report = self.relate(reference, self.record("gpt2", "ported", "other-inputs"))
        self.assertEqual((code, report["verdict"]["reason"]), (4, "other-inputs"))
        code, report = self.relate(reference, self.record("llama", "ported"))
        self.assertEqual((code, report["verdict"]["reason"]), (4, "too-little-related"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
