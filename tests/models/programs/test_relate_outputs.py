# SPDX-License-Identifier: Apache-2.0
"""Two implementations of one model: healthy ones agree, and of one with a fault the first line names the module."""
import json
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch", "transformers")

HERE = Path(__file__).parent
LLAMA, GPT2 = ((HERE / "two_models.py", kind) for kind in ("llama", "gpt2"))
BERT, CONVNET = ((HERE / name,) for name in ("two_encoders.py", "two_convnets.py"))

# Fault: the module of the ported model where it shows first, and what it is called.
OF_LLAMA = {
    "rotary-bf16": ("blocks.1.att.out", "module-beyond-floor"),
    "mask": ("blocks.1.att.out", "module-beyond-floor"),
    "order": ("blocks.1.att.out", "module-beyond-floor"),
    "eps": ("blocks.1.first", "module-beyond-floor"),
    "scale": ("blocks.1", "module-beyond-floor"),
    "stale": ("blocks.1.first", "module-with-other-weights"),
    "temperature": ("(logits)", "logits-scaled"),
}
OF_GPT2 = {
    "swapped": ("blocks.1.att.out", "module-beyond-floor"),
    "mask": ("blocks.1.att.out", "module-beyond-floor"),
    "gelu": ("blocks.1.down", "module-beyond-floor"),
    "eps": ("blocks.1.first", "module-beyond-floor"),
    "scale": ("blocks.1", "module-beyond-floor"),
    "stale": ("blocks.1.first", "module-with-other-weights"),
    "temperature": ("(logits)", "logits-scaled"),
}
OF_BERT = {
    "swapped": ("stack.layers.1", "module-beyond-floor"),
    "padding": ("stack.layers.0", "module-beyond-floor"),
    "gelu": ("stack.layers.1.linear2", "module-beyond-floor"),
    "eps": ("stack.layers.1.norm1", "module-beyond-floor"),
    "stale": ("stack.layers.1", "module-with-other-weights"),
}
OF_CHANNELS_LAST = {
    "eps": ("blocks.1.bn1", "module-beyond-floor"),
    "scale": ("blocks.1", "module-beyond-floor"),
    "stale": ("blocks.1.conv1", "module-with-other-weights"),
}
OF_FOLDED = {
    "eps": ("blocks.1.conv1", "module-beyond-floor"),
    "scale": ("blocks.1", "module-beyond-floor"),
    "stale": ("blocks.1.conv1", "module-with-other-weights"),
}


