# SPDX-License-Identifier: Apache-2.0
"""ONNX models under ONNX Runtime: what a session returns is what a dump holds, a difference is named with the node,
its module and its line, and what cannot be run is refused in words."""
import json
import os
import sys
import unittest
import warnings
from pathlib import Path

import harness

harness.need("torch", "transformers", "numpy", "h5py", "xxhash", "onnx", "onnxruntime", "onnxscript")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

import numpy  # noqa: E402
import onnx  # noqa: E402
import onnx.numpy_helper  # noqa: E402
import onnxruntime  # noqa: E402
import repro_check  # noqa: E402
import repro_check.digest  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

onnxruntime.set_default_logger_severity(3)
warnings.simplefilter("ignore")


def convnet():
    config = transformers.ResNetConfig(layer_type="basic", depths=[1, 1, 1, 1], embedding_size=16,
                                       hidden_sizes=[16, 32, 32, 64], num_labels=10)
    return transformers.ResNetForImageClassification(config)


def encoder():
    return transformers.BertModel(transformers.BertConfig(
        num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, vocab_size=500))


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_layer=2, n_embd=32, n_head=4, vocab_size=100, use_cache=False, attn_implementation="eager"))

    def forward(self, tokens):
        return self.model(tokens).logits


IMAGES, TOKENS = torch.ones(2, 3, 64, 64), torch.ones(2, 16, dtype=torch.int64)
#: What is exported, with what, and the input of a configuration that stands for that.
MODELS = {
    "convnet": (convnet, IMAGES, {"generate": "normal", "shape": [2, 3, 64, 64], "seed": 1}),
    "encoder": (encoder, TOKENS, {"generate": "randint", "high": 500, "shape": [2, 16], "dtype": "int64"}),
    "decoder": (Decoder, TOKENS, {"generate": "randint", "high": 100, "shape": [2, 16], "dtype": "int64"}),
}


