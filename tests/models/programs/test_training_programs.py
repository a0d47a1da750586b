# SPDX-License-Identifier: Apache-2.0
"""Programs as people write them: each computes to the last bit what it computes alone, two runs of it
are found equal, and what does differ between two runs is named."""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch")

PROGRAMS = Path(__file__).resolve().parent
LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


class Programs(ToolTest):
    def command(self, name, *arguments):
        return [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, arguments)]

    def bare(self, command):
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout

    def record(self, dump, command):
        done = self.tool("exec", "-o", dump, "--", *command, timeout=600)
        self.assertEqual(done.code, 0, done.stderr[-3000:])
        return done

    def compare(self, one, other, expected):
        done = self.tool("diff", one, other, "--format", "json", "--report", "text=report.txt")
        self.assertEqual(done.code, expected, done.stdout[:2000] + done.stderr)
        self.text = (self.folder / "report.txt").read_text(encoding="utf-8")
        return json.loads(done.stdout)

    def assert_repeats(self, name, *arguments, at_least):
        """Twice recorded it prints what it prints alone, and the recordings agree."""
        command = self.command(name, *arguments)
        printed = self.bare(command)
        for dump in "AB":
            self.assertEqual(self.record(dump, command).stdout, printed)
        report = self.compare("A", "B", 0)
        self.assert_reproducible(report, at_least)
        return report

    def series(self, report, number, ordinal=0):
        return next(series for series in report["steps"]
                    if (series["number"], series["ordinal"]) == (number, ordinal))

    def phases(self, dump):
        listed = self.tool("inspect", dump, "--list", "--format", "json")
        self.assertEqual(listed.code, 0, listed.stderr)
        return [(op["phase"], op["operator"]) for op in json.loads(listed.stdout)["ops"]]


class Convnet(Programs):
    def test_it_repeats(self):
        report = self.assert_repeats("convnet", 7, at_least=1000)
        loss = self.series(report, "loss")
        self.assertEqual(loss["steps"], list(range(12)))
        self.assertEqual(loss["baseline"], loss["candidate"])
        rate = self.series(report, "learning_rate")["baseline"]
        self.assertEqual([rate[0], rate[-1]], [1.0, 0.7])
        phases = self.phases("A")
        # What looks at the model after an epoch is no part of training it.
        looked = [name for phase, name in phases if phase == "eval"]
        self.assertEqual({name: looked.count(name) for name in ("aten::argmax", "aten::conv2d")},
                         {"aten::argmax": 4, "aten::conv2d": 8})
        self.assertNotIn(("forward", "aten::argmax"), phases)
        self.assertIn("torch.manual_seed (7) at convnet.py:", self.text)

    def test_another_seed(self):
        for dump, seed in (("A", 7), ("B", 8)):
            self.record(dump, self.command("convnet", seed))
        first = self.compare("A", "B", 1)["first_divergence"]
        self.assertEqual(first["cause"]["name"], "rng stream", self.text)
        self.assertIn("seed 7 against 8", self.text)
        self.assertIn("torch.manual_seed (7) at convnet.py:", self.text)
        self.assertIn("(8) at convnet.py:", self.text)


class TwoOptimizers(Programs):
    def test_it_repeats(self):
        report = self.assert_repeats("gan", 3, at_least=780)
        # Two losses of the discriminator, then one of the generator; an optimizer each.
        self.assertEqual([(s["number"], s["ordinal"]) for s in report["steps"]],
                         [("loss", 0), ("loss", 1), ("loss", 2), ("gradient_norm", 0), ("gradient_norm", 1),
                          ("learning_rate", 0), ("learning_rate", 1), ("drift", 0), ("drift", 1)])

    def test_another_seed(self):
        for dump, seed in (("A", 3), ("B", 4)):
            self.record(dump, self.command("gan", seed))
        report = self.compare("A", "B", 1)
        self.assertEqual(report["first_divergence"]["cause"]["name"], "rng stream", self.text)
        self.assertEqual(self.series(report, "drift", 1)["first_apart"], 0)


class LanguageModel(Programs):
    def test_it_repeats(self):
        self.assert_repeats("language_model", 1, at_least=400)
        evaluated = {name for phase, name in self.phases("A") if phase == "eval"}
        self.assertTrue({"aten::lstm.input", "aten::nll_loss_nd"} <= evaluated, evaluated)

    def test_another_seed(self):
        for dump, seed in (("A", 1), ("B", 2)):
            self.record(dump, self.command("language_model", seed))
        first = self.compare("A", "B", 1)["first_divergence"]
        self.assertEqual(first["cause"]["name"], "rng stream", self.text)
        self.assertEqual((first["relation"], first["key"]["phase"]), ("origin", "setup"), self.text)
        self.assertIn("language_model.py:", self.text.splitlines()[1])


class Ladder(Programs):
    def forget_what_was_compiled(self):
        """Inductor then asks anew, in processes of its own, what the compiler can do."""
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(self.folder / "compiled")
        self.addCleanup(os.environ.pop, "TORCHINDUCTOR_CACHE_DIR", None)

    def test_each_rung_repeats(self):
        for backend in LADDER:
            with self.subTest(backend=backend):
                command = self.command("convnet", 7, backend)
                printed = self.bare(command)
                self.forget_what_was_compiled()
                for dump in (f"{backend}1", f"{backend}2"):
                    self.assertEqual(self.record(dump, command).stdout, printed)
                report = self.compare(f"{backend}1", f"{backend}2", 0)
                # Twelve calls of functions, in twelve steps.
                self.assertEqual(report["coverage"]["fused_baseline"], 12 * 12)
                self.assertIn("inside compiled regions", self.text)
                # One region a step: no hook of ours has cut it, and none was compiled anew and given up.
                regions = [name for _, name in self.phases(f"{backend}1")
                           if name == "repro_check::region_outputs"]
                self.assertEqual(len(regions), 12)

    def test_steps_that_are_not_recorded_are_not_compiled_anew(self):
        command = self.command("convnet", 7, "aot_eager_decomp_partition")
        printed = self.bare(command)
        done = self.tool("exec", "-o", "A", "--steps", "5:7", "--", *command, timeout=600)
        self.assertEqual((done.code, done.stdout), (0, printed), done.stderr)


class FineTuning(Programs):
    def test_it_repeats(self):
        try:
            import accelerate  # noqa: F401
            import transformers  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        report = self.assert_repeats("fine_tuning", 5, at_least=1000)
        self.assertEqual(self.series(report, "loss")["steps"], list(range(8)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
