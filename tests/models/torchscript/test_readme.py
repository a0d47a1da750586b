# SPDX-License-Identifier: Apache-2.0
"""What README.md, docs/HOWTO.md, CONFIGURATION.md and INSPECT.md show is typed, line by line, and ends as they say."""
import harness

harness.need("torch", "numpy")

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOWTO = (ROOT / "docs" / "HOWTO.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs" / "CONFIGURATION.md").read_text(encoding="utf-8")
INSPECT = (ROOT / "docs" / "INSPECT.md").read_text(encoding="utf-8")


class Takes(nn.Module):
    def forward(self, tokens: Tensor, mask: Tensor, scale: float) -> Tensor:
        return torch.softmax(tokens * mask * scale, 1)


class Long(nn.Module):
    """With an op 41, of which a NaN and a draw come before."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.log(x).isnan().sum() + torch.rand([1]) * 0
        for _ in range(40):
            x = torch.mm(x, x) / 64
        return x


def blocks(document: str, language: str, holding: str = "") -> list:
    found = re.findall(rf"```{language}\n(.*?)```", document, re.DOTALL)
    return [block for block in found if holding in block]


class Shown(harness.ToolTest):
    def typed(self, line: str) -> subprocess.CompletedProcess:
        places = [os.environ["REPRO_CHECK"], sys.executable]
        environment = {k: v for k, v in os.environ.items() if k not in ("CI", "COLUMNS")}
        environment["PATH"] = ":".join([*(str(Path(place).parent) for place in places), os.environ["PATH"]])
        return subprocess.run(["bash", "-c", line], cwd=self.folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280)

    def check(self, line: str, code: int = 0) -> str:
        done = self.typed(line)
        self.assertEqual(done.returncode, code, f"{line}\n{done.stdout}")
        return done.stdout

    def record(self, *names: str):
        torch.jit.script(Long()).save(str(self.folder / "m.pt"))
        x = {"generate": "normal", "shape": [64, 64], "dtype": "float32", "seed": 3}
        self.write_config({"model": "m.pt", "inputs": [x]})
        for name in names:
            self.check(f"repro-check record -c config.json -o {name}")

    def test_your_own_model(self):
        (lines,) = blocks(HOWTO, "sh", "repro-check init model.pt")
        for line in lines.splitlines():
            code = re.search(r"# (\d)[:,] ", line)
            self.check(line, int(code[1]) if code else 0)
            if " init " in line:
                config = json.loads((self.folder / "config.json").read_text())
                config["inputs"][0]["shape"] = [2, 8]
                (self.folder / "config.json").write_text(json.dumps(config))
        self.assertEqual(len([*(self.folder / "baselines").glob("config-*.repro")]), 1)
        torch.jit.script(nn.Conv2d(3, 4, 3)).save(str(self.folder / "open.pt"))
        self.assertIn("--set /inputs/0/shape=...", self.check("repro-check run open.pt", 2))
        torch.jit.script(nn.Linear(8, 4)).save(str(self.folder / "model.pt"))
        self.assertIn("in the weights", self.check("repro-check gate -c config.json", 1))

    def test_a_program(self):
        (lines,) = blocks(README, "sh", "repro-check run -- python train.py")
        shutil.copy(ROOT / "examples" / "train.py", self.folder / "train.py")
        for line in lines.splitlines():
            if line.startswith("repro-check"):
                self.check(line.replace("-- python ", "-- python3 "))
        for _ in range(2):
            self.check("repro-check exec -- python3 train.py")
        self.assertIn("exec-2", self.check("repro-check diff"))

    def test_the_configuration(self):
        text = blocks(CONFIGURATION, "json", '"model"')[0]
        (self.folder / "config.json").write_text(text)
        torch.jit.script(Takes()).save(str(self.folder / "model.pt"))
        numpy.save(self.folder / "mask.npy", numpy.ones((2, 16), numpy.float32))
        self.check("repro-check validate -c config.json")
        self.check("repro-check run -c config.json --set /threads=4")

    def test_inspect(self):
        self.record("A", "B")
        for command in re.findall(r"`(inspect D[^`]*)`", INSPECT):
            self.check("repro-check " + re.sub(r"\bD\b", "A", command))
        for line in "".join(blocks(INSPECT, "sh")).splitlines():
            if "jq" in line and shutil.which("jq") is None:
                continue
            if "safetensors." in line and self.typed("python3 -c 'import safetensors'").returncode != 0:
                continue
            self.assertTrue(self.check(line) or "diff <(" in line or "--export" in line, line)
        self.assertTrue((self.folder / "pair.csv").read_text().startswith("i0,i1,baseline,candidate,"))

    def test_a_dump(self):
        self.record("DUMP", "OTHER")
        self.check("repro-check verify DUMP")
        self.assertIn("20 calls", self.check("repro-check replay DUMP --op 41"))
        for more in ("--threads 1,2", "--isa default,avx2", "--against OTHER"):
            self.assertIn(self.typed(f"repro-check replay DUMP --op 41 {more}").returncode, (0, 1), more)
        self.check("repro-check extract DUMP --op 41 -o repro.py")
        self.check("python3 repro.py")
        self.check("repro-check pack DUMP")
        for command in ("diff OTHER", "inspect", "verify"):
            self.check(f"repro-check {command} DUMP.tar.zst")
        self.check("mv DUMP kept; repro-check unpack DUMP.tar.zst")
        made = ["DUMP"]
        if shutil.which("zstd"):
            self.check("mkdir by-tar; tar --zstd -xf DUMP.tar.zst -C by-tar")
            made.append("by-tar/DUMP" if (self.folder / "by-tar" / "DUMP").exists() else "by-tar")
        for name in made:
            same, other, missing = filecmp.cmpfiles(
                self.folder / "kept", self.folder / name, ["manifest.json", "trace.h5"], shallow=False)
            self.assertEqual((len(same), other, missing), (2, [], []), name)


if __name__ == "__main__":
    harness.main()
