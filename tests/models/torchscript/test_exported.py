# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export (`.pt2`): the same numbers as in Python, modules and lines as in the model, and what is
not known refused."""
import json
import sys
import unittest
import zipfile
from pathlib import Path

import harness

harness.need("torch", "transformers", "numpy", "h5py", "xxhash")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

import numpy  # noqa: E402
import repro_check  # noqa: E402
import repro_check.digest  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

from torchscript import architectures, model_checks  # noqa: E402


def is_readable() -> bool:
    """Whether this torch writes what is read: its schema has had this version since PyTorch 2.9."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 9)


if not is_readable():
    print("skipped: this torch exports programs of another version")
    sys.exit(harness.SKIPPED)


def flat(value) -> list:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class Exported(harness.ToolTest):
    """Records a program and runs it in Python."""

    def save(self, model, example: tuple, name: str = "m.pt2", **options) -> str:
        torch.export.save(torch.export.export(model, example, **options), str(self.folder / name))
        return name

    def given(self, tensors) -> list:
        specifications = []
        for number, tensor in enumerate(tensors):
            numpy.save(self.folder / f"input{number}.npy", tensor.numpy())
            specifications.append({"npy": f"input{number}.npy"})
        return specifications

    def returned(self, run: str = "baseline") -> list:
        """Digests of the tensors that it returned."""
        return [each["digest"] for each in self.operators(run)[-1]["outputs"] if each.get("digest")]

    def assert_as_in_python(self, example: tuple, inputs: list, name: str = "m.pt2", keywords=None, **fields):
        report = self.run_config(0, model={"path": name}, inputs=inputs, **fields)
        program = torch.export.load(str(self.folder / name)).module()
        torch.manual_seed(0)
        torch.set_num_threads(2)
        with torch.no_grad():
            expected = flat(program(*example, **(keywords or {})))
        digests = [str(repro_check.digest.of_bytes(each.contiguous().numpy().tobytes())) for each in expected]
        self.assertEqual(self.returned(), digests)
        return report


class Real(model_checks.ModelChecks, Exported):
    """What holds for a TorchScript file holds for the same model, exported."""

    @classmethod
    def setUpClass(cls):
        if cls is Real:
            raise unittest.SkipTest("a base")
        cls.eager = cls.model()
        cls.scripted = torch.export.export(cls.eager, cls.example())

    def save(self, name, program, **options):
        torch.export.save(program, str(self.folder / name))
        return name

    @staticmethod
    def weights_of(model) -> dict:
        return model.state_dict

    def test_as_in_python(self):
        self.save("m.pt2", self.scripted)
        self.assert_as_in_python(self.example(), self.saved_inputs())

    def test_the_line_of_a_changed_weight(self):
        inputs = self.saved_inputs()
        self.save("m.pt", self.scripted)
        self.save("other.pt", self.changed_by_one_ulp())
        config = self.write_config({"model": {"path": "m.pt"}, "inputs": inputs,
                                    "runs": [{"name": "baseline"},
                                             {"name": "candidate", "model": {"path": "other.pt"}}]})
        shown = self.tool("run", "-c", config, "--force").stdout
        self.assertRegex(shown, self.line)
        self.assertIn(self.layer, shown)


class Bert(Real):
    model = staticmethod(lambda: architectures.bert()[1])
    inputs = architectures.BERT_INPUTS
    layer = "encoder.layer.2.attention.self.key"
    changed_operator = r"aten::linear"
    modules = ("embeddings.word_embeddings", "encoder.layer.0.attention.self.query", "pooler.dense")
    line = r"modeling_bert\.py:\d+"
    at_least = 70

    @staticmethod
    def example():
        return torch.from_numpy(numpy.random.default_rng(5).integers(0, 1000, (2, 16))), torch.ones(2, 16).long()


