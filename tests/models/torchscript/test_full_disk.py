# SPDX-License-Identifier: Apache-2.0
"""Real recordings on disks that are too small, just large enough, and that fill half-way."""
import harness

harness.need("torch")

import json
import re
import sys
from pathlib import Path
from typing import List

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import small_disk

MEGABYTE = 1_000_000


class Hoarder(nn.Module):
    """Returns 1 MiB more with each operator, all of it distinct."""

    def forward(self, x: Tensor) -> Tensor:
        kept: List[Tensor] = []
        for i in range(32):
            kept.append(x + i)
        return torch.stack(kept).sum()


class FullDisk(harness.ToolTest):
    def setUp(self):
        super().setUp()
        torch.jit.save(torch.jit.script(Hoarder()), str(self.folder / "m.pt"))
        floats = {"generate": "normal", "shape": [512, 512], "dtype": "float32", "seed": 3}
        self.write_config({"model": {"path": "m.pt"}, "inputs": [floats], "threads": 1,
                           "dump": {"memory": "8MiB"}})
        self.disk = self.folder / "disk"
        self.disk.mkdir()

    def record(self, place, *words):
        return self.tool("record", "-c", "config.json", "-o", place, *words)

    def record_whole(self):
        done = self.record("whole")
        self.assertEqual(done.code, 0, done)
        return sum(file.stat().st_size for file in (self.folder / "whole").iterdir())

    def test_what_is_measured_is_what_is_taken(self):
        taken = self.record_whole()
        self.assertGreater(taken, 60 * MEGABYTE)
        small_disk.mount(self, self.disk, taken // 2 // 1024)
        done = self.record("disk/dump")
        self.assertEqual(done.code, 5, done)
        said = re.search(r"needs about ([0-9.]+) MB \(measured by a recording of digests\), "
                         r"3\d(\.\d)? MB are free", " ".join(done.stdout.split()))
        self.assertTrue(said, done)
        self.assertLess(abs(float(said[1]) * MEGABYTE / taken - 1), 0.02, (said[1], taken))
        self.assertEqual(list(self.disk.iterdir()), [])

    def test_a_disk_with_little_more_than_is_measured_will_do(self):
        taken = self.record_whole()
        small_disk.mount(self, self.disk, taken * 21 // 20 // 1024)
        done = self.record("disk/dump")
        self.assertEqual(done.code, 0, done)
        self.assertIn("recording digests first", done.stderr)
        self.assertEqual([path.name for path in self.disk.iterdir()], ["dump"])
        self.assertEqual(self.tool("verify", "disk/dump").code, 0)
        self.assertEqual(self.tool("diff", "whole", "disk/dump").code, 0)

    def test_a_disk_that_fills_half_way_leaves_nothing_that_passes(self):
        taken = self.record_whole()
        small_disk.mount(self, self.disk, taken // 3 // 1024)
        # A slice that nothing is long enough for: it cannot be measured.
        done = self.record("disk/dump", "--set", '/dump/slice={"elements": 1000000000}')
        self.assertEqual(done.code, 5, done)
        self.assertIn("No space left", " ".join(done.stdout.split()))
        dump = self.disk / "dump"
        self.assertFalse((dump / "manifest.json").exists())
        self.assertEqual(self.tool("diff", "whole", dump).code, 3)
        partial = self.tool("inspect", dump, "--partial", "--list", "--format", "json")
        self.assertEqual(partial.code, 0, partial)
        self.assertTrue(5 < len(json.loads(partial.stdout)["ops"]) < 30, partial)
        done = self.tool("recover", dump, "-o", "recovered")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.tool("verify", "recovered").code, 0)
        compared = self.tool("diff", "whole", "recovered", "--partial")
        self.assertEqual(compared.code, 4, compared)


if __name__ == "__main__":
    if not small_disk.is_inside():
        sys.exit(small_disk.enter())
    harness.main()
