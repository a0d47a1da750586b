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

def in_float64(llama):
    # LlamaModel.double() computes norms and its rotary table in float32.
    def norm(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))
    def rotary(self, x, position_ids):
        size = 16
        steps = self.config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angles = position_ids[:, :, None] * steps
        angles = torch.cat((angles, angles), -1)
        return angles.cos(), angles.sin()
    kind = type(llama.norm)
    for each in llama.modules():
        if isinstance(each, kind):
            each.forward = norm.__get__(each)
    llama.rotary_emb.forward = rotary.__get__(llama.rotary_emb)

x = torch.randint(0, 300, (2, 17))
if name == "gpt2":
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=300))
elif name == "llama":
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                                         num_key_value_heads=2, vocab_size=300, attn_implementation="sdpa"))
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
    if name == "llama":
        in_float64(model.model)
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

TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    print("step", step, flush=True)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(5, 8)), torch.arange(5) % 4).backward()
    optimizer.step()
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

    def last_of(self, shape):
        """Op index of what `torch.sum` reads: the model's output."""
        listed = json.loads(self.tool("inspect", "A", "--list", "--format", "json").stdout)["ops"]
        outputs = [op["index"] for op in listed if op["parent"] is None or op["parent"] < 0
                   if any(out["shape"] == list(shape) for out in op["outputs"])]
        return outputs[-1]


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

    def test_gpt2(self):
        self.check("gpt2", "transformers")

    def test_llama(self):
        self.check("llama", "transformers")

    def test_bert(self):
        self.check("bert", "transformers")

    def test_convolutions(self):
        self.check("conv")


TRAINED = """
import sys
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
kind, wanted = sys.argv[1:]
torch.manual_seed(0)
exact = wanted != "-"

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 96)
        self.last = nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.first(x).view(3, 9, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return x + self.last(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.blocks = nn.ModuleList((Attention(), nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(),
                                                                nn.Dropout(0.1 * (kind == "dropout")), nn.Linear(64, 32))))
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=kind == "reentrant") if "reentrant" in kind else block(x)
        return self.head(x)

net, tokens = Net(), torch.randint(0, 50, (3, 9))
if exact and kind == "dropout":  # other numbers are drawn for float64
    def dropout(self, x):
        mask = torch.empty(x.shape).bernoulli_(1 - self.p)
        return x * mask.double() / (1 - self.p)
    nn.Dropout.forward = dropout
if exact:
    net = net.double()
flags = {"foreach": {"foreach": True}, "fused": {"fused": True}}.get(kind, {})
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9) if kind == "sgd" else torch.optim.AdamW(net.parameters(), **flags)
for _ in range(2):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast" and not exact):
        loss = F.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
with torch.no_grad():
    gradients = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
    weights = torch.cat([*(p.reshape(-1) for p in net.parameters()), loss.reshape(1)])
if exact:
    import numpy
    numpy.savez(wanted, gradients=gradients.numpy(), weights=weights.numpy())
else:
    torch.sum(gradients), torch.sum(weights)
"""

UNDERIVED = ["aten::_scaled_dot_product_flash_attention_for_cpu_backward", "aten::native_layer_norm_backward"]


class Trained(Precision):
    """Gradients and weights behind two steps, against the same program in float64."""

    def check(self, kind, digits=5.5):
        program = self.folder / "train.py"
        program.write_text(TRAINED, encoding="utf-8")
        self.record(program, kind, "-")
        subprocess.run([sys.executable, str(program), kind, str(self.folder / "want.npz")], check=True)
        wanted = numpy.load(self.folder / "want.npz")
        for name in ("weights", "gradients"):
            with self.subTest(name):
                want = wanted[name]
                document = self.precision("--of", self.last_of(want.shape), "--export", "got.npy")
                self.assertEqual([cut["operator"] for cut in document["cuts"]], [])
                self.assertLessEqual(set(document["not_carried"]), set(UNDERIVED))
                got = numpy.load(self.folder / "got.npy")
                self.assertLessEqual(numpy.linalg.norm(got - want) / numpy.linalg.norm(want), 1e-12)
                if digits == 5.5:
                    self.assertEqual(document["findings"], [], document["headline"])

    def test_adamw(self):
        self.check("adamw")

    def test_adamw_foreach(self):
        self.check("foreach")

    def test_adamw_fused(self):
        self.check("fused")

    def test_momentum(self):
        self.check("sgd")

    def test_checkpoint(self):
        self.check("nonreentrant")

    def test_reentrant_checkpoint(self):
        self.check("reentrant")

    def test_dropout(self):
        self.check("dropout")

    def test_autocast(self):
        self.check("autocast", digits=0)


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

    def test_a_program(self):
        program = self.folder / "train.py"
        program.write_text(TRAINING, encoding="utf-8")
        command = ("--", sys.executable, program)
        shown = self.tool("precision", *command)
        self.assertEqual(shown.code, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"\APRECISION [67]\.\d digits left in the loss\n")
        log, = self.folder.glob("repro-check-out/train-*/precision.log")
        self.assertEqual(log.read_text(encoding="utf-8"), "step 0\nstep 1\nstep 2\n")
        again = self.tool("precision", log.with_suffix(""), "--format", "json")
        self.assertEqual(json.loads(again.stdout)["result"]["step"], 0)
        last = self.tool("precision", "--steps", "1:3", "--at-least", "12", "--format", "json", *command)
        self.assertEqual(last.code, 1, last.stderr)
        document = json.loads(last.stdout)
        jsonschema.validate(document, SCHEMA)
        self.assertEqual(document["result"]["step"], 2)
        self.assertIn("fewer than 12", document["headline"])

    def test_a_program_that_fails(self):
        program = self.folder / "fails.py"
        program.write_text("import torch\ntorch.ones(2) + 1\nraise SystemExit(7)\n", encoding="utf-8")
        shown = self.tool("precision", "--", sys.executable, program)
        self.assertEqual(shown.code, 5, shown.stdout + shown.stderr)
        self.assertIn("7", shown.stdout)

    def test_neither_dump_nor_program(self):
        for words in ((), ("A", "--", "python", "train.py")):
            shown = self.tool("precision", *words)
            self.assertEqual(shown.code, 2, shown.stdout + shown.stderr)

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
