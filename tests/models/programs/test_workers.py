# SPDX-License-Identifier: Apache-2.0
"""What worker processes of a DataLoader do is recorded where their batches are taken: `exec --workers`."""
import json
import subprocess
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch")

PROGRAM = Path(__file__).resolve().parent / "loading.py"
NOISE = next(number for number, line in enumerate(PROGRAM.read_text(encoding="utf-8").splitlines(), 1)
             if line.endswith("# NOISE"))


def name_of(operator):
    """Without its overload, which depends on the release."""
    return operator.partition(".")[0]


def of_workers(operators):
    return [name_of(each["operator"]) for each in operators if each["lane"] != 0]


def command(*arguments):
    return [sys.executable, str(PROGRAM), *arguments]


class Workers(ToolTest):
    def record(self, name, *arguments, flags=("--workers",), expected=0):
        done = self.tool("exec", "--force", "-o", name, *flags, "--", *command(*arguments))
        self.assertEqual(done.code, expected, done.stderr[-3000:])
        return done

    def listed(self, name):
        done = self.tool("inspect", name, "--list", "--format", "json")
        self.assertEqual(done.code, 0, done.stderr)
        return json.loads(done.stdout)["ops"]

    def compared(self, expected, *arguments, flags=("--workers",)):
        for name in "AB":
            done = self.record(name, *arguments, flags=flags)
        report = self.tool("diff", "A", "B", "--format", "json")
        self.assertEqual(report.code, expected, report.stdout[:2000] + report.stderr)
        return done, json.loads(report.stdout)

    def assert_repeats(self, *arguments):
        """And is the program's own result."""
        bare = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=100)
        done, report = self.compared(0, *arguments)
        self.assertEqual((done.stdout, done.code), (bare.stdout, bare.returncode))
        self.assertEqual(report["verdict"]["status"], "reproducible")
        self.assertEqual([each for each in report["warnings"] if "worker" in each], [])
        return self.listed("A")

    def test_two_healthy_runs(self):
        operators = self.assert_repeats()
        made = of_workers(operators)
        self.assertEqual(made.count("aten::rand"), 48)
        self.assertEqual({each["phase"] for each in operators if each["lane"] != 0}, {"data"})
        # Behind the order of a batch and before the batch; what reads a value says who made it.
        names = [each["operator"] for each in operators]
        first = names.index("repro_check::order")
        self.assertEqual(names.index("repro_check::batch") - first - 1, len(made) // 12)
        added = operators[first + 4]
        self.assertEqual((name_of(added["operator"]), {each["producer"] for each in added["inputs"]}),
                         ("aten::add", {first + 1, first + 3}))
        self.assertEqual({each["lane"] for each in operators}, {0, 1 << 14, 2 << 14})
        shown = self.tool("inspect", "A", "--op", first + 4).stdout
        self.assertIn(", lane worker 0", shown)

    def test_epochs_that_end_early(self):
        # Of the batches that were made, three were taken.
        self.assertEqual(of_workers(self.assert_repeats("--early", "--persistent")).count("aten::rand"), 12)

    def test_workers_that_are_no_forks(self):
        made = self.assert_repeats("--method", "spawn", "--persistent")
        self.assertEqual(of_workers(made).count("aten::rand"), 48)
        done = self.record("A", "--method", "forkserver", "--early")
        self.assertEqual(of_workers(self.listed("A")).count("aten::rand"), 12)
        self.assertNotIn("warning", done.stderr)

    def test_a_team_of_the_parent(self):
        self.record("A", "team", "--early")
        self.assertEqual(of_workers(self.listed("A")).count("aten::rand"), 12)

    def test_a_draw_that_no_seed_pins(self):
        _, report = self.compared(1, "unseeded")
        first = report["first_divergence"]
        self.assertEqual((first["relation"], first["key"]["phase"], first["source"]["line"]), ("origin", "data", NOISE))
        self.assertEqual(name_of(first["key"]["operator"]), "aten::rand")
        origins = [name_of(op["key"]["operator"]) for op in report["divergences"]["items"] if op["relation"] == "origin"]
        self.assertEqual(set(origins), {"aten::rand"})  # and no batch

    def test_values_around_the_first_divergence(self):
        config = {"program": {"command": command("unseeded")}, "dump": {"workers": True}}
        (self.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        done = self.tool("run", "-c", "config.json", "--format", "json")
        self.assertEqual(done.code, 1, done.stdout[:2000] + done.stderr)
        first = json.loads(done.stdout)["first_divergence"]
        self.assertEqual((name_of(first["key"]["operator"]), first["source"]["line"]), ("aten::rand", NOISE))
        self.assertEqual(first["outputs"][0]["metrics"]["n_diff"], 8)

    def test_nothing_changes_without_it(self):
        done, report = self.compared(0, flags=())
        self.assertEqual(report["verdict"]["status"], "reproducible")
        self.assertEqual({each["lane"] for each in self.listed("A")}, {0})
        self.record("B")
        refused = self.tool("diff", "A", "B")
        self.assertEqual(refused.code, 4, refused.stdout)
        self.assertIn("record both with --workers, or both without", refused.stdout)

    def test_a_worker_that_is_killed(self):
        done = self.record("A", "killed", expected=1)
        # The latter where it dies while a batch of its own is being taken from it.
        self.assertRegex(done.stderr, "is killed by signal|EOFError|Connection(Refused|Reset)Error")
        self.assertEqual(self.tool("inspect", "A").code, 0)
        # What was taken before is there, and nothing that was not.
        operators = [name_of(each["operator"]) for each in self.listed("A")]
        self.assertEqual(operators.count("aten::rand") - 1, 4 * operators.count("repro_check::batch"))

    def test_a_program_that_is_killed(self):
        # Its workers, which outlive it, hold nothing of its recording.
        self.record("A", "shot", expected=-9)
        done = self.tool("inspect", "A", "--partial")
        self.assertEqual(done.code, 0, done.stderr)
        self.assertIn("aten::rand", self.tool("inspect", "A", "--partial", "--list").stdout)

    def test_what_is_not_seen_is_said(self):
        self.record("A", "thread")
        self.assertIn("in a worker: operators of threads that it starts were not recorded",
                      self.tool("inspect", "A").stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
