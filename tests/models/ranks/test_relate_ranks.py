# SPDX-License-Identifier: Apache-2.0
"""`relate SINGLE RANKS`: one training on one device and on several ranks, of every way to share it out. Healthy ones
agree; what was planted is named by step, kind, parameters and factor."""
import json
import shutil
import sys
import unittest

from harness import need
from ranks.test_ranks import ONE_THREAD, PROGRAMS, SHARDS, Ranks, launched

need("torch")

PROGRAM = PROGRAMS / "one_or_many.py"
NORMS = {f"blocks.{block}.norm2.{name}" for block in (0, 1) for name in ("weight", "bias")}
# Of bounds of 8: what healthy ones may reach here.
MOST = 4


@unittest.skipUnless(SHARDS, "this PyTorch has no fully_shard")
class OneOrMany(Ranks):
    def setUp(self):
        super().setUp()
        self.worst = 0.0

    def single(self, way="one", *flags):
        done = self.tool("exec", "--level", "tensor", *(flags or ("--depth", "all")), "-o", way, "--",
                         sys.executable, PROGRAM, way, env=ONE_THREAD)
        self.assertEqual(done.code, 0, done.stderr[-3000:])

    def related(self, way, fault="", ranks=2, single="one", expected=0, flags=("--level", "tensor")):
        self.record(launched(way, fault, ranks=ranks, program=PROGRAM), "--force", *flags)
        return self.judged(single, "run", expected)

    def judged(self, single, many, expected, *options):
        done = self.tool("relate", single, many, "--format", "json", *options)
        self.assertEqual(done.code, expected, done.stdout[:3000] + done.stderr)
        return json.loads(done.stdout) if done.stdout else None

    def assert_agrees(self, report, parameters=29):
        self.assertEqual((report["verdict"]["status"], report["steps"], report["findings"]), ("agree", 3, []))
        steps = report["steps"]
        self.assertEqual(report["judged"], {"loss": steps, "norm": steps, "gradient": steps * parameters,
                                            "state": 3 * steps * parameters, "parameter": steps * parameters})
        self.assertEqual((report["unjudged"], report["unrelated"], report["shadow"]["cuts"]), (0, [], []))
        self.assertTrue(report["are_samples_known"])
        self.assertLess(report["worst_within"], MOST)
        self.worst = max(self.worst, report["worst_within"])

    def assert_first(self, report, finding, step, **fields):
        first = report["findings"][0]
        self.assertEqual((first["id"], first["where"]["step"]), (finding, step), report["headline"])
        found = {name: first["fields"].get(name) for name in fields}
        for name, value in fields.items():
            if isinstance(value, float):
                self.assertAlmostEqual(found[name], value, 3)
            else:
                self.assertEqual(set(found[name]) if isinstance(value, set) else found[name], value)
        if "ratio" in first["fields"]:
            self.assertGreater(first["fields"]["ratio"], 1000)
        return first


class Healthy(OneOrMany):
    def test_ways_to_share_it_out(self):
        self.single()
        for way, ranks in (("ddp", 2), ("ddp", 4), ("fsdp", 2), ("fsdp", 4), ("hand", 2), ("dtensor", 2),
                           ("megatron", 2), ("megatron", 4), ("pipeline", 2)):
            with self.subTest(way=way, ranks=ranks):
                self.assert_agrees(self.related(way, ranks=ranks))
        self.single("experts")
        for ranks in (2, 4):
            with self.subTest(way="expert", ranks=ranks):
                self.assert_agrees(self.related("expert", ranks=ranks, single="experts"), parameters=57)
        print(f"worst healthy ratio {self.worst:.3g}, of a bound of 8", file=sys.stderr)

    def test_in_one_process(self):
        self.single()
        self.assert_agrees(self.judged("one", "one", 0, "--training"))
        # Without it the first forward pass alone is compared, which ends before the first step.
        report = self.judged("one", "one", 0)
        self.assertEqual(report["format"], "repro-check-relate")
        self.assertTrue(report["later_passes"]["a"])


class Planted(OneOrMany):
    def test_gradients(self):
        self.single()
        for ranks in (2, 4):
            first = self.assert_first(self.related("hand", "sum", ranks, expected=1), "gradient-scaled", 0,
                                      factor=float(ranks), count=29)
            self.assertIn("c10d::allreduce_ (one_or_many.py:", first["fields"]["through"])
        # Clipping does not hide it.
        self.assert_first(self.related("pipeline", "accumulated", expected=1), "gradient-scaled", 0, factor=2.0, count=29)
        self.assert_first(self.related("megatron", "partial", expected=1), "gradient-partial", 0, summed=1.0, names=NORMS)
        self.assert_first(self.related("hand", "stale", expected=1), "gradient-beyond-floor", 1, names={"head.weight"})
        self.assert_first(self.related("hand", "unequal", expected=1), "gradient-beyond-floor", 0, is_loss_by_samples=True)
        self.single("experts")
        self.assert_first(self.related("expert", "router", single="experts", expected=1), "gradient-partial", 0,
                          names={"blocks.1.feed.router.weight", "blocks.1.feed.router.bias"})

    def test_what_comes_before_gradients(self):
        self.single()
        self.assert_first(self.related("hand", "seed", expected=1), "training-starts-elsewhere", 0, ranks=[1])
        self.assert_first(self.related("hand", "samples", expected=1), "training-reads-other", 1, samples=8, missing=1)
        report = self.related("megatron", "constant", expected=1)
        self.assert_first(report, "loss-beyond-floor", 0)
        # What it says to type next finds the module.
        (command,) = report["next"]
        done = self.tool(*command.split()[1:])
        self.assertEqual(done.code, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout.splitlines()[0], r"^DIVERGED at blocks\.0 ~ blocks\.0: .*its inputs agree .*feed\.up")

    def test_what_comes_behind_them(self):
        self.single()
        self.assert_first(self.related("dtensor", "norm", expected=1), "norm-beyond-floor", 0, ranks=[0, 1])
        self.assert_first(self.related("hand", "state", expected=1), "optimizer-state-beyond-floor", 1,
                          names={"head.weight"}, state="exp_avg")
        first = self.assert_first(self.related("hand", "rate", expected=1), "parameter-beyond-floor", 0, count=29)
        self.assertEqual(first["fields"]["options"], ["lr[0] 0.01 in A, 0.02 in B"])

    def test_what_cannot_be_judged(self):
        self.single()
        self.related("hand", flags=("--level", "digest"), expected=4)
        self.related("ddp", ranks=4)
        shutil.rmtree(self.folder / "run" / "rank-2")
        done = self.tool("relate", "one", "run")
        self.assertEqual((done.code, "is one of 4 ranks, of which 3 are here" in done.stderr), (4, True), done.stderr)
        self.assertEqual(self.tool("relate", "run", "one").code, 2)
        self.single("experts")
        self.related("hand", single="experts", expected=4)
        shutil.rmtree(self.folder / "one")
        self.single("one", "--depth", "top")
        self.related("hand", expected=4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
