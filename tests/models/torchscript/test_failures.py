# SPDX-License-Identifier: Apache-2.0
"""Models that fail: each ends in its documented exit code, with a message a person can act on."""
import harness

harness.need("torch", "numpy")

import json
import struct
import zipfile
import zlib

import torch
from torch import Tensor, nn

FLOATS = [{"generate": "normal", "shape": [4, 4], "dtype": "float32", "seed": 3}]


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x))


class Good(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Raises(Good):
    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        if x.numel() > 0:
            raise RuntimeError("planted failure")
        return x


def picky(x: Tensor) -> Tensor:
    if x.numel() > 0:
        raise ValueError("planted in a fork")
    return x


class RaisesInFork(Good):
    def forward(self, x: Tensor) -> Tensor:
        return torch.jit.wait(torch.jit.fork(picky, self.inner(x)))


class WrongShapes(Good):
    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.inner(x), torch.ones(5, 5))


class Crashes(Good):
    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        # Nobody checks an index of this operator, as its name says.
        far = torch.full([1, 1], 1 << 40, dtype=torch.int64)
        return x + torch.ops.aten._sparse_coo_tensor_unsafe(far, x[0, :1], [4]).to_dense()


class TooLarge(Good):
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + torch.zeros([1 << 46])


class TakesNumber(nn.Module):
    def forward(self, x: Tensor, count: int) -> Tensor:
        return x * count


class Failures(harness.ToolTest):
    def script(self, model: nn.Module) -> str:
        torch.jit.save(torch.jit.script(model), str(self.folder / "m.pt"))
        return "m.pt"

    def refused(self, path: str, inputs, *words: str):
        """Exit 2: nothing on stdout, and every word in the message."""
        config = self.write_config({"model": {"path": path}, "inputs": inputs})
        result = self.tool("run", "-c", config)
        self.assertEqual(result.code, 2, result)
        self.assertEqual(result.stdout, "")
        for word in words:
            self.assertRegex(result.stderr, word)

    def failed(self, model: nn.Module, *words: str) -> dict:
        """Exit 5: a whole report, and every word in its first line."""
        report = self.run_config(5, model={"path": self.script(model)}, inputs=FLOATS)
        self.assertEqual(report["verdict"]["status"], "run_failed")
        for word in words:
            self.assertRegex(report["verdict"]["headline"], word)
        return report

    def test_missing_file(self):
        self.refused("nowhere.pt", FLOATS, r"nowhere\.pt")

    def test_not_a_model(self):
        (self.folder / "m.pt").write_text("not a model at all\n")
        self.refused("m.pt", FLOATS, r"m\.pt", "TorchScript")

    def test_empty_file(self):
        (self.folder / "m.pt").write_bytes(b"")
        self.refused("m.pt", FLOATS, r"m\.pt", "empty")

    def test_truncated_model(self):
        whole = self.folder / self.script(Good())
        whole.write_bytes(whole.read_bytes()[:2000])
        self.refused("m.pt", FLOATS, r"m\.pt")

    def test_damaged_model(self):
        """LibTorch reads what says where the lines are only when it is asked for it."""
        for ending in ("constants.pkl", "debug_pkl", "data.pkl"):
            with self.subTest(ending=ending):
                file = self.folder / self.script(Good())
                with zipfile.ZipFile(file) as archive:
                    entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
                name, whole = next(each for each in entries if each[0].endswith(ending))
                damaged = whole[:2] + b"\x02" + whole[3:]
                with zipfile.ZipFile(file, "w") as archive:
                    for other, content in entries:
                        archive.writestr(zipfile.ZipInfo(other), damaged if other == name else content)
                sums = [struct.pack("<I", zlib.crc32(content)) for content in (damaged, whole)]
                file.write_bytes(file.read_bytes().replace(*sums))
                self.refused("m.pt", FLOATS, f"m.pt: the file is damaged: {name} ", "copy it again")

    def test_eager_checkpoint(self):
        torch.save(Good().state_dict(), self.folder / "m.pt")
        self.refused("m.pt", FLOATS, r"m\.pt", "torch.save", r"torch\.jit\.(script|trace)")

    def test_whole_eager_module(self):
        torch.save(Good(), self.folder / "m.pt")
        self.refused("m.pt", FLOATS, r"m\.pt", "torch.save", r"torch\.jit\.(script|trace)")

    def test_too_many_inputs(self):
        self.refused(self.script(Good()), FLOATS + FLOATS, "forward", r"\b2\b", r"\b1\b")

    def test_too_few_inputs(self):
        self.refused(self.script(TakesNumber()), FLOATS, "count")

    def test_wrong_type_of_input(self):
        self.refused(self.script(TakesNumber()), FLOATS + FLOATS, "count", "int")

    def test_unknown_name_of_input(self):
        self.refused(self.script(Good()), [{"name": "y", **FLOATS[0]}], '"?y"?', '"?x"?')

    def test_exception_in_the_middle(self):
        report = self.failed(Raises(), "planted failure")
        self.assertEqual(report["runs"][0]["status"], "failed")
        self.failed(RaisesInFork(), "ValueError: planted in a fork")

    def test_operator_that_throws(self):
        self.failed(WrongShapes(), "aten::matmul", r"test_failures\.py:\d+")

    def test_crash_by_signal(self):
        report = self.failed(Crashes(), "SIGSEGV", r"op \d+ aten::")
        self.assertEqual(report["runs"][0]["signal"], "SIGSEGV")
        self.assertGreater(report["runs"][0]["last_op"], 0)

    def next_of(self, code: int, *words: str) -> list:
        result = self.tool(*words)
        self.assertEqual(result.code, code, result.stdout + result.stderr)
        return self.type_next(result.stdout)

    def test_what_to_type_next(self):
        run = ("run", "-c", "config.json")
        self.write_config({"model": {"path": self.script(Raises())}, "inputs": FLOATS})
        raised = self.next_of(5, *run)
        self.assertIn(("cat repro-check-out/baseline.log", 0), raised)
        self.script(Crashes())
        for _ in range(2):  # beside what the one before has left
            self.assertEqual(self.next_of(5, *run),
                             [("repro-check inspect repro-check-out/baseline.recording --partial", 0)])
        self.script(Good())
        self.assertEqual(self.next_of(0, *run), [])
        trace = self.folder / "repro-check-out" / "candidate" / "trace.h5"
        trace.write_bytes(trace.read_bytes()[:1000])
        self.assertEqual(self.next_of(3, "diff", "repro-check-out/baseline", "repro-check-out/candidate"),
                         [("repro-check inspect repro-check-out/candidate --verify", 3)])
        self.assertEqual(self.next_of(0, *run), [])

    def test_out_of_memory(self):
        self.failed(TooLarge(), "aten::zeros", "memory")

    def test_failed_dump_is_refused(self):
        self.failed(Crashes())
        dump = self.folder / "repro-check-out" / "baseline"
        result = self.tool("diff", dump, dump, "--format", "json")
        self.assertEqual(result.code, 3, result)
        verdict = json.loads(result.stdout)["verdict"]
        self.assertEqual(verdict["status"], "incomplete")
        self.assertRegex(verdict["headline"] + " ".join(verdict["reasons"]), "aten::")


if __name__ == "__main__":
    harness.main()
