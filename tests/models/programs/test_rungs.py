# SPDX-License-Identifier: Apache-2.0
"""`run --vary compile`: a fault of compiled code is found at its rung and line, and healthy code is not accused."""
import json
import sys
import textwrap
import unittest
from pathlib import Path

from harness import SKIPPED, ToolTest, need

need("torch", "numpy", "h5py", "xxhash")

import torch  # noqa: E402

if not hasattr(torch, "compile"):
    print("skipped: this PyTorch does not compile")
    sys.exit(SKIPPED)

HERE = Path(__file__).parent
PROGRAM = HERE / "compiled_blocks.py"
ROOT = HERE.parent.parent.parent
BORDERS = ["off", "eager", "aot_eager", "aot_eager_decomp_partition", "inductor", "as_written"]


class Rungs(ToolTest):
    def climb(self, case, code):
        shown = self.tool("run", "--vary", "compile", "--format", "json", "-o", "climb", "--", sys.executable, PROGRAM,
                          case, timeout=900)
        self.assertEqual(shown.code, code, shown.stdout + shown.stderr)
        return json.loads(shown.stdout)

    def assert_fault(self, case, rung, finding, line=None, operator=None):
        document = self.climb(case, 1)
        first = document["findings"][0]
        self.assertEqual((document["rung"], first["id"]), (rung, finding))
        if line:
            source = PROGRAM.read_text(encoding="utf-8").splitlines()
            number = next(i for i, text in enumerate(source, 1) if line in text)
            self.assertEqual(first["where"]["line"], f"compiled_blocks.py:{number}")
            self.assertEqual(first["fields"]["operator"], operator)
            self.assertGreater(first["fields"]["ratio"], 1000)
        climbed = [each["rung"] for each in document["climbed"]]
        self.assertEqual(climbed, BORDERS[1:BORDERS.index(rung)])
        return document

    def assert_healthy(self, case):
        document = self.climb(case, 0)
        self.assertEqual([each["rung"] for each in document["climbed"]], BORDERS[1:])
        self.assertEqual(document["findings"], [])
        # Twice the bound's margin: a healthy program is nowhere near it.
        self.assertLess(document["worst_within"], 8)
        return document

    def test_wrong_decomposition(self):
        self.assert_fault("decomposition", "aot_eager_decomp_partition", "decomposition-beyond-floor",
                          "nn.functional.silu(", "silu")

    def test_wrong_lowering_of_a_custom_operator(self):
        self.assert_fault("lowering", "inductor", "kernel-beyond-floor", "torch.ops.own.scale(hidden)", "own::scale")

    def test_captured_otherwise(self):
        document = self.assert_fault("captured", "eager", "captured-otherwise")
        self.assertEqual(self.tool(*document["next"][0].split()[1:]).code, 1)
        self.assertEqual(document["findings"][0]["fields"]["at"], 0)

    def test_graph_breaks(self):
        self.assertEqual(self.assert_healthy("breaks")["regions"], 2)

    def test_blocks_compiled_one_by_one(self):
        self.assertGreater(self.assert_healthy("regions")["calls"], 3)

    def test_random_numbers_of_its_own(self):
        document = self.assert_healthy("dropout")
        self.assertEqual([note["id"] for note in document["notes"]], ["compiled-code-draws-its-own"])
        self.assertEqual(document["notes"][0]["fields"]["operator"], "dropout")

    def test_a_compiled_optimizer_rounds_otherwise(self):
        program = self.folder / "optimizer.py"
        program.write_text(textwrap.dedent("""
            import torch
            net = torch.nn.Linear(8, 8)
            optimizer = torch.optim.Adam(net.parameters())
            lose = torch.compile(lambda x: net(x).square().mean())
            step = torch.compile(lambda: optimizer.step())
            for _ in range(3):
                optimizer.zero_grad()
                lose(torch.randn(4, 8)).backward()
                step()"""), encoding="utf-8")
        shown = self.tool("run", "--vary", "compile", "-o", "climb", "--", sys.executable, program, timeout=900)
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)

    def test_nothing_compiled(self):
        program = self.folder / "plain.py"
        program.write_text("import torch\nprint(torch.ones(3).sum().item())\n", encoding="utf-8")
        shown = self.tool("run", "--vary", "compile", "-o", "climb", "--", sys.executable, program)
        self.assertEqual(shown.code, 4, shown.stdout + shown.stderr)
        self.assertIn("nothing compiled for Inductor", shown.stdout)

    def test_a_model_is_refused(self):
        (self.folder / "config.json").write_text('{"model": "m.pt", "inputs": []}', encoding="utf-8")
        shown = self.tool("run", "--vary", "compile", "-c", "config.json")
        self.assertEqual(shown.code, 2, shown.stdout + shown.stderr)


class Values(ToolTest):
    def test_what_compiled_code_gives_is_what_the_program_has(self):
        sys.path.insert(0, str(ROOT / "python"))
        import numpy
        import repro_check

        shown = self.tool("exec", "--level", "tensor", "-o", "dump", "--", sys.executable, HERE / "compiled_values.py",
                          timeout=900)
        self.assertEqual(shown.code, 0, shown.stderr)
        kept = numpy.load(self.folder / "kept.npz")
        outputs, gradients = [], []
        with repro_check.Dump(self.folder / "dump") as dump:
            for operator in dump.operators():
                if operator.name == "repro_check::region_outputs":
                    outputs.append(next(t for t in operator.tensors if t.slot == "output[0]").numpy())
                if operator.name == "repro_check::optimizer_step":
                    gradients += [t.numpy() for t in operator.tensors if t.slot.startswith("grad.") and
                                  t.slot.endswith("up.weight") and t.role == "output"]
        numpy.testing.assert_array_equal(outputs[0], kept["output"])
        self.assertTrue(any(numpy.array_equal(gradient, kept["gradient"]) for gradient in gradients))


if __name__ == "__main__":
    unittest.main()
