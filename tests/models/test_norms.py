# SPDX-License-Identifier: Apache-2.0
"""Numbers that a program has of all ranks together, the norm that gradients are clipped by, the scale of the loss and what
overflowed: `ranks` says where they are not the same, and why."""
import unittest

import torch
from test_ranks import SHARDED, SHARDS, Ranks, launched

SCALES = hasattr(getattr(torch, "amp", None), "GradScaler")
CLIPPING, SCALE = "clipping of gradients", "loss scale"


@unittest.skipUnless(torch.distributed.is_available(), "this PyTorch has no torch.distributed")
class Replicas(Ranks):
    def test_healthy(self):
        self.record(launched("clip"))
        self.assert_in_sync(self.ranks(0), **{CLIPPING: 12})

    def test_a_norm_over_other_parameters(self):
        report = self.planted("clip-part")
        self.assert_first(report, "gradients are clipped by other norms", 2, CLIPPING, ["norm"], 3)
        self.assertIn("the ranks do not clip the same parameters", report["cause"]["evidence"])
        one, other = report["first"]["numbers"]
        self.assertEqual((one["rank"], other["rank"]), (0, 1))
        self.assertGreater(one["value"], other["value"])

    def test_another_norm_to_clip_to(self):
        report = self.planted("clip-max")
        self.assert_first(report, "gradients are clipped to other norms", 2, CLIPPING, ["max_norm"], 3)

    def test_clipping_before_a_reduction(self):
        """The norms differ first, and because of it."""
        report = self.planted("clip-skipped")
        self.assert_first(report, "gradients not reduced", 0, "gradients",
                          ["a.bias", "a.weight", "b.bias", "b.weight", "bn.bias", "bn.weight"], 6)
        self.assertIn((0, CLIPPING), self.others(report))

    @unittest.skipUnless(SCALES, "this PyTorch has no loss scale on the CPU")
    def test_a_step_that_one_rank_skips(self):
        report = self.planted("found-inf")
        self.assert_first(report, "skipped steps differ", 2, SCALE, ["found_inf[0].cpu", "scale"], 2)
        self.assertEqual([each["value"] for each in report["first"]["numbers"]], [0, 1])
        self.assertEqual(report["first"]["odd_ranks"], [1])

    @unittest.skipUnless(SCALES, "this PyTorch has no loss scale on the CPU")
    def test_another_loss_scale(self):
        self.record(launched("scaled"))
        self.assert_in_sync(self.ranks(0), **{SCALE: 8})
        self.record(launched("scale"), "--force")
        self.assert_first(self.ranks(1), "loss scales differ", 1, SCALE, ["scale"], 2)


@unittest.skipUnless(SHARDS, "this PyTorch has no fully_shard")
class Shards(Ranks):
    def test_a_norm_of_one_shard(self):
        for fault in ("clip", "clip-by-hand"):
            with self.subTest(fault=fault):
                self.record(launched(fault, program=SHARDED), "--force")
                self.assertEqual(self.ranks(0)["findings"], [])
        self.record(launched("clip-local", program=SHARDED), "--force")
        report = self.ranks(1)
        self.assert_first(report, "gradients are clipped by other norms", 0, CLIPPING, ["norm"], 3)
        self.assertIn("each norm is that of what one rank holds", report["cause"]["evidence"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
