# SPDX-License-Identifier: Apache-2.0
"""Programs run as they are: nothing is seeded unless asked, and what follows from that is said."""
import json
import os
import subprocess
import sys
import textwrap

from harness import ToolTest, main, need

need("torch")

import torch

UNSEEDED = """
    import torch
    embed = torch.nn.Embedding(20, 4)
    print(embed(torch.arange(3)).sum().item().hex())
"""
DRAWS = 2  # the line
SEEDED = UNSEEDED.replace("import torch\n", "import torch\n    torch.manual_seed(3)\n")
CLEAN = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONHASHSEED", "PYTHONPATH")}
TOLD = "DIVERGED at step 0: random numbers were not seeded "
FIX = "torch.manual_seed(0) before this line (random.seed, numpy.random.seed likewise), or, to find what differs after it: --seed 0"
DIGESTS = ["--set", "/dump/level=digest"]  # in one pair of runs
WITH_SEED = "REPRODUCIBLE with seed 0 set by repro-check"


class Seeds(ToolTest):
    def write(self, text, name="program.py"):
        file = self.folder / name
        file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return [sys.executable, str(file)]

    def config(self, text, **fields):
        file = self.folder / "config.json"
        fields = {"dump": {"level": "digest"}, **fields}  # in one pair of runs
        file.write_text(json.dumps({"program": {"command": self.write(text)}, **fields}), encoding="utf-8")
        return ["-c", file]

    def says(self, code, *words):
        done = self.tool(*words, env=CLEAN)
        self.assertEqual(done.code, code, done.stdout + done.stderr)
        return " ".join(done.stdout.split()), " ".join(done.stderr.split())

    def manifest(self, dump):
        return json.loads((self.folder / dump / "manifest.json").read_text(encoding="utf-8"))

    def assert_told(self, shown):
        self.assertTrue(shown.startswith(TOLD), shown)
        self.assertIn(f"code program.py:{DRAWS}: embed = torch.nn.Embedding(20, 4)", shown)
        self.assertIn(f"fix {FIX}", shown)

    def test_run(self):
        shown, said = self.says(1, "run", "--", *self.write(UNSEEDED))
        self.assert_told(shown)
        self.assertNotIn("seeded with 0", said)
        self.assertIn("next: repro-check run --set /seed=0 -- ", shown)
        self.assertTrue(self.says(0, "run", "--", *self.write(SEEDED))[0].startswith("REPRODUCIBLE "))
        self.assertTrue(self.says(0, "run", "--seed", "0", "--", *self.write(UNSEEDED))[0].startswith(WITH_SEED))
        self.assert_told(self.says(1, "run", *self.config(UNSEEDED))[0])
        agreed = self.says(0, "run", *self.config(UNSEEDED, seed=0))[0]
        self.assertTrue(agreed.startswith(WITH_SEED), agreed)
        self.assertIn("because both runs had the same seed", agreed)

    def test_exec(self):
        """The numbers are those of the bare program."""
        bare = subprocess.run(self.write(SEEDED), env=CLEAN, capture_output=True, text=True, check=True).stdout
        for dump, flags in (("A", []), ("B", ["--no-seed"])):
            done = self.tool("exec", "-o", dump, *flags, "--", *self.write(SEEDED), env=CLEAN)
            self.assertEqual((done.code, done.stdout), (0, bare))
        self.says(0, "diff", "A", "B")
        for dump, flags in (("C", []), ("D", []), ("E", ["--seed", "0"]), ("F", ["--seed", "0"])):
            self.says(0, "exec", "-o", dump, *flags, "--", *self.write(UNSEEDED))
        self.assert_told(self.says(1, "diff", "C", "D")[0])
        self.assertTrue(self.says(0, "diff", "E", "F")[0].startswith(WITH_SEED))
        # Of a run with a seed and one without, that is the cause.
        one_sided = self.says(1, "diff", "C", "E")[0]
        self.assertNotIn("random numbers were not seeded", one_sided)
        self.assertIn('set one "seed" for both runs', one_sided)
        self.assertIn("seed null", self.says(0, "inspect", "C")[0])

    def test_record(self):
        for dump, flags in (("A", []), ("B", []), ("C", ["--seed", "0"]), ("D", ["--seed", "0"])):
            self.says(0, "record", *self.config(UNSEEDED), "-o", dump, *flags)
        self.assert_told(self.says(1, "diff", "A", "B")[0])
        self.assertTrue(self.says(0, "diff", "C", "D")[0].startswith(WITH_SEED))

    def test_generators_of_the_host(self):
        """They are nobody's either: the first operator that a number of theirs reaches is shown."""
        numbers = ["random.random()"]
        if has("numpy"):
            numbers.append("numpy.random.rand()")
        for number in numbers:
            with self.subTest(number):
                program = self.write(f"""
                    import random
                    {"import numpy" if "numpy" in number else ""}
                    import torch
                    print(torch.full((3,), {number}).exp().sum().item())
                """)
                shown = self.says(1, "run", *DIGESTS, "--", *program)[0]
                self.assertTrue(shown.startswith(TOLD), shown)
                function = "numpy.random.seed" if "numpy" in number else "random.seed"
                self.assertIn(f"fix {function}(0) at the start, or, to find what differs after it: --seed 0", shown)
                self.assertTrue(self.says(0, "run", "--seed", "0", "--", *program)[0].startswith(WITH_SEED))

    def test_what_a_program_seeds_otherwise_is_told_as_before(self):
        program = self.write(UNSEEDED.replace(
            "import torch\n", "import os, torch\n    torch.manual_seed(int(os.urandom(4).hex(), 16))\n"))
        shown = self.says(1, "run", *DIGESTS, "--", *program)[0]
        self.assertNotIn("random numbers were not seeded", shown)
        self.assertIn("the generators started apart (seed ", shown)
        self.assertIn("the program called torch.manual_seed", shown)

    def test_settings_are_compared_under_the_seed_0(self):
        kept = "programs are seeded with 0"
        threads = [{"name": "two", "threads": 2}, {"name": "one", "threads": 1}]
        said = self.says(0, "run", *self.config(UNSEEDED, runs=threads))
        self.assertTrue(said[0].startswith(WITH_SEED), said)
        self.assertIn(kept, said[1])
        said = self.says(0, "bisect", *self.config(UNSEEDED, runs=threads))
        self.assertTrue(said[0].startswith("REPRODUCIBLE: "), said)
        self.assertIn(kept, said[1])
        said = self.says(0, "calibrate", "-n", "3", "--format", "json", "-o", "noise.jsonl",
                         *self.config(UNSEEDED, dump={"level": "tensor"}))
        self.assertEqual(json.loads(said[0])["noisy"], 0)
        self.assertIn(kept, said[1])
        for seed in (None, 4):
            shown, told = self.says(seed is None, "run", *self.config(UNSEEDED, seed=seed, runs=threads), "--out", "O")
            self.assertNotIn(kept, told)
            self.assertEqual(shown.startswith(TOLD), seed is None)

    def test_gate(self):
        place = ["--baselines", "accepted", "--name", "g"]
        self.assert_told(self.says(1, "gate", *self.config(UNSEEDED), *place)[0])
        config = self.config(UNSEEDED, seed=0)
        self.says(4, "gate", *config, *place)
        self.says(0, "gate", "accept", *config, *place)
        self.assertTrue(self.says(0, "gate", *config, *place)[0].startswith(WITH_SEED))
        dump = self.folder / "repro-check-out" / "baseline" / "manifest.json"
        before = dump.read_bytes()
        shown, said = self.says(4, "gate", *self.config(UNSEEDED), *place)
        self.assertEqual(shown, "")
        self.assertRegex(said, r"accepted/g-\w+\.repro was accepted under seed 0, and no seed is configured")
        self.assertIn('"seed": 0 in the configuration', said)
        self.assertEqual(dump.read_bytes(), before)  # nothing was recorded
        self.says(0, "gate", *self.config(UNSEEDED), *place, "--seed", "0")
        # As it is, and said so: what it gives by itself can be accepted in its place.
        by_itself = self.config(SEEDED, seed=None)
        self.assertTrue(self.says(4, "gate", *by_itself, *place)[0].startswith("STALE BASELINE: "))
        self.says(0, "gate", "accept", *by_itself, *place)
        self.assertTrue(self.says(0, "gate", *self.config(SEEDED), *place)[0].startswith("REPRODUCIBLE: "))

    def test_a_model_keeps_its_seed(self):
        class Noise(torch.nn.Module):
            def forward(self, x):
                return x + torch.rand(3)

        torch.jit.script(Noise()).save(str(self.folder / "model.pt"))
        file = self.folder / "model.json"
        file.write_text(json.dumps({"model": "model.pt", "inputs": [{"generate": "normal", "shape": [3]}]}))
        self.assertTrue(self.says(0, "run", "-c", file)[0].startswith("REPRODUCIBLE: "))
        self.assertEqual(self.manifest("repro-check-out/baseline")["seed"], 0)


def has(package):
    try:
        __import__(package)
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    main()
