# SPDX-License-Identifier: Apache-2.0
"""`ranks` on recordings of blocks: each fault that is planted into a program of several ranks is found as with
operators, or it is said why that one needs operators; what is healthy is in sync, or not comparable."""
import unittest

from ranks import test_ranks
from ranks.test_ranks import BUFFERS, FORWARD, OPTIONS, PROGRAM, SHARDED, SHARDS, TOGETHER, launched

from harness import need

need("torch")

# With operators the step at which the replicas part, and the cause, are the same.
AS_WITH_OPERATORS = {
    "no-broadcast": ("initial-weights-differ", 0, FORWARD),
    "buffers": ("running-statistics-drift", 1, BUFFERS),
    "rate": ("learning-rates-differ", 2, "learning rates"),
    "decay": ("optimizer-options-differ", 2, OPTIONS),
    "clip-part": ("clipped-other-parameters", 2, "clipping of gradients"),
    "clip-max": ("clipped-to-other-norms", 2, "clipping of gradients"),
    "found-inf": ("overflow-not-reduced", 2, "loss scale"),
    "scale": ("loss-scales-differ", 1, "loss scale"),
    "past-wrapper": ("called-past-wrapper", 0, "parameters"),
}
# Gradients or the state of the optimizer would tell, and the report says so. The step is the one behind which a
# parameter that differs is read, or the next one: that of the fault, and where it comes later that of operators.
NEED_OPERATORS = {
    "no-sync": (0, 0), "skipped": (0, 0), "skipped-late": (3, 2), "lost-state": (3, 2), "nudged": (3, 2),
    "halved": (3, 2), "clip-skipped": (0, 0),
}
PROOFS = {
    "no-step": "steps-skipped",
    "frozen": "weights-never-moved",
    "same-data": "ranks-read-same-data",
    "maximum": "collective-mismatch",
}
# Random draws are not recorded: with operators each of these is a suspicion, which ends with 0 as well.
DRAWS = ("same-masks", "restored", "eval")


class OfBlocks(test_ranks.Ranks):
    def judged(self, expected, case="", program=PROGRAM, ranks=2):
        self.record(launched(*([case] if case else []), ranks=ranks, program=program), "--force", "--depth", "blocks")
        report = self.ranks(expected)
        text = self.tool("ranks", "run").stdout
        self.assertIn("not judged gradients, optimizer state, random draws and operators", text)
        return report, text


class Replicas(OfBlocks):
    def test_healthy(self):
        for case in ("", "unused", "static", "subgroups", "clip", "scaled"):
            with self.subTest(case):
                report, text = self.judged(0, case)
                self.assertTrue(text.startswith("IN SYNC at the borders of blocks: 2 ranks, 4 steps"), text)
                self.assertEqual(report["findings"], [])
                items = {each["kind"]: each["items"] for each in report["kinds"] if each["items"]}
                self.assertGreaterEqual(items.get("parameters", 0), 12)
                self.assertEqual((items.get(FORWARD), items.get(BUFFERS)), (9, 8))
                self.assertGreater(report["collectives"], 10)

    def test_faults(self):
        for case, (cause, step, kind) in AS_WITH_OPERATORS.items():
            with self.subTest(case):
                report, text = self.judged(1, case)
                found = report["cause"]["id"], report["first"]["step"], report["first"]["kind"]
                self.assertEqual(found, (cause, step, kind), text)

    def test_faults_that_gradients_would_tell(self):
        for case, (step, of_operators) in NEED_OPERATORS.items():
            with self.subTest(case):
                report, text = self.judged(1, case)
                faults = [(report["cause"]["id"], report["first"]["step"]),
                          *((each["cause"]["id"], each["step"]) for each in report["independent"])]
                self.assertIn(("weights-part", step), faults, text)
                self.assertGreaterEqual(step, of_operators)
                self.assertIn(f"repro-check exec --depth top --steps 0:{step + 1}", text)

    def test_a_rank_that_clips_alone(self):
        report, text = self.judged(1, "clip-alone")
        self.assertEqual((report["cause"]["id"], report["first"]["step"]), ("clipped-on-some-ranks", 3), text)

    def test_proofs(self):
        for case, proof in PROOFS.items():
            with self.subTest(case):
                report, text = self.judged(1, case)
                self.assertIn(proof, [each["id"] for each in report["findings"]], text)

    def test_draws_and_values(self):
        for case in DRAWS:
            with self.subTest(case):
                self.assertEqual(self.judged(0, case)[0]["findings"], [])
        report, text = self.judged(0, "nan")
        self.assertEqual([each["id"] for each in report["findings"]], ["nan-on-rank"], text)


class Together(OfBlocks):
    def judged(self, expected, case="", program=TOGETHER, ranks=2):
        return super().judged(expected, case, program, ranks)

    def test_healthy(self):
        for case, ranks in (("zero", 2), ("objects", 2), ("ensembles", 4)):
            with self.subTest(case):
                self.assertEqual(self.judged(0, case, ranks=ranks)[0]["findings"], [])

    def test_steps_that_are_meant_to_differ(self):
        for case in ("join", "local_sgd"):
            with self.subTest(case):
                self.assertEqual([each["weight"] for each in self.judged(0, case)[0]["findings"]], ["note"])

    def test_what_cannot_be_judged(self):
        # Averaging by hand looks like a reduction that is missing; whose parameters are experts, operators say.
        for case in ("averaged", "experts", "experts_that_are_cut_off"):
            with self.subTest(case):
                self.judged(4, case)

    def test_faults(self):
        for case, (cause, step) in {"partial": ("weights-part", 0), "own_norm": ("weights-part", 0)}.items():
            with self.subTest(case):
                report, text = self.judged(1, case)
                self.assertEqual((report["cause"]["id"], report["first"]["step"]), (cause, step), text)

    def test_proofs(self):
        for case, proof in {"head_alone": "parameters-in-no-optimizer", "overwritten": "content-mismatch",
                            "experts_in_no_optimizer": "parameters-in-no-optimizer",
                            "split_by_rank": "trained-and-validated"}.items():
            with self.subTest(case):
                report, text = self.judged(1, case)
                self.assertIn(proof, [each["id"] for each in report["findings"]], text)

    @unittest.skipUnless(SHARDS, "this PyTorch has no fully_shard")
    def test_shards(self):
        self.assertEqual(self.judged(0, program=SHARDED)[0]["findings"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