class TwoModels(ToolTest):
    def record(self, model, side, fault="", depth="top"):
        name = f"{side}-{fault}"
        program = (sys.executable, *model, side, fault)
        shown = self.tool("exec", "--level", "tensor", "--depth", depth, "-o", name, "--", *program)
        self.assertEqual(shown.code, 0, shown.stderr)
        return name

    def relate(self, a, b, *options):
        shown = self.tool("relate", a, b, "--format", "json", "--all", *options)
        self.assertTrue(shown.stdout, shown.stderr)
        report = json.loads(shown.stdout)
        self.assertEqual(report["verdict"]["exit_code"], shown.code, shown.stderr)
        return shown.code, report

    def worst(self, report):
        return max(max(module["own_ratio"] / 8, module["row_ratio"] / 32) for module in report["modules"])

    def check(self, model, faults, modules, block="blocks.1", ported="ported"):
        reference = self.record(model, "reference", depth="all")
        code, report = self.relate(reference, self.record(model, ported))
        self.assertEqual((code, report["findings"]), (0, []), report["headline"])
        self.assertEqual(report["related"]["within"], modules)
        self.assertEqual(report["shadow"]["cuts"], [])
        healthy = self.worst(report)
        least = []
        for fault, (module, finding) in faults.items():
            with self.subTest(fault):
                code, report = self.relate(reference, self.record(model, ported, fault))
                self.assertEqual(code, 1, report["headline"])
                first = report["findings"][0]
                self.assertEqual((first["where"]["tensor"], first["id"]), (module, finding), report["headline"])
                self.assertTrue(report["headline"].startswith(f"DIVERGED at {module} ~ "), report["headline"])
                accused = {each["where"]["tensor"] for each in report["findings"]}
                inside = {each["b"] for each in report["modules"] if each["b"].startswith(block)}
                self.assertLessEqual(accused, inside if fault in ("stale", "padding") else {module})
                if fault != "stale":
                    least.append(self.worst(report))
        print(f"{Path(model[-1]).stem} {ported}: worst healthy module at {healthy:.3g} of the bound, least fault at {min(least):.3g}")
        self.assertGreater(min(least), 4 * healthy)

    def test_llama_against_a_fused_packed_one(self):
        self.check(LLAMA, OF_LLAMA, 25)

    def test_gpt2_against_separate_linears(self):
        self.check(GPT2, OF_GPT2, 32)

    def test_bert_against_the_encoder_of_pytorch(self):
        self.check(BERT, OF_BERT, 9, block="stack.layers")

    def test_a_convnet_in_another_layout(self):
        self.check(CONVNET, OF_CHANNELS_LAST, 19, ported="channels-last")

    def test_a_convnet_with_folded_norms(self):
        self.check(CONVNET, OF_FOLDED, 12, ported="folded")

    def test_a_prefill_and_decoding_against_one_pass(self):
        reference = self.record(GPT2, "reference", depth="all")
        healthy = self.record(GPT2, "decoded")
        code, report = self.relate(reference, healthy)
        self.assertEqual((code, report["later_passes"]), (0, {"a": False, "b": True}), report["headline"])
        self.assertEqual((report["rows"]["same"], report["rows"]["a"]), (20, 32))
        code, report = self.relate(reference, healthy, "--passes", 7)
        self.assertEqual((code, report["findings"]), (0, []), report["headline"])
        self.assertEqual((report["rows"]["same"], report["rows"]["moved"]), (32, False))
        self.assertFalse(report["later_passes"]["b"])
        self.assertEqual(report["tokens"]["tokens"], 30)
        wrong = self.record(GPT2, "decoded", "cache")
        self.assertEqual(self.relate(reference, wrong)[0], 0)  # the prefill is right
        code, report = self.relate(reference, wrong, "--passes", 7)
        self.assertEqual(code, 1, report["headline"])
        self.assertEqual(report["findings"][0]["where"]["tensor"], "transformer.h.1.attn.c_proj", report["headline"])
        shown = self.tool("relate", reference, healthy, "--passes", 8)
        self.assertEqual((shown.code, shown.stdout), (4, ""))
        self.assertIn("no module is called in forward pass 7", shown.stderr)

    def test_two_configurations(self):
        for side in ("reference", "ported"):
            command = [sys.executable, *map(str, GPT2), side]
            (self.folder / f"{side}.json").write_text(json.dumps({"program": {"command": command}}))
        code, report = self.relate("reference.json", "ported.json")
        self.assertEqual(code, 0, report["headline"])
        self.assertEqual(report["related"]["within"], 32)

    def test_fresh_norms_and_other_inputs(self):
        reference = self.record(LLAMA, "reference", "fresh", depth="all")
        code, report = self.relate(reference, self.record(LLAMA, "ported", "fresh"))
        self.assertEqual((code, report["findings"]), (0, []), report["headline"])
        self.assertEqual((report["rows"]["same"], report["rows"]["pieces"]), (34, 3))
        reference = self.record(GPT2, "reference", depth="all")
        code, report = self.relate(reference, self.record(GPT2, "ported", "other-inputs"))
        self.assertEqual((code, report["verdict"]["reason"]), (4, "other-inputs"))
        code, report = self.relate(reference, self.record(LLAMA, "ported"))
        self.assertEqual((code, report["verdict"]["reason"]), (4, "too-little-related"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
