# SPDX-License-Identifier: Apache-2.0
"""Recordings whose reader leaves, and recordings that run out of memory: what is left is whole, or is
known not to be."""
import harness

harness.need("torch", "numpy")

import json
import os
import resource
import subprocess
from pathlib import Path
from typing import List

import torch
from torch import Tensor, nn

MEBIBYTE = 1 << 20


class Hoarder(nn.Module):
    """Takes 4 MiB more with each operator, so that a limit is met in the middle."""

    def forward(self, x: Tensor) -> Tensor:
        kept: List[Tensor] = []
        for i in range(64):
            kept.append(x + i)
        return torch.stack(kept).sum()


class Survival(harness.ToolTest):
    def setUp(self):
        super().setUp()
        torch.jit.save(torch.jit.script(Hoarder()), str(self.folder / "m.pt"))
        floats = {"generate": "normal", "shape": [1024, 1024], "dtype": "float32", "seed": 3}
        self.write_config({"model": {"path": "m.pt"}, "inputs": [floats], "threads": 1,
                           "dump": {"memory": "8MiB"}})

    def test_a_closed_status_pipe_does_not_harm_the_dump(self):
        recorder = Path(os.environ["REPRO_CHECK"]).with_name("repro-check-recorder")
        catcher = self.folder / "catcher"
        catcher.write_text(f'#!/bin/sh\n[ "$1" != record ] || cp "$2" request.json\n'
                           f'exec "{recorder}" "$@"\n')
        catcher.chmod(0o755)
        read, write = os.pipe()
        os.close(read)
        words = [os.environ["REPRO_CHECK"], "record", "-c", "config.json", "-o", "A"]
        done = subprocess.run(words, cwd=self.folder, stdout=write, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, REPRO_CHECK_RECORDER=str(catcher)))
        self.assertEqual(done.returncode, 0)  # a closed stdout is no failure of the recording
        request = json.loads((self.folder / "request.json").read_text())
        request["dump_directory"] = str(self.folder / "B")
        (self.folder / "request.json").write_text(json.dumps(request))
        done = subprocess.run([recorder, "record", "request.json", "--status-fd", str(write)],
                              cwd=self.folder, pass_fds=[write], stdout=subprocess.DEVNULL)
        os.close(write)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.tool("verify", "B").code, 0)
        self.assertEqual(self.tool("diff", "A", "B").code, 0)

    def test_out_of_memory_leaves_nothing_that_passes(self):
        whole = self.tool("record", "-c", "config.json", "-o", "whole")
        self.assertEqual(whole.code, 0, whole)
        reached = set()
        for limit in (300, 500, 600, 700, 800, 1000, 1200):
            with self.subTest(mebibytes=limit):
                size = limit * MEBIBYTE
                done = self.tool("record", "-c", "config.json", "-o", f"d{limit}", preexec_fn=lambda:
                                 resource.setrlimit(resource.RLIMIT_AS, (size, size)))
                self.assertIn(done.code, (0, 5), done)
                dump = self.folder / f"d{limit}"
                if done.code == 0:
                    self.assertEqual(self.tool("verify", dump).code, 0)
                    continue
                self.assertFalse((dump / "manifest.json").exists())
                # Where memory ran out before the journal was made, there is no recording to name.
                left = dump.is_dir() and any(dump.iterdir())
                self.assertEqual(self.tool("diff", "whole", dump).code, 3 if left else 2)
                if not (dump / "journal.bin").exists():
                    continue
                copy = self.tool("recover", dump, "-o", f"r{limit}", "--format", "json")
                self.assertEqual(copy.code, 0, copy)
                self.assertEqual(self.tool("verify", f"r{limit}").code, 0)
                self.assertEqual(self.tool("diff", "whole", f"r{limit}", "--partial").code, 4)
                listed = self.tool("inspect", f"r{limit}", "--partial", "--list", "--format", "json")
                reached.add(len(json.loads(listed.stdout)["ops"]))
        self.assertTrue(any(0 < count < 66 for count in reached), reached)


if __name__ == "__main__":
    harness.main()