class ResNet50(Real):
    model = staticmethod(lambda: architectures.resnet50()[1])
    inputs = architectures.RESNET_INPUTS
    layer = "resnet.encoder.stages.1.layers.2.layer.1.convolution"
    changed_operator = r"aten::conv2d"
    modules = ("resnet.embedder.embedder.convolution", "classifier.1")
    line = r"modeling_resnet\.py:\d+"

    @staticmethod
    def example():
        return (torch.from_numpy(numpy.random.default_rng(5).standard_normal((1, 3, 64, 64)).astype("float32")),)


class Logits(architectures.Decoder):
    def forward(self, tokens):
        return self.logits(tokens)


class Decoder(Real):
    inputs = architectures.DECODER_INPUTS
    layer = "h.1.c_attn"
    changed_operator = r"aten::linear"
    modules = ("wte", "h.0.ln_1", "h.2.mlp.0", "ln_f")
    line = r"architectures\.py:\d+"
    at_least = 60

    @staticmethod
    def model():
        torch.manual_seed(13)
        return Logits().eval()

    @staticmethod
    def example():
        return (torch.from_numpy(numpy.random.default_rng(5).integers(1, 97, (2, 5))),)


class Shapes(nn.Module):
    """What sizes become: numbers, and numbers of numbers."""

    def forward(self, x, y):
        rows, columns = x.shape
        z = x.t().reshape(-1) * (rows * 2 - columns // 3) + rows / columns + max(rows, 3)
        parts = torch.cat([x, y], 0).split([rows, rows])
        return {"z": z, "parts": (parts[1], torch.full((rows,), True)), "count": rows, "power": x.sum() + rows ** 2}


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = torch.cond(x.sum() > 0, lambda t: self.linear(t) + 1, lambda t: t.sin(), (x,))
        count, x = torch.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 1.5),
                                    (torch.zeros((), dtype=torch.int64), x))
        return x, count


