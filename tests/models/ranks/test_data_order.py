# SPDX-License-Identifier: Apache-2.0
"""What is said of the order of samples: of one run by `ranks`, of two by `diff`. "The batches differ" is
told apart from "the computation differs"."""
import json
import os
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need, on_ranks

need("torch")
import torch.distributed  # noqa: E402

PROGRAM = Path(__file__).resolve().parent / "samples.py"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


class DataOrder(ToolTest):
    def record(self, name, *arguments, ranks=1, program=PROGRAM):
        command = on_ranks(ranks, program, *arguments) if ranks > 1 else [sys.executable, str(program), *arguments]
        done = self.tool("exec", "--force", "-o", name, "--", *command, env=ONE_THREAD)
        self.assertEqual(done.code, 0, done.stderr[-3000:])


@unittest.skipUnless(torch.distributed.is_available(), "this PyTorch has no torch.distributed")
class Ranks(DataOrder):
    def found(self, *arguments, expected):
        self.record("run", *arguments, ranks=2)
        done = self.tool("ranks", "run", "--format", "json")
        self.assertEqual(done.code, expected, done.stdout[:2000] + done.stderr)
        return [(each["weight"], each["text"]) for each in json.loads(done.stdout)["findings"]]

    def test_a_sampler_that_is_not_told_the_epoch(self):
        (weight, what), = self.found("distributed", expected=1)
        self.assertEqual(weight, "proof")
        self.assertRegex(what, r"^same order in every epoch: the loader of samples.py:\d+ \(DistributedSampler\) takes "
                         r"the same samples in the same shuffled order in each of 2 epochs$")

    def test_contents_that_are_alive_where_the_order_is_not(self):
        (_, what), = self.found("distributed", "--augment", expected=1)
        self.assertTrue(what.endswith("; their contents differ, so augmentation does change"), what)

    def test_what_is_right_is_not_named(self):
        for situation in (["set-epoch"], ["in-order"], ["split", "--workers", "2"]):
            with self.subTest(situation=situation):
                self.assertEqual(self.found(*situation, expected=0), [])

    def test_padding_is_a_note(self):
        (weight, what), = self.found("padded", expected=0)
        self.assertEqual(weight, "note")
        self.assertRegex(what, r"^padded: 1 of 33 samples are repeated in an epoch of the loader of samples.py:\d+, ")

    def test_ranks_that_each_read_all_of_it(self):
        (weight, what), = self.found("shuffle", expected=1)
        self.assertEqual(weight, "proof")
        self.assertRegex(what, r"^ranks read the same data in different orders: ranks 0, 1 read all 32 samples of an epoch of ")

    def test_workers_that_each_read_all_of_it(self):
        found = self.found("stream", "--workers", "2", expected=1)
        self.assertEqual([what.split(":")[0] for _, what in found],
                         ["ranks read the same data", "every sample comes 2 times"])
        self.assertTrue(found[1][1].endswith("32 samples in an epoch of 64"), found)


class TwoRuns(DataOrder):
    def compared(self, one, other):
        self.record("A", *one)
        self.record("B", *other)
        done = self.tool("diff", "A", "B", "--format", "json")
        self.assertIn(done.code, (0, 1), done.stderr)
        self.report = json.loads(done.stdout)
        loader, = self.report["data"]
        return loader

    def assert_equal(self, loader):
        self.assertEqual((loader["verdict"], loader["batches"]), ("equal", 16), loader)

    def test_workers_do_not_change_the_order(self):
        self.assert_equal(self.compared(["shuffle", "--seed", "1"], ["shuffle", "--seed", "1", "--workers", "2"]))

    def test_augmentation_that_depends_on_the_workers(self):
        loader = self.compared(["shuffle", "--seed", "1", "--augment"],
                               ["shuffle", "--seed", "1", "--augment", "--workers", "2"])
        self.assertEqual((loader["verdict"], loader["step"]), ("contents", 0))
        self.assertIn("augmentation depends on the number of workers (0 against 2)", loader["what"])

    def test_another_seed_is_another_order(self):
        loader = self.compared(["shuffle", "--seed", "1"], ["shuffle", "--seed", "2"])
        self.assertEqual((loader["verdict"], loader["step"], loader["epoch"], loader["batch"]), ("reordered", 0, 0, 0))

    def test_a_generator_of_its_own(self):
        self.assert_equal(self.compared(["generator", "--seed", "1"], ["generator", "--seed", "2"]))
        # Other weights: it is the computation that differs, and the report says so.
        self.assertEqual(self.report["verdict"]["status"], "diverged")
        text = self.tool("diff", "A", "B").stdout
        self.assertRegex(" ".join(text.split()), r"data .*the same samples in the same order in 16 batches: it is the "
                                                 r"computation that differs")

    def test_batches_that_differ_from_a_step_on(self):
        other = self.folder / "other.py"
        text = PROGRAM.read_text(encoding="utf-8").replace("manual_seed(7 + epoch)", "manual_seed(7 + 2 * epoch)")
        other.write_text(text, encoding="utf-8")
        self.record("A", "generator", "--seed", "1")
        self.record("B", "generator", "--seed", "1", program=other)
        text = " ".join(self.tool("diff", "A", "B").stdout.split())
        self.assertRegex(text, r"data .*the same samples in another order from step 8 on \(epoch 1, batch 0\)")

    def test_another_subset(self):
        loader = self.compared(["subset-0", "--seed", "1"], ["subset-16", "--seed", "1"])
        self.assertEqual((loader["verdict"], loader["step"]), ("other", 0), loader)
        self.assertTrue(loader["what"].startswith("other samples from step 0 on"), loader)

    def test_an_epoch_that_repeats(self):
        loader = self.compared(["told", "--seed", "1"], ["untold", "--seed", "1"])
        self.assertEqual((loader["verdict"], loader["step"], loader["epoch"]), ("contents", 8, 1), loader)
        self.assertEqual(loader["what"], "epoch 1 of the candidate is epoch 0 once more, from step 8 on")
        self.assertTrue(loader["mend"].startswith("set_epoch() was not called"), loader)

    def test_an_epoch_that_does_not_reach_the_workers(self):
        loader = self.compared(["told", "--seed", "1"], ["told", "--seed", "1", "--workers", "1"])
        self.assertEqual(loader["what"], "epoch 1 of the candidate is epoch 0 once more, from step 8 on")
        self.assertIn("did not reach the workers", loader["mend"])

    def test_a_run_whose_order_is_frozen(self):
        self.assert_equal(self.compared(["frozen", "--seed", "1"], ["frozen", "--seed", "1"]))
        self.assertEqual([each["id"] for each in self.report["findings"]], ["same-order-in-every-epoch"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
