# SPDX-License-Identifier: Apache-2.0
"""Parameters and activations that are equal on some ranks and in parts on others: what says which is which is the
placement of a DTensor, the group of a wrapper, a mesh that is given to `ranks`, or what they begin with."""
import subprocess
import unittest

import torch
from ranks.test_ranks import FORWARD, ONE_THREAD, PROGRAMS, SHARDS, Ranks, launched

BY_HAND = PROGRAMS / "sequence_parallel.py"
BY_PLACEMENT = PROGRAMS / "tensor_parallel.py"
SPLIT = ["down.weight", "up.bias", "up.weight"]
OUTSIDE = "activations differ outside of tensor parallelism"
MESH = ["--mesh", "dp=2,tp=2"]


class Parallel(Ranks):
    def items(self, report):
        return {each["kind"]: each["items"] for each in report["kinds"] if each["items"]}


@unittest.skipUnless(torch.distributed.is_available(), "this PyTorch has no torch.distributed")
class ByHand(Parallel):
    """A block whose weights and whose sequence are split over two ranks."""

    def test_healthy(self):
        command = launched(program=BY_HAND)
        bare = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, timeout=120)
        self.assertEqual(bare.returncode, 0, bare.stderr)
        self.assertEqual(sorted(self.record(command).stdout.split("\n")), sorted(bare.stdout.split("\n")))
        report = self.ranks(0)
        self.assertEqual((report["findings"], report["replicated"]), ([], 2))
        # The bias begins as zeros on both, and each has its own part of it.
        self.assertEqual(report["set_aside"], SPLIT)

    def test_partial_gradients_of_a_replicated_weight(self):
        self.record(launched("partial", program=BY_HAND))
        self.assert_first(self.ranks(1), "replicated weights with partial gradients", 0, "gradients",
                          ["norm.bias", "norm.weight"], 2)

    def test_a_wrapper_of_some_ranks(self):
        self.record(launched(ranks=4, program=BY_HAND))
        report = self.ranks(0)
        self.assertEqual((report["findings"], report["set_aside"]), ([], []))
        self.assertEqual(self.items(report)[FORWARD], 3 * (2 + 2 * 3))
        self.record(launched("unsynchronised", ranks=4, program=BY_HAND), "--force")
        self.assert_first(self.ranks(1), "initial weights not synchronised", 0, FORWARD,
                          ["down.weight", "up.weight"], 3)

    def test_wrappers_of_several_groups(self):
        self.record(launched("experts", ranks=4, program=BY_HAND))
        report = self.ranks(0)
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["set_aside"], [f"Block.{name}" for name in SPLIT])
        # The dense layer's, and those of the norm.
        self.assertEqual((report["replicated"], self.items(report)["gradients"]), (4, 12))
        # Of both models it is known what they begin with.
        self.assertEqual(self.items(report)[FORWARD], 3 * 2 + 2)

    def test_a_mesh(self):
        self.record(launched("bare", ranks=4, program=BY_HAND))
        self.assertEqual(self.ranks(0)["set_aside"], SPLIT)
        given = self.ranks(0, "run", *MESH, "--replicated", "dp")
        self.assertEqual((given["set_aside"], self.items(given)[FORWARD]), ([], 24))
        # Weights that are split are no replicas of one another, which a person may say all the same.
        wrong = self.ranks(1, "run", *MESH, "--replicated", "dp,tp")
        self.assert_first(wrong, "initial weights not synchronised", 0, FORWARD, ["down.weight", "up.weight"], 3)
        for words, said in ((MESH, "says nothing of replicas"), ([*MESH, "--replicated", "pp"], "its axes are dp, tp"),
                            (["--mesh", "dp=3", "--replicated", "dp"], "is of 3 ranks, and the run had 4"),
                            (["--mesh", "dp=65536,tp=65536", "--replicated", "dp"], "more ranks than any run has"),
                            (["--mesh", "dp4", "--replicated", "dp"], "is no axis with its number of ranks"),
                            (["--replicated", "dp"], "is no axis of the mesh")):
            refused = self.tool("ranks", "run", *words)
            self.assertEqual(refused.code, 2, refused.stderr)
            self.assertIn(said, refused.stderr)


@unittest.skipUnless(SHARDS, "this PyTorch has no torch.distributed.tensor")
class ByPlacement(Parallel):
    def planted(self, fault, expected=1, ranks=2):
        self.record(launched(fault, ranks=ranks, program=BY_PLACEMENT), "--force")
        return self.ranks(expected)

    def test_healthy(self):
        """Both ranks of a pair read the same and have the same masks, as they must."""
        command = launched(program=BY_PLACEMENT)
        bare = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, timeout=120)
        self.assertEqual(bare.returncode, 0, bare.stderr)
        self.assertEqual(sorted(self.record(command).stdout.split("\n")), sorted(bare.stdout.split("\n")))
        for ranks in (2, 4):
            report = self.planted("", 0, ranks)
            self.assertEqual((report["findings"], report["set_aside"]), ([], []))
            self.assertGreater(self.items(report)["activations"], 0)

    def test_other_data_on_a_rank_of_a_pair(self):
        for ranks in (2, 4):
            report = self.planted("data", ranks=ranks)
            first = report["first"]
            self.assertEqual((report["cause"]["title"], first["step"], first["kind"], first["of"]),
                             (OUTSIDE, 1, "activations", 6))
            self.assertRegex(first["names"][0], r"^enters 0\.up \(tensor_parallel\.py:\d+\)$")
            self.assertIn("read different data", report["cause"]["text"])
            shown = self.tool("inspect", f"run/rank-{first['rank']}", "--op", str(first["op"]))
            self.assertIn("repro_check::placed", shown.stdout)
            self.assertIn("0.up", shown.stdout)
        # Slices of the ranks say the same.
        for name, part in (("a", "0:2"), ("b", "2:4")):
            (self.folder / name).write_text(self.tool("ranks", "run", "--ranks", part, "--format", "jsonl").stdout)
        merged = self.tool("report", "--merge", "a", "b")
        self.assertEqual((merged.code, merged.stdout), (1, self.tool("ranks", "run").stdout))

    def test_other_masks_on_a_rank_of_a_pair(self):
        report = self.planted("dropout")
        self.assertEqual((report["cause"]["title"], report["first"]["step"]), (OUTSIDE, 1))
        self.assertIn("drew different random numbers", report["cause"]["text"])

    def test_a_weight_of_one_rank(self):
        report = self.planted("written")
        self.assert_first(report, "weights written outside the optimizer", 1, FORWARD, ["1.norm.weight"], 6)
        self.assertIn((1, "activations"), self.others(report))

    def test_parts_that_are_copies(self):
        finding, = self.planted("copies", 0)["findings"]
        self.assertEqual(finding["weight"], "suspicion")
        self.assertIn("parts are copies: ranks 0, 1 each hold a different part of 0.down.weight, 0.up.bias", finding["text"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