class State(nn.Module):
    """A buffer that is written to, one of no state_dict, a constant, numbers for tensors, no gradient, noise."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("scale", torch.full((3,), 0.3), persistent=False)
        self.table = torch.arange(3.0)
        self.layer = nn.Linear(3, 3)
        self.tied = self.layer
        self.norm = nn.BatchNorm1d(3)

    def forward(self, pair, *, options, gain=2, mode="sum", none=None):
        x, y = pair
        self.count.add_(1)
        with torch.no_grad():
            mean = x.mean()
        x = self.tied(x).masked_fill(x > mean, float("-inf")) + torch.rand_like(x) * gain
        x = torch.clamp(x, min=-1.5) * self.scale + self.count + torch.tensor([0.5, 1.5, 2.5])
        return [self.norm(x) + options["bias"], y[:, None] + self.table, x.to(torch.bfloat16).float()]


class Unused(nn.Module):
    """Draws that nobody uses, in a branch too, and an assertion."""

    def forward(self, x):
        torch.rand(3)
        y = torch.cond(x.sum() > 0, lambda t: (t.sin(), t + torch.rand(3))[1], lambda t: t - 1, (x,))
        nn.functional.dropout(y, training=True)
        torch._assert_async((x < 9).all(), "planted assertion")
        count = x.sum().to(torch.int64).item()
        torch._check(count >= 0)
        torch._check(count < 20)
        return y + torch.rand(3), torch.zeros(count, 2), x.view(torch.int32), nn.functional.interpolate(
            x[None, None], size=7)


class Small(Exported):
    def test_what_nobody_uses_is_called(self):
        given = (torch.tensor([1.0, 2.0, 3.0]),)
        self.save(Unused(), given)
        self.assert_as_in_python(given, self.given(given), disable_dropout=False)
        config = self.write_config({"model": {"path": "m.pt2"}, "inputs": self.given([torch.full((3,), 9.5)])})
        result = self.tool("run", "-c", config, "--force")
        self.assertEqual(result.code, 5, result.stdout)
        self.assertIn("planted assertion", result.stdout)

    def test_dynamic_sizes(self):
        example = torch.randn(5, 4), torch.randn(5, 4)
        sizes = {0: torch.export.Dim("rows", min=2, max=64)}
        self.save(Shapes(), example, dynamic_shapes={"x": sizes, "y": sizes})
        given = torch.randn(7, 4), torch.randn(7, 4)
        self.assert_as_in_python(given, self.given(given))
        names = [op["operator"] for op in self.operators("baseline")]
        self.assertIn("aten::split_with_sizes", " ".join(names))

    def test_sizes_that_it_was_not_exported_for(self):
        example = torch.randn(5, 4), torch.randn(5, 4)
        sizes = {0: torch.export.Dim("rows", min=2, max=64)}
        self.save(Shapes(), example, dynamic_shapes={"x": sizes, "y": sizes})
        for shapes, said in (([(65, 4), (65, 4)], r'"x" has size 65 in dimension 0, .* 2 to 64'),
                             ([(5, 3), (5, 4)], r'"x" has size 3 in dimension 1, .* exported for 4'),
                             ([(5, 4), (6, 4)], r"the sizes of the inputs do not fit: .*L\['y'\]\.size\(\)\[0\]"),
                             ([(5, 4, 1), (5, 4)], r'"x" has 3 dimensions, .* exported for 2')):
            config = self.write_config({"model": {"path": "m.pt2"},
                                        "inputs": self.given([torch.ones(shape) for shape in shapes])})
            result = self.tool("run", "-c", config, "--force")
            self.assertEqual(result.code, 5, result.stderr)
            self.assertRegex(result.stdout + result.stderr, said)

    def test_branches_and_loops(self):
        example = (torch.ones(2, 4),)
        self.save(Branches().eval(), example)
        for given in ((torch.ones(2, 4),), (-torch.ones(2, 4),)):
            self.assert_as_in_python(given, self.given(given))

    def test_state_and_structures(self):
        pair = torch.randn(4, 3), torch.arange(3)
        bias = torch.randn(3)
        name = self.save(State().eval(), (pair,), kwargs={"options": {"bias": bias}, "gain": 2, "none": None})
        x, y, b = self.given([*pair, bias])
        inputs = [{"name": "pair", "tuple": [x, y]}, {"name": "options", "dict": {"bias": b}}]
        keywords = {"options": {"bias": bias}, "gain": 2, "none": None}
        report = self.assert_as_in_python((pair,), inputs, keywords=keywords)
        self.assert_reproducible(report, 10)
        wrong = [*inputs, {"name": "gain", "value": 3}]
        config = self.write_config({"model": {"path": name}, "inputs": wrong})
        refused = self.tool("run", "-c", config, "--force")
        self.assertEqual(refused.code, 5, refused.stderr)
        self.assertIn('"gain" has another value than the one that the model was exported with', refused.stdout)

    def test_masks_and_scalars_by_init(self):
        class Masked(nn.Module):
            def forward(self, x, mask, scale):
                return x.masked_fill(mask == 0, 0.0) * scale
        self.save(Masked(), (torch.randn(2, 4), torch.ones(2, 4).long(), torch.tensor(2.0)))
        self.assertEqual(self.tool("init", "m.pt2", "-o", "config.json").code, 0)
        written = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        self.assertEqual([each["shape"] for each in written["inputs"]], [[2, 4], [2, 4], []])
        self.assertEqual(self.tool("run", "-c", "config.json").code, 0)

    def test_a_call_by_init(self):
        self.save(Shapes(), (torch.randn(5, 4), torch.randn(5, 4)))
        self.assertEqual(self.tool("init", "m.pt2", "-o", "config.json").code, 0)
        written = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        self.assertEqual([each["shape"] for each in written["inputs"]], [[5, 4], [5, 4]])
        self.assertEqual(self.tool("run", "-c", "config.json").code, 0)
        self.assertEqual(self.tool("run", "m.pt2", "--force").code, 0)

    def test_training_mode_of_the_export(self):
        self.save(nn.Sequential(nn.Linear(3, 3), nn.Dropout()).train(), (torch.ones(4, 3),))
        shown = self.run_config(0, model={"path": "m.pt2", "mode": "eval"}, inputs=self.given([torch.ones(4, 3)]))
        self.assertIn("training flag is a constant", json.dumps(shown))


class Refused(Exported):
    def refused(self, name: str, inputs: list, *said: str):
        config = self.write_config({"model": {"path": name}, "inputs": inputs})
        result = self.tool("run", "-c", config, "--force")
        self.assertEqual(result.code, 2, result.stderr)
        for each in said:
            self.assertRegex(result.stderr, each)

    def changed(self, change) -> str:
        """A copy of m.pt2 with its graph, or another entry, changed."""
        with zipfile.ZipFile(self.folder / "m.pt2") as archive:
            entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        change(entries)
        with zipfile.ZipFile(self.folder / "changed.pt2", "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
        return "changed.pt2"

    def setUp(self):
        super().setUp()
        self.save(nn.Linear(3, 3), (torch.ones(2, 3),))
        self.inputs = self.given([torch.ones(2, 3)])

    def test_an_operator_that_nobody_has(self):
        def change(entries):
            name = next(each for each in entries if each.endswith("models/model.json"))
            entries[name] = entries[name].replace(b"torch.ops.aten.linear.default", b"torch.ops.mine.linear.default")
        self.refused(self.changed(change), self.inputs, r"changed\.pt2: .*torch\.ops\.mine\.linear\.default",
                     "extensions")

    def test_another_version(self):
        def change(entries):
            name = next(each for each in entries if each.endswith("models/model.json"))
            graph = json.loads(entries[name])
            graph["schema_version"]["major"] = 9
            entries[name] = json.dumps(graph).encode()
        self.refused(self.changed(change), self.inputs, "its schema has version 9")

    def test_what_is_missing(self):
        for ending in ("weight_0", "models/model.json", "model_weights_config.json"):
            def change(entries, ending=ending):
                del entries[next(each for each in entries if each.endswith(ending))]
            self.refused(self.changed(change), self.inputs, r"changed\.pt2")

    def test_a_weight_that_is_cut(self):
        def change(entries):
            name = next(each for each in entries if each.endswith("weight_0"))
            entries[name] = entries[name][:-1]
        self.refused(self.changed(change), self.inputs, "weight_0 is shorter than its tensors")

    def test_entries_that_are_packed_as_no_pytorch_packs_them(self):
        with zipfile.ZipFile(self.folder / "m.pt2") as archive:
            entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            with zipfile.ZipFile(self.folder / "packed.pt2", "w", packing) as archive:
                for name, content in entries.items():
                    archive.writestr(name, content)
            self.refused("packed.pt2", self.inputs, "packed in a way that no PyTorch writes")
            self.assertEqual(self.tool("audit", "packed.pt2").code, 2)

    def test_no_bit_of_the_file_crashes_it(self):
        whole = (self.folder / "m.pt2").read_bytes()
        generator = numpy.random.default_rng(1)
        config = self.write_config({"model": {"path": "bad.pt2"}, "inputs": self.inputs})
        for place in generator.integers(0, len(whole), 40):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(generator.integers(0, 8))
            (self.folder / "bad.pt2").write_bytes(damaged)
            result = self.tool("run", "-c", config, "--force", "-q")
            self.assertIn(result.code, (0, 2, 5), (place, result))

    def test_a_higher_order_operator(self):
        def change(entries):
            name = next(each for each in entries if each.endswith("models/model.json"))
            entries[name] = entries[name].replace(b"torch.ops.aten.linear.default", b"torch.ops.higher_order.scan")
        self.refused(self.changed(change), self.inputs, r"torch\.ops\.higher_order\.scan is not known",
                     r"repro-check run -- python")


if __name__ == "__main__":
    harness.main()
