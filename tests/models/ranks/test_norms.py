# SPDX-License-Identifier: Apache-2.0
"""Numbers that a program has of all ranks together, the norm that gradients are clipped by, the scale of the loss and what
overflowed: `ranks` says where they are not the same, and why."""
import unittest

import torch
from ranks.test_ranks import SHARDED, SHARDS, Ranks, launched

SCALES = hasattr(getattr(torch, "amp", None), "GradScaler")
CLIPPING, SCALE = "clipping of gradients", "loss scale"


@unittest.skipUnless(torch.distributed.is_available(), "this PyTorch has no torch.distributed")
class Replicas(Ranks):
    def test_healthy(self):
        self.record(launched("clip"))
        report = self.ranks(0)
        self.assert_in_sync(report, **{CLIPPING: 12})
        self.assertEqual((report["norms"], report["open_norms"]), (4, None))

    def test_a_norm_over_other_parameters(self):
        report = self.planted("clip-part")
        self.assert_first(report, "gradients are clipped by different norms", 2, CLIPPING, ["norm"], 3)
        self.assertIn("the ranks do not clip the same parameters", report["cause"]["text"])
        one, other = report["first"]["numbers"]
        self.assertEqual((one["rank"], other["rank"]), (0, 1))
        self.assertGreater(one["value"], other["value"])

    def test_another_norm_to_clip_to(self):
        report = self.planted("clip-max")
        self.assert_first(report, "gradients are clipped to different norms", 2, CLIPPING, ["max_norm"], 3)

    def test_a_gradient_that_no_reduction_reaches(self):
        """Every gradient differs behind the clip; before it only the one that was left out does."""
        report = self.planted("clip-skipped")
        self.assert_first(report, "some gradients not reduced", 0, "gradients", ["b.bias"], 6)
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
        self.record(launched("clip", program=SHARDED))
        report = self.ranks(0)
        # Some releases leave it in parts.
        left = report["open_norms"] or {"count": 0, "why": "DTensor"}
        self.assertEqual((report["findings"], report["norms"] + left["count"]), ([], 3))
        self.assertIn("DTensor", left["why"])
        self.record(launched("clip-local", program=SHARDED), "--force")
        report = self.ranks(1)
        self.assert_first(report, "gradients are clipped by different norms", 0, CLIPPING, ["norm"], 3)
        self.assertIn("each rank computed the norm of what it holds itself", report["cause"]["text"])

    def test_a_shard_that_is_in_no_norm(self):
        """All ranks agree."""
        self.record(launched("clip-missing", program=SHARDED))
        report = self.ranks(1)
        self.assertEqual(report["first"], None)
        finding, = report["findings"]
        self.assertEqual((finding["weight"], report["norms"]), ("proof", 3))
        self.assertRegex(finding["text"], r"^a shard is missing in the norm that gradients are clipped by: at step 0 it is "
                         r"[\d.e-]+ on every rank, .* is [\d.e-]+; it is the norm of what rank 0 holds$")
        # Of parts that were read apart the same.
        for rank in (0, 1):
            part = self.tool("ranks", "run", "--ranks", f"{rank}:{rank + 1}", "--format", "jsonl").stdout
            (self.folder / f"{rank}.jsonl").write_text(part, encoding="utf-8")
        merged = self.tool("report", "--merge", "0.jsonl", "1.jsonl")
        self.assertEqual((merged.stdout, merged.code), (self.tool("ranks", "run").stdout, 1), merged.stderr)

    def test_the_norm_of_a_wrapper_that_shards(self):
        self.record(launched("wrapped", program=SHARDED))
        report = self.ranks(4)  # of parameters that are each rank's own nothing is known
        self.assertIn((CLIPPING, 12), [(each["kind"], each["items"]) for each in report["kinds"]])
        self.assertEqual(report["set_aside"], ["0.bias", "0.weight", "2.bias", "2.weight"])
        self.record(launched("wrapped-max", program=SHARDED), "--force")
        self.assert_first(self.ranks(1), "gradients are clipped to different norms", 0, CLIPPING, ["max_norm"], 4)

    def test_replicas_of_shards(self):
        """Two of each: the squares of a shard are counted once."""
        self.record(launched("clip-by-hand", ranks=4, program=SHARDED))
        report = self.ranks(0)
        self.assertEqual((report["findings"], report["norms"], report["open_norms"]), ([], 3, None))
        self.record(launched("clip-twice", ranks=4, program=SHARDED), "--force")
        self.assertRegex(self.ranks(1)["findings"][0]["text"], "^replicas are counted several times in the norm ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
