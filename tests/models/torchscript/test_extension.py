# SPDX-License-Identifier: Apache-2.0
"""Models that need a library of custom operators: with it, without it, and one whose operator hangs."""
import harness

harness.need("torch", "numpy")

import json
import os
import shlex

import torch
from torch import Tensor, nn

LIBRARY = os.environ["CUSTOM_OPERATORS"]
try:
    torch.ops.load_library(LIBRARY)
except OSError as error:
    print(f"skipped: the library is built for another LibTorch: {error}")
    raise SystemExit(harness.SKIPPED)

FLOATS = [{"generate": "normal", "shape": [4, 4], "dtype": "float32", "seed": 3}]


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.ops.repro_check_test.twice(x))


class Hangs(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.repro_check_test.hang(torch.relu(x))


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.repro_check_test.noise(torch.relu(x))


class Scribbles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(x)
        z = torch.ops.repro_check_test.scribble(y)
        return y * 2.0 + z


class Extension(harness.ToolTest):
    def fields(self, kind, **more) -> dict:
        torch.jit.script(kind()).save(str(self.folder / "m.pt"))
        return {"model": "m.pt", "inputs": FLOATS, **more}

    def test_its_operators_are_recorded_and_its_digest_is_kept(self):
        report = self.run_config(0, **self.fields(Twice, extensions=[LIBRARY]))
        self.assert_reproducible(report, 1)
        names = [op["operator"] for op in self.operators("baseline")]
        self.assertEqual(names, ["repro_check_test::twice", "aten::relu", "repro_check::returned"])
        manifest = json.loads((self.folder / "repro-check-out/baseline/manifest.json").read_text())
        facts = {fact["name"]: fact["value"] for fact in manifest["environment"]}
        self.assertRegex(facts["extension." + os.path.basename(LIBRARY)], "^[0-9a-f]{32}$")

    def test_without_it_the_key_is_named(self):
        config = self.write_config(self.fields(Twice))
        result = self.tool("run", "-c", config)
        self.assertEqual(result.code, 2, result.stdout)
        self.assertIn("repro_check_test", result.stderr)
        self.assertIn('"extensions": ["libmy.so"]', result.stderr)

    def test_what_cannot_be_loaded_is_refused(self):
        (self.folder / "libbroken.so").write_text("no library")
        config = self.write_config(self.fields(Twice, extensions=["libbroken.so"]))
        result = self.tool("run", "-c", config)
        self.assertEqual(result.code, 2, result.stdout)
        self.assertIn("libbroken.so: this extension cannot be loaded", result.stderr)

    def explained(self, kind, cause: str) -> tuple:
        """What is said of two runs, and the lines that try again; all calls inside show the number."""
        fields = self.fields(kind, extensions=[LIBRARY])
        first = self.run_config(1, **fields, dump={"level": "tensor"})["first_divergence"]
        self.assertEqual(first["cause"]["name"], cause, first["cause"])
        self.assertIn('"dump": {"depth": "all"}', first["cause"]["advice"])
        lines = [line for line in self.tool("run", "-c", "config.json").stdout.splitlines()
                 if line.startswith("next: ") and "--set" in line]
        inside = self.run_config(1, **fields, dump={"level": "tensor", "depth": "all"})
        inside = inside["first_divergence"]
        self.assertRegex(inside["key"]["operator"], "^aten::")
        self.assertIn(inside["cause"]["name"], ("argument differs", "constant differs"))
        return first, lines

    def test_what_nobody_can_explain_is_looked_into(self):
        first, lines = self.explained(Noise, "unexplained")
        self.assertEqual(first["key"]["operator"], "repro_check_test::noise")
        self.assertEqual(["/dump/depth=all" in line for line in lines], [True], lines)
        self.assertEqual(self.tool(*shlex.split(lines[0])[2:]).code, 1)

    def test_a_write_that_nobody_declared(self):
        # A custom operator's inputs are read again after it: it is the origin, not who reads them next.
        first, _ = self.explained(Scribbles, "unexplained")
        self.assertEqual(first["key"]["operator"], "repro_check_test::scribble")
        self.assertEqual([output["slot"] for output in first["outputs"]], ["x"])

    def test_an_operator_that_hangs_is_named_when_the_time_is_over(self):
        fields = self.fields(Hangs, extensions=[LIBRARY])
        config = self.write_config(fields)
        result = self.tool("run", "-c", config, "--timeout", "20")
        self.assertEqual(result.code, 5, result.stdout + result.stderr)
        self.assertIn("was killed after 20 s, its timeout, in op 1 repro_check_test::hang",
                      " ".join(result.stdout.split()))
        recovered = self.tool("recover", "repro-check-out/baseline")
        self.assertEqual(recovered.code, 0, recovered.stderr)
        self.assertIn("RECOVERED 1 operator", recovered.stdout)


class Mode(harness.ToolTest):
    def test_eval_against_train_leads(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        torch.jit.script(model).save(str(self.folder / "m.pt"))
        report = self.run_config(1, model="m.pt", inputs=FLOATS,
                                 runs=[{"name": "a"}, {"name": "b", "model": {"mode": "train"}}])
        cause = report["first_divergence"]["cause"]
        self.assertEqual(cause["name"], "eval against train")
        self.assertIn("model.mode eval -> train, model.training off -> on", cause["evidence"])
        self.assertIn({"pointer": "model.training", "baseline": "off", "candidate": "on"},
                      [{key: each[key] for key in ("pointer", "baseline", "candidate")}
                       for each in report["differences"]])

    def test_the_flags_of_modules_are_told_apart(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
        torch.jit.script(model).save(str(self.folder / "eval.pt"))
        model[1].train()
        torch.jit.script(model).save(str(self.folder / "mixed.pt"))
        report = self.run_config(1, inputs=FLOATS, runs=[
            {"name": "a", "model": {"path": "eval.pt", "mode": "as_saved"}},
            {"name": "b", "model": {"path": "mixed.pt", "mode": "as_saved"}}])
        self.assertIn("model.training off -> on in 1 of 3 modules: 1",
                      report["first_divergence"]["cause"]["evidence"])


if __name__ == "__main__":
    harness.main()
