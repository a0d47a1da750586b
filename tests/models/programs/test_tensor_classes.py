# SPDX-License-Identifier: Apache-2.0
"""Tensors of classes with `__torch_dispatch__`: what the class does for an operator is recorded inside of it, though
LibTorch hides it, and the program computes what it computes alone."""
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import unittest
from collections import Counter
from pathlib import Path

from harness import ToolTest, need, on_ranks

need("torch")

import torch  # noqa: E402

PROGRAMS = Path(__file__).resolve().parent
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


class Recorded(ToolTest):
    def record(self, dump, command, *flags):
        bare = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, timeout=120)
        self.assertEqual(bare.returncode, 0, bare.stderr)
        done = self.tool("exec", "-o", dump, *flags, "--", *command, env=ONE_THREAD)
        self.assertEqual(done.code, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.split("\n")), sorted(bare.stdout.split("\n")))

    def operators(self, dump):
        listed = self.tool("inspect", dump, "--list", "--format", "json")
        self.assertEqual(listed.code, 0, listed.stderr)
        return json.loads(listed.stdout)["ops"]

    def inside(self, records, outer):
        """Of each call of the operator at the top the names of what is recorded inside of it."""
        return [[each["operator"] for each in records if each["parent"] == call["index"]]
                for call in records if call["operator"] == outer and call["parent"] == -1]

    def warnings(self, dump):
        return json.loads((self.folder / dump / "manifest.json").read_text(encoding="utf-8"))["warnings"]


class OneProcess(Recorded):
    def program(self, *arguments):
        return [sys.executable, str(PROGRAMS / "tensor_class.py"), *arguments]

    def test_what_the_class_does_is_inside_of_the_operator(self):
        for dump in ("A", "B"):
            self.record(dump, self.program())
        records = self.operators("A")
        self.assertEqual(self.inside(records, "aten::relu"), [["aten::relu"]])
        self.assertEqual(self.inside(records, "aten::linear"), [["aten::t", "aten::mm"]])
        # Behind the class nothing is inside of anything.
        self.assertEqual(self.inside(records, "aten::ones"), [[]])
        self.assertEqual({each["depth"] for each in records}, {0, 1})
        # Of what an inner one makes the bytes are known, and who reads them knows who made them.
        product = next(each for each in records if each["operator"] == "aten::mm" and each["depth"] == 1)
        self.assertEqual([each["state"] for each in product["outputs"]], ["hashed"])
        self.assertEqual({t["device"] for each in records if each["depth"] for t in each["outputs"]}, {"cpu"})
        compared = self.tool("diff", "A", "B", "--format", "json")
        self.assertEqual(compared.code, 0, compared.stdout)
        self.assertEqual(self.warnings("A"), [])

    def test_depths(self):
        for depth in ("leaf", "all"):
            with self.subTest(depth=depth):
                self.record(depth, self.program(), "--depth", depth)
                self.assertIn("aten::mm", [each["operator"] for each in self.operators(depth) if each["depth"] > 0])

    def test_an_exception_of_the_class_is_the_programs(self):
        self.record("A", self.program("raises"))
        self.assertEqual(self.operators("A")[-1]["depth"], 0)

    def test_dropout_is_off_inside_as_well(self):
        self.record_without_dropout()
        drawn = [each for each in self.operators("A") if each["generator"] and "randn" not in each["operator"]]
        self.assertEqual(drawn, [])

    def record_without_dropout(self):
        done = self.tool("exec", "-o", "A", "--disable-dropout", "--", *self.program(), env=ONE_THREAD)
        self.assertEqual(done.code, 0, done.stderr)

    def test_below_a_mode_it_is_said_that_nobody_saw_it(self):
        self.record("A", self.program("mode"))
        self.assertRegex("\n".join(self.warnings("A")),
                         r"op \d+ aten::\w+ is the first operator on a tensor subclass whose inner")
        self.assertEqual(self.inside(self.operators("A"), "aten::relu"), [[]])


    def test_tensors_that_are_shapes_are_no_such_class(self):
        self.record("A", self.program("fake"))
        self.assertEqual(self.warnings("A"), [])


    def test_content_of_a_class_that_nobody_read_is_no_pass(self):
        program = self.folder / "program.py"
        program.write_text(textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(PROGRAMS)!r})
            sys.argv = ["program", "fake"]
            import torch
            from tensor_class import Around
            library = torch.library.Library("ours", "DEF")
            library.define("around(Tensor x) -> Tensor")
            library.impl("around", lambda x: Around(x * 2), "CPU")
            torch.ops.ours.around(torch.ones(2))
        """), encoding="utf-8")
        command = [sys.executable, str(program)]
        for dump in ("A", "B"):
            self.record(dump, command)
            self.record(dump + "-without", command, "--exclude", "ours::around")
        compared = self.tool("diff", "A", "B", "--format", "json")
        self.assertEqual(compared.code, 4, compared.stdout)
        report = json.loads(compared.stdout)
        self.assertEqual((report["coverage"]["not_judged"], report["verdict"]["status"]), (1, "not_comparable"))
        self.assertTrue(any("ours::around" in reason and "Around" in reason for reason in report["verdict"]["reasons"]),
                        report["verdict"]["reasons"])
        self.assertEqual(self.tool("diff", "A-without", "B-without").code, 0)

    def test_operators_without_content_are_counted_by_name(self):
        program = self.folder / "program.py"
        program.write_text("import torch\ntorch.ones(2) + torch.empty(3).detach().fill_(1)[:2]\n", encoding="utf-8")
        for dump in ("A", "B"):
            self.record(dump, [sys.executable, str(program)])
        compared = self.tool("diff", "A", "B", "--format", "json")
        self.assertEqual(compared.code, 0, compared.stdout)
        report = json.loads(compared.stdout)
        self.assertEqual({each["name"]: each["calls"] for each in report["without_content"]},
                         {"aten::empty": 1, "aten::detach": 1})
        self.assertEqual(report["coverage"]["without_content"], 2)
        self.assertEqual(report["coverage"]["skipped"], 2)


@unittest.skipUnless(torch.distributed.is_available() and importlib.util.find_spec("torch.distributed.tensor"),
                     "this PyTorch has no DTensor")
class Placed(Recorded):
    def test_local_operators_of_a_dtensor(self):
        for dump in ("A", "B"):
            self.record(dump, on_ranks(2, PROGRAMS / "placed.py"))
        for rank in range(2):
            records = self.operators(f"A/rank-{rank}")
            self.assertEqual(self.inside(records, "aten::mm"), [["aten::mm"]] * 3)
            self.assertEqual(self.inside(records, "aten::add.Tensor"), [["aten::add.Tensor"]] * 3)
            local = [each for each in records if each["operator"] == "aten::mm" and each["depth"] == 1]
            self.assertEqual([each["outputs"][0]["shape"] for each in local], [[4, 6]] * 3)
            # What the class exchanges with the other rank is told as well.
            self.assertEqual(Counter(each["operator"] for each in records)["_c10d_functional::all_gather_into_tensor"], 3)
        compared = self.tool("diff", "A", "B")
        self.assertEqual(compared.code, 0, compared.stdout)
        judged = json.loads(self.tool("ranks", "A", "--format", "json").stdout)
        self.assertEqual((judged["findings"], judged["first"]), ([], None))
        self.assertGreaterEqual(judged["collectives"], 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
