# SPDX-License-Identifier: Apache-2.0
"""Two versions of a weight file: bisect names the tensors that matter, and no other."""
import harness

harness.need("torch", "numpy")

import json

import torch
from torch import Tensor, nn

FLOATS = [{"generate": "uniform", "shape": [4, 4], "low": 1, "high": 2, "dtype": "float32", "seed": 3}]
NAMES = ["gate", "key", "first", "second", "third", "fourth"]


class Net(nn.Module):
    """What `gate` and `key` make of x needs both of them; each of the others reaches it alone."""

    def __init__(self):
        super().__init__()
        for name in NAMES:
            self.register_parameter(name, nn.Parameter(torch.full([4], float(name not in NAMES[:2]))))
        self.register_buffer("same", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.first * self.second * self.third * self.fourth * self.same
        return x + self.gate * self.key


class Unused(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.third


class Frozen(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def version(kind, changed, by) -> torch.jit.ScriptModule:
    module = kind()
    with torch.no_grad():
        for name in changed:
            getattr(module, name).add_(by(name))
    return torch.jit.script(module)


class Weights(harness.ToolTest):
    def bisect(self, second, expected: int = 1, run=None, compare=None, kind=Net, words=()):
        version(kind, [], None).save(str(self.folder / "v1.pt"))
        second.save(str(self.folder / "v2.pt"))
        run = run or {"model": {"weights_from": "v2.pt"}}
        config = self.write_config({"model": {"path": "v1.pt"}, "inputs": FLOATS,
                                    "runs": [{"name": "old"}, {"name": "new", **run}],
                                    **({"compare": compare} if compare else {})})
        result = self.tool("bisect", "-c", config, "--format", "json", "--force", *words)
        self.assertEqual(result.code, expected, result.stdout + result.stderr)
        return json.loads(result.stdout) if result.stdout else result.stderr

    def test_two_of_six_are_beyond_the_tolerance(self):
        second = version(Net, NAMES, lambda name: 1.0 if name in NAMES[:2] else 1e-7)
        policy = {"policy": "tolerance", "rtol": 1e-4, "atol": 1e-4}
        for run in ({"model": {"weights_from": "v2.pt"}}, {"model": {"path": "v2.pt"}}):
            found = self.bisect(second, run=run, compare=policy)
            self.assertEqual(found["status"], "reduced")
            self.assertEqual(found["reduced"], ["/model/weights/gate", "/model/weights/key"])
            self.assertTrue(found["certain"])
            self.assertEqual(found["rest"], "reproducible")
            shown = {change["name"]: change["candidate"] for change in found["changes"]}
            self.assertEqual(shown["/model/weights/key"], "v2.pt (4 of 4 elements, float32 [4])")
            self.assertNotIn("/model/weights/same", shown)
            self.assertEqual("/model/path" in shown, "path" in run["model"])

    def test_one_of_six_changes_a_bit(self):
        found = self.bisect(version(Unused, NAMES, lambda name: 1e-7), kind=Unused)
        self.assertEqual(found["reduced"], ["/model/weights/third"])
        self.assertEqual(found["rest"], "reproducible")

    def test_beside_a_setting(self):
        second = version(Net, NAMES[2:], lambda name: 1e-7)
        run = {"model": {"weights_from": "v2.pt", "weights": ["second"]}, "seed": 9}
        found = self.bisect(second, run=run)
        self.assertEqual([change["name"] for change in found["changes"]],
                         ["/model/weights/second", "/seed"])
        self.assertEqual(found["reduced"], ["/model/weights/second"])

    def test_code_that_differs_is_the_rest_of_the_file(self):
        class Other(Net):
            def forward(self, x: Tensor) -> Tensor:
                x = x * self.first * self.second * self.third * self.fourth * self.same
                return x - self.gate * self.key - 1.0

        second = version(Other, NAMES[2:], lambda name: 0.0)
        found = self.bisect(second, run={"model": {"path": "v2.pt"}})
        self.assertEqual(found["reduced"], ["/model/path"])

    def test_what_a_run_took_is_in_its_report(self):
        second = version(Net, ["second"], lambda name: 0.5)
        self.bisect(second)
        config = self.folder / "config.json"
        result = self.tool("run", "-c", config, "--format", "json", "--force")
        self.assertEqual(result.code, 1, result.stderr)
        report = json.loads(result.stdout)
        differ = {each["pointer"]: each for each in report["differences"]}
        self.assertEqual(differ["model.weights"]["candidate"], "all")
        self.assertTrue(differ["model.weights_digest"]["affects_numbers"])
        self.assertFalse(differ["model.weights_path"]["affects_numbers"])
        self.assertEqual(report["verdict"]["kind"], "weights")
        self.assertIn("second", report["verdict"]["headline"])

    def test_what_cannot_be_exchanged_is_refused(self):
        class More(Net):
            def __init__(self):
                super().__init__()
                self.extra = nn.Parameter(torch.ones(4))

        class Wider(Net):
            def __init__(self):
                super().__init__()
                self.third = nn.Parameter(torch.ones(1))

        frozen = torch.jit.freeze(torch.jit.script(Frozen().eval()))
        for second, why in ((version(More, [], None), "extra is only in"),
                            (version(Wider, [], None), "third is float32 [4] in"),
                            (frozen, "as in a frozen model")):
            error = self.bisect(second, expected=2)
            self.assertIn(why, error)
            run = self.tool("run", "-c", "config.json", "--force")
            self.assertEqual(run.code, 2)
            self.assertIn(why, run.stderr)


if __name__ == "__main__":
    harness.main()
