# SPDX-License-Identifier: Apache-2.0
"""`precision` on real programs: the shadow is the model in float64, and the line that loses digits is named."""
import json
import subprocess
import sys
import textwrap
from pathlib import Path

from harness import ToolTest, main, need

need("torch", "numpy", "jsonschema")

import jsonschema  # noqa: E402
import numpy  # noqa: E402

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "docs/precision.schema.json").read_text(encoding="utf-8"))

LOSSY = Path(__file__).with_name("lossy.py")
LINES = LOSSY.read_text(encoding="utf-8").splitlines()

MODEL = """
import sys
import torch
from torch import nn
name, dtype, wanted = sys.argv[1:]
torch.manual_seed(0)
x = torch.randint(0, 300, (2, 17))
if name == "gpt2":
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=300))
elif name == "bert":
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                                 vocab_size=300))
else:
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(16, 32, 3), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5))
    x = torch.randn(4, 3, 16, 16)
model.eval()
if dtype == "bfloat16" and wanted == "-":  # recorded as well: the shadow rounds no weights
    model = model.bfloat16()
    x = x.bfloat16() if x.is_floating_point() else x
if wanted != "-":
    model = model.double()
    x = x.double() if x.is_floating_point() else x
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=dtype == "autocast" and wanted == "-"):
    out = model(x)
out = getattr(out, "logits", getattr(out, "last_hidden_state", out))
if wanted != "-":
    import numpy
    numpy.save(wanted, out.numpy())
else:
    torch.sum(out)
"""


class Precision(ToolTest):
    def record(self, *command):
        done = self.tool("exec", "-o", "A", "--force", "--level", "tensor", "--depth", "all", "--", sys.executable, *command)
        self.assertEqual(done.code, 0, done.stderr)

    def precision(self, *flags, code=0):
        shown = self.tool("precision", "A", *flags, "--format", "json")
        self.assertEqual(shown.code, code, shown.stdout + shown.stderr)
        document = json.loads(shown.stdout)
        jsonschema.validate(document, SCHEMA)
        return document


class Shadow(Precision):
    def check(self, name, package=None):
        if package:
            need(package)
        program = self.folder / "model.py"
        program.write_text(textwrap.dedent(MODEL), encoding="utf-8")
        for dtype in ("float32", "bfloat16", "autocast"):
            with self.subTest(dtype=dtype):
                self.record(program, name, dtype, "-")
                subprocess.run([sys.executable, str(program), name, dtype, str(self.folder / "want.npy")], check=True)
                want = numpy.load(self.folder / "want.npy")
                document = self.precision("--of", self.last_of(want.shape), "--export", "got.npy")
                self.assertEqual(document["cuts"], [])
                got = numpy.load(self.folder / "got.npy")
                self.assertLessEqual(numpy.linalg.norm(got - want) / numpy.linalg.norm(want), 1e-12)
                self.assertAlmostEqual(document["explained"], 100, delta=15)

    def last_of(self, shape):
        """Op index of what `torch.sum` reads: the model's output."""
        listed = json.loads(self.tool("inspect", "A", "--list", "--format", "json").stdout)["ops"]
        outputs = [op["index"] for op in listed if op["parent"] is None or op["parent"] < 0
                   if any(out["shape"] == list(shape) for out in op["outputs"])]
        return outputs[-1]

    def test_gpt2(self):
        self.check("gpt2", "transformers")

    def test_bert(self):
        self.check("bert", "transformers")

    def test_convolutions(self):
        self.check("conv")


class Lossy(Precision):
    def line_of(self, kind):
        return next(f"lossy.py:{number}" for number, line in enumerate(LINES, 1) if line.endswith(f"# {kind}"))

    def check(self, kind, below, amplified=None):
        self.record(LOSSY, kind)
        document = self.precision()
        self.assertLess(document["digits"], below)
        enters = document["findings"][0]
        self.assertEqual(enters["id"], "error-enters", document["headline"])
        self.assertIn(self.line_of(kind), enters["where"]["line"], document["headline"])
        amplifiers = [each["operator"] for each in document["amplifiers"]]
        if amplified:
            self.assertIn(amplified, amplifiers, document["headline"])
        else:
            self.assertEqual(amplifiers, [], document["headline"])

    def test_one_linear_in_bfloat16(self):
        self.check("linear", 5)

    def test_sum_in_float16(self):
        self.check("sum", 5)

    def test_variance_as_difference_of_means(self):
        self.check("variance", 3, "aten::sub.Tensor")

    def test_logarithm_near_one(self):
        self.check("log", 3, "aten::log")

    def test_loss_accumulated_in_bfloat16(self):
        self.check("accumulated", 3)

    def test_update_lost_in_bfloat16(self):
        self.check("update", 2, "aten::sub.Tensor")

    def test_rotary_table_in_bfloat16(self):
        self.check("rotary", 4, "aten::cos")

    def test_softmax_of_large_scores(self):
        self.check("softmax", 5, "aten::_softmax")

    def test_what_it_says(self):
        self.record(LOSSY, "log")
        shown = self.tool("precision", "A", "--at-least", "3")
        self.assertEqual(shown.code, 1, shown.stderr)
        self.assertRegex(shown.stdout, r"\APRECISION 2\.\d digits left in the result, fewer than 3: >?\d+ % of the error enters "
                         r"at lossy\.py:\d+ \(aten::add\.Tensor in float32\), amplified 10\^\d\.\d times by aten::log ")
        self.assertIn("  amplified ", shown.stdout)
        self.assertEqual(self.tool("precision", "A", "--of", "first.linear").code, 0)
        self.assertEqual(self.tool("precision", "A", "--of", "nowhere").code, 2)

    def test_a_dump_without_values(self):
        self.tool("exec", "-o", "A", "--", sys.executable, LOSSY, "none")
        shown = self.tool("precision", "A")
        self.assertEqual(shown.code, 4, shown.stdout)
        self.assertIn("--level tensor --depth all", shown.stderr)

    def test_healthy(self):
        for kind in ("none", "rotary-healthy"):
            self.record(LOSSY, kind)
            document = self.precision()
            self.assertEqual(document["findings"], [], document["headline"])
            self.assertGreater(document["digits"], 5.5)


if __name__ == "__main__":
    main()
