# SPDX-License-Identifier: Apache-2.0
"""What must hold for every architecture."""
import copy

import numpy
import torch

from torchscript import architectures
import harness


class ModelChecks(harness.ToolTest):
    """A subclass gives: `build()` (TorchScript and eager), `inputs` (of the configuration), `layer`
    (a module whose weight is changed), `changed_operator`, and `modules` that must be seen."""

    layer = ""
    changed_operator = ""
    modules: tuple = ()
    at_least = 100

    @classmethod
    def setUpClass(cls):
        cls.scripted, cls.eager = cls.build()

    def save(self, name: str, model) -> str:
        torch.jit.save(model, str(self.folder / name))
        return name

    def saved_inputs(self) -> list:
        """The inputs as .npy files: the same numbers here and in the tool."""
        specifications = []
        for number, tensor in enumerate(self.example()):
            numpy.save(self.folder / f"input{number}.npy", tensor.numpy())
            specifications.append({"npy": f"input{number}.npy"})
        return specifications

    def changed_by_one_ulp(self):
        """A copy of the model in which one weight of `layer` has moved by one ULP, one that the
        layer's output shows."""
        model = copy.deepcopy(self.scripted)
        eager = copy.deepcopy(self.eager)
        seen = {}

        def remember(module, inputs, output):
            # A loop calls the layer several times; the first call is the one that must show it.
            seen.setdefault("input", inputs[0].detach().clone())

        layer = eager.get_submodule(self.layer)
        handle = layer.register_forward_hook(remember)
        with torch.no_grad():
            eager(*self.example())
            handle.remove()
            before = layer(seen["input"])
            moved = architectures.nudge(
                layer.weight, lambda: not torch.equal(layer(seen["input"]), before))
            assert moved, "no element of the weight shows"
            self.weights_of(model)[self.layer + ".weight"].copy_(layer.weight)
        return model

    @staticmethod
    def weights_of(model) -> dict:
        return model.state_dict()

    def test_identical_twice(self):
        report = self.run_config(0, model={"path": self.save("m.pt", self.scripted)},
                                 inputs=self.inputs)
        self.assert_reproducible(report, self.at_least)

    def test_one_ulp_in_one_weight(self):
        inputs = self.saved_inputs()
        self.save("m.pt", self.scripted)
        self.save("other.pt", self.changed_by_one_ulp())
        report = self.run_config(
            1, model={"path": "m.pt"}, inputs=inputs,
            runs=[{"name": "baseline"}, {"name": "candidate", "model": {"path": "other.pt"}}])
        first = report["first_divergence"]
        self.assertEqual(report["verdict"]["kind"], "weights", report["verdict"])
        self.assertEqual(first["key"]["module"], self.layer)
        self.assertRegex(first["key"]["operator"], self.changed_operator)
        named = {item["pointer"]: item for item in report["differences"]}
        weight = named["parameter." + self.layer + ".weight"]
        self.assertEqual(weight["metrics"]["n_diff"], 1)
        self.assertEqual(weight["metrics"]["ulp_max"], 1)
        self.assertIn(self.layer + ".weight", report["verdict"]["headline"])

    def test_another_thread_count(self):
        report = self.run_either(model={"path": self.save("m.pt", self.scripted)},
                                 inputs=self.inputs,
                                 runs=[{"name": "baseline"}, {"name": "candidate", "threads": 1}])
        self.assertIn("threads.intra_op", {d["pointer"] for d in report["differences"]})
        if report["verdict"]["exit_code"] == 0:
            self.assert_reproducible(report, self.at_least)
            return
        digests = [output["digest"] for item in report["divergences"]["items"]
                   for output in item["outputs"]]
        self.assertTrue(any(d["baseline"] != d["candidate"] for d in digests))
        self.assertEqual(report["verdict"]["kind"], "origin")

    def run_either(self, **fields) -> dict:
        config = self.write_config(fields)
        code = self.tool("run", "-c", config, "-q").code
        self.assertIn(code, (0, 1))
        return self.run_config(code, **fields)

    def test_module_paths_are_those_of_named_modules(self):
        self.run_config(0, model={"path": self.save("m.pt", self.scripted)}, inputs=self.inputs)
        known = {name for name, _ in self.eager.named_modules()}
        recorded = {op["module"] for op in self.operators("baseline")}
        self.assertLessEqual(recorded, known)
        for module in self.modules:
            self.assertIn(module, recorded)