def made(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*each) for each in inputs],
                              [helper.make_tensor_value_info(*each) for each in outputs],
                              [onnx.numpy_helper.from_array(value, name) for name, value in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Onnx(harness.ToolTest):
    def export(self, name, dynamo=True):
        build, example, given = MODELS[name]
        torch.manual_seed(0)
        path = self.folder / f"{name}.onnx"
        program = torch.onnx.export(build().eval(), (example,), None if dynamo else str(path), dynamo=dynamo,
                                    verbose=False)
        if dynamo:
            program.save(str(path), external_data=True)
        return path.name, given

    def save(self, model, name="m.onnx"):
        onnx.save(model, str(self.folder / name))
        return name

    def said(self, code, *arguments, **options):
        result = self.tool(*arguments, **options)
        self.assertEqual(result.code, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def returned(self, run="baseline"):
        return [each["digest"] for each in self.operators(run)[-1]["outputs"] if each.get("digest")]


class Real(Onnx):
    def check(self, name, dynamo):
        path, _ = self.export(name, dynamo)
        example = MODELS[name][1].numpy()
        numpy.save(self.folder / "input.npy", example)
        report = self.run_config(0, model={"path": path}, inputs=[{"npy": "input.npy"}], dump={"level": "tensor"})
        self.assert_reproducible(report, 15)
        session = onnxruntime.InferenceSession(str(self.folder / path), providers=["CPUExecutionProvider"])
        expected = session.run(None, {session.get_inputs()[0].name: example})
        self.assertEqual(self.returned(), [str(repro_check.digest.of_bytes(each.tobytes())) for each in expected])
        self.assertEqual(json.loads((self.folder / "repro-check-out/baseline/manifest.json").read_text())["warnings"], [])

    def test_what_a_session_returns_is_what_a_dump_holds(self):
        for name in MODELS:
            for dynamo in (True, False) if name == "convnet" else (True,):  # the older exporter takes no other
                with self.subTest(name, dynamo=dynamo):
                    self.check(name, dynamo)

    def test_one_weight_by_one_ulp(self):
        for name, weight, words in (("convnet", "classifier.1.weight", "onnx::Gemm (classifier.1, linear.py:"),
                                    ("encoder", "embeddings.word_embeddings.weight", "word_embeddings")):
            with self.subTest(name):
                path, given = self.export(name)
                model = onnx.load(str(self.folder / path))
                for each in model.graph.initializer:
                    if each.name == weight:
                        values = onnx.numpy_helper.to_array(each).copy()
                        values[:, 7] = numpy.nextafter(values[:, 7], numpy.float32(9))
                        each.CopyFrom(onnx.numpy_helper.from_array(values, each.name))
                self.save(model, "other.onnx")
                config = self.write_config({"inputs": [given], "runs": [{"name": "a", "model": path}, {"name": "b", "model": "other.onnx"}]})
                said = self.said(1, "run", "-c", config, "--force")
                self.assertTrue(said.startswith(f"DIVERGED from the weights: {weight}, "), said)
                self.assertIn("max 1 ULP", said.splitlines()[0])
                self.assertIn(words, said.splitlines()[0])

    def test_a_model_alone(self):
        path, _ = self.export("convnet", dynamo=False)
        self.assertTrue(self.said(0, "run", path, "--force").startswith("REPRODUCIBLE: "))
        self.said(0, "record", path, "-o", "d")
        self.assertIn("onnx", self.said(0, "inspect", "d"))
        self.assertIn("NO PROOF", self.said(0, "audit", "d"))
        self.said(0, "run", path, "--force", "--check-observer")

    def test_optimisation_levels(self):
        path, given = self.export("encoder")
        config = self.write_config({"model": path, "inputs": [given]})
        said = self.said(0, "run", "-c", config, "--force", "--vary", "optimization")
        self.assertTrue(said.startswith("REPRODUCIBLE within policy: "), said)
        said = self.said(1, "run", "-c", config, "--force", "--vary", "optimization", "--set", "/compare/policy=bitwise")
        self.assertRegex(said.splitlines()[0], r"^DIVERGED at op \d+ onnx::LayerNormalization \(encoder\.layer\.0\.attention"
                                               r"\.output\.LayerNorm, normalization\.py:\d+\): .*, origin$")
        self.assertIn('fix        give both runs "settings": {"onnx.optimization": "disabled"}', said)

    def test_against_the_reference_evaluator(self):
        for name in ("convnet", "decoder"):  # the evaluator fails at a Reshape of the encoder
            with self.subTest(name):
                path, given = self.export(name)
                config = self.write_config({"model": path, "inputs": [given]})
                said = self.said(0, "run", "-c", config, "--force", "--against", "reference")
                self.assertTrue(said.startswith("REPRODUCIBLE within policy: "), said)


class Made(Onnx):
    def test_generated_inputs_are_those_of_torchscript(self):
        dtypes = ("float16", "float32", "float64")
        given = [{"generate": "normal", "dtype": dtype, "shape": [7, 31], "seed": 3, "mean": 1, "std": 2} for dtype in dtypes]
        given += [{"generate": "uniform", "dtype": dtype, "shape": [501], "seed": 2**32 - 1, "low": -3} for dtype in dtypes]
        given += [{"generate": "randint", "dtype": dtype, "shape": [300], "seed": 5, "low": -7, "high": 90}
                  for dtype in ("int8", "int32", "int64", "float32")]
        given += [{"generate": "arange", "dtype": "int32", "shape": [9], "low": -2},
                  {"generate": "arange", "dtype": "float32", "shape": [2, 2]}, {"generate": "zeros", "shape": []},
                  {"generate": "ones", "dtype": "bool", "shape": [3]}, {"generate": "normal", "shape": [0, 3]},
                  {"generate": "normal", "shape": [70001], "seed": 11}]
        names = [f"x{number}" for number in range(len(given))]
        arguments = ", ".join(f"{name}: torch.Tensor" for name in names)
        source = self.folder / "source.py"
        source.write_text("import torch\nclass M(torch.nn.Module):\n"
                          f"    def forward(self, {arguments}): return ({', '.join(names)})\n")
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        from source import M

        torch.jit.script(M()).save(str(self.folder / "m.pt"))
        kinds = [helper.np_dtype_to_tensor_dtype(numpy.dtype(each.get("dtype", "float32"))) for each in given]
        ends = [(name, kind, each["shape"]) for name, kind, each in zip(names, kinds, given)]
        self.save(made([helper.make_node("Identity", [name], [f"y{name}"]) for name in names], ends,
                       [(f"y{name}", kind, shape) for name, kind, shape in ends]))
        digests = []
        for model in ("m.pt", "m.onnx"):
            config = self.write_config({"model": model, "inputs": [{"name": n, **g} for n, g in zip(names, given)]})
            self.said(0, "record", "-c", config, "-o", f"of-{model}")
            manifest = json.loads((self.folder / f"of-{model}/manifest.json").read_text())
            digests.append([each["digest"] for each in manifest["named_tensors"]])
        self.assertEqual(len(digests[0]), len(given))
        self.assertEqual(*digests)

    def test_branches_and_numbers_that_are_drawn(self):
        def branch(operator):
            return helper.make_graph([helper.make_node(operator, ["x"], ["b"])], operator, [],
                                     [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])])

        nodes = [helper.make_node("If", ["c"], ["chosen"], then_branch=branch("Relu"), else_branch=branch("Neg")),
                 helper.make_node("RandomNormalLike", ["x"], ["drawn"]), helper.make_node("Add", ["chosen", "drawn"], ["y"])]
        self.save(made(nodes, [("c", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])]))
        report = self.run_config(0, model="m.onnx", dump={"level": "tensor"}, inputs=[
            {"name": "x", "generate": "normal", "shape": [2]}, {"name": "c", "value": True}])
        self.assert_reproducible(report, 2)
        manifest = json.loads((self.folder / "repro-check-out/baseline/manifest.json").read_text())
        self.assertEqual(manifest["warnings"], ["2 nodes in branches and bodies of loops are not recorded by themselves"])
        self.assertTrue(any(each["seeded"] for each in self.operators("baseline")))
        said = self.said(1, "run", "-c", "config.json", "--force", "--set", '/runs=[{"name": "a", "seed": 1}, {"name": "b", "seed": 2}]')
        self.assertIn("onnx::RandomNormalLike", said.splitlines()[0])

    def pair(self, first, second, *flags):
        """The first line of two models that are run with the same inputs."""
        self.save(first, "a.onnx")
        self.save(second, "b.onnx")
        runs = [{"name": name, "model": f"{name}.onnx"} for name in "ab"]
        config = self.write_config({"runs": runs, "inputs": [{"generate": "ones", "shape": [2, 4]}]})
        result = self.tool("run", "-c", config, "--force", *flags)
        return result.code, result.stdout.splitlines()[0]

    def test_texts_and_sequences_are_compared(self):
        given = [("x", TensorProto.FLOAT, [2, 4])]

        def texts(word):
            words = onnx.numpy_helper.from_array(numpy.array([word, "same"], object), "w")
            model = made([helper.make_node("Identity", ["w"], ["s"]), helper.make_node("Relu", ["x"], ["y"])], given,
                         [("s", TensorProto.STRING, [2]), ("y", TensorProto.FLOAT, [2, 4])])
            model.graph.initializer.append(words)
            return model

        def sequence(factor):
            model = made([helper.make_node("Mul", ["x", "k"], ["m"]), helper.make_node("SplitToSequence", ["m"], ["s"])], given,
                         [("m", TensorProto.FLOAT, [2, 4])], [("k", numpy.array([factor], "f4"))])
            model.graph.output.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
            del model.graph.output[0]
            return model

        for make, one, other in ((texts, "foo", "bar"), (sequence, 1, numpy.nextafter(numpy.float32(1), numpy.float32(2)))):
            with self.subTest(make):
                self.assertEqual(self.pair(make(one), make(one))[0], 0)
                code, line = self.pair(make(one), make(other))
                self.assertEqual(code, 1, line)
                self.assertTrue(line.startswith("DIVERGED"), line)

    def test_what_a_branch_takes_from_outside(self):
        def model(value):
            def branch(operator):
                return helper.make_graph([helper.make_node(operator, ["x", "k"], ["b"])], operator, [],
                                         [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 4])])

            nodes = [helper.make_node("ReduceSum", ["x"], ["n"], keepdims=0), helper.make_node("Cast", ["n"], ["c"], to=TensorProto.BOOL),
                     helper.make_node("If", ["c"], ["y"], then_branch=branch("Add"), else_branch=branch("Mul"))]
            return made(nodes, [("x", TensorProto.FLOAT, [2, 4])], [("y", TensorProto.FLOAT, [2, 4])],
                        [("k", numpy.array([value], "f4"))])

        code, line = self.pair(model(1), model(2))
        self.assertEqual(code, 1)
        self.assertTrue(line.startswith("DIVERGED from the weights: k, 1 of 1 element"), line)

    def test_numbers_that_a_node_draws_behind_one_that_is_optimised_away(self):
        nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Identity", ["a"], ["b"]),
                 helper.make_node("RandomNormalLike", ["b"], ["r"]), helper.make_node("Mul", ["r", "b"], ["m"]),
                 helper.make_node("RandomUniformLike", ["x"], ["s"]), helper.make_node("Add", ["m", "s"], ["y"])]
        self.save(made(nodes, [("x", TensorProto.FLOAT, [2, 4])], [("y", TensorProto.FLOAT, [2, 4])]))
        for flags in ((), ("--vary", "optimization")):
            said = self.said(0, "run", "m.onnx", "--force", "--seed", "7", *flags)
            self.assertTrue(said.startswith("REPRODUCIBLE: 4 of 4 operators"), said)

    def test_scalars_and_dtypes_that_numpy_has_not(self):
        table = numpy.arange(16, dtype="f4").reshape(4, 4)
        self.save(made([helper.make_node("Gather", ["D", "i"], ["y"])], [("i", TensorProto.INT64, [])],
                       [("y", TensorProto.FLOAT, [4])], [("D", table)]))
        self.said(0, "record", "m.onnx", "--set", '/inputs=[{"value": 2}]', "-o", "d")
        with repro_check.open(self.folder / "d") as dump:
            self.assertEqual(dump["onnx::Gather", 0].outputs[0].tolist(), table[2].tolist())
        self.save(made([helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT), helper.make_node("Relu", ["h"], ["r"]),
                        helper.make_node("Cast", ["r"], ["y"], to=TensorProto.BFLOAT16)],
                       [("x", TensorProto.BFLOAT16, [2, 4])], [("y", TensorProto.BFLOAT16, [2, 4])]))
        for flags in ((), ("--against", "reference")):
            self.assertTrue(self.said(0, "run", "m.onnx", "--force", *flags).startswith("REPRODUCIBLE"))
        self.save(made([helper.make_node("QuantizeLinear", ["x", "k", "z"], ["y"])], [("x", TensorProto.FLOAT, [2, 4])],
                       [("y", TensorProto.INT4, [2, 4])], [("k", numpy.array(1, "f4"))]))
        model = onnx.load(str(self.folder / "m.onnx"))
        model.opset_import[0].version = 21
        model.graph.initializer.append(helper.make_tensor("z", TensorProto.INT4, [], [0]))
        self.save(model)
        self.assertIn("of out.y only the type was compared", self.said(4, "run", "m.onnx", "--force"))

    def test_a_gate(self):
        def model(factor):
            return made([helper.make_node("Mul", ["x", "k"], ["y"])], [("x", TensorProto.FLOAT, [2, 4])],
                        [("y", TensorProto.FLOAT, [2, 4])], [("k", numpy.array([factor], "f4"))])

        self.save(model(1))
        config = self.write_config({"model": "m.onnx", "inputs": [{"generate": "normal", "shape": [2, 4]}]})
        self.said(4, "gate", "-c", config)
        self.said(0, "gate", "accept", "-c", config)
        self.said(0, "gate", "-c", config)
        self.save(model(1.5))
        self.said(1, "gate", "-c", config)

    def test_what_cannot_be_run(self):
        plain = made([helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])])
        self.save(plain)
        self.save(made([helper.make_node("Nosuch", ["x"], ["y"])], [("x", TensorProto.FLOAT, [2])],
                       [("y", TensorProto.FLOAT, [2])]), "unknown.onnx")
        whole = (self.folder / "m.onnx").read_bytes()
        (self.folder / "damaged.onnx").write_bytes(whole[:len(whole) // 2])
        path, _ = self.export("convnet")
        os.remove(self.folder / f"{path}.data")
        given = {"name": "x", "generate": "normal", "shape": [2]}
        for fields, words in (
                ({"model": "unknown.onnx"}, "Nosuch"), ({"model": "damaged.onnx"}, "no whole ONNX model"),
                ({"model": path}, f"{path}.data, which is not there"), ({"inputs": []}, "no input is given for x"),
                ({"inputs": [{**given, "dtype": "float64"}]}, "is float64, and x is float32"),
                ({"inputs": [{**given, "name": "z"}]}, 'the model has no input "z"'),
                ({"settings": {"onnx.level": "all"}}, "there is no such setting"),
                ({"settings": {"onnx.optimization": "most"}}, "most is none of all, disabled, basic, extended"),
                ({"settings": {"onnx.provider": "Nosuch"}}, "is not of this ONNX Runtime"),
                ({"device": "cuda"}, '/device: "cuda"'), ({"dtype": "float64"}, "/dtype: is not for ONNX models"),
                ({"dump": {"include": ["onnx::Relu"]}}, "/dump/include: is not for ONNX models"),
                ({"dump": {"depth": "all"}}, "/dump/depth: is not for ONNX models"),
                ({"extensions": [sys.executable]}, "/extensions: ")):
            with self.subTest(fields):
                config = self.write_config({"model": "m.onnx", "inputs": [given], **fields})
                said = self.said(2, "run", "-c", config, "--force")
                self.assertIn(words, said)
                self.assertFalse((self.folder / "repro-check-out/baseline/manifest.json").exists())
        said = self.said(5, "run", "-c", self.write_config({"model": "m.onnx", "inputs": [{**given, "shape": [3]}]}))
        self.assertIn("the model failed: ", said)

    def test_without_onnx_runtime(self):
        self.save(made([helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])]))
        (self.folder / "python3").write_text("#!/bin/sh\necho has no onnxruntime\nexit 2\n")
        (self.folder / "python3").chmod(0o755)
        environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
        said = self.said(2, "run", "m.onnx", env={**environment, "PATH": f"{self.folder}:/usr/bin:/bin"})
        self.assertIn("no Python here can record an ONNX model: python3 has no onnxruntime", said)
        self.assertIn("pip install onnx onnxruntime h5py xxhash", said)


if __name__ == "__main__":
    unittest.main()
