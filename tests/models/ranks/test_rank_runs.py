# SPDX-License-Identifier: Apache-2.0
"""A configuration whose program runs on two ranks: `run` and `gate` record every rank of every run, compare rank
with rank, and lead with the one that parted first."""
import json
import os
import socket
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need, on_ranks

need("torch")
import torch.distributed  # noqa: E402

BY_HAND = Path(__file__).resolve().parents[3] / "examples" / "replicas.py"

# Two ranks add what each has drawn. With a rank as its argument, that one draws what no seed pins.
PROGRAM = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
weight = torch.ones(8)
for step in range(3):
    own = torch.randn(8) * (rank + 1)
    if sys.argv[1:] == [str(rank)] and step == 1:
        own = own + torch.tensor(list(os.urandom(8)))
    total = own * weight
    dist.all_reduce(total)
    weight = weight + total.tanh()
parts = [torch.empty(8) for _ in range(2)]
dist.all_gather(parts, weight)
print(parts[1].sum())
dist.barrier()
dist.destroy_process_group()
"""


@unittest.skipUnless(torch.distributed.is_available(), "this PyTorch has no torch.distributed")
class RankRuns(ToolTest):
    def configure(self, *arguments, **fields):
        (self.folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        self.fields = {"program": {"command": on_ranks(2, "program.py", *arguments)}, "threads": 1, **fields}
        self.write_config(self.fields)

    def compare(self, expected):
        return self.run_config(expected, **self.fields)

    def assert_part_at_rank_1(self, report):
        self.assertEqual(report["verdict"]["status"], "diverged")
        self.assertTrue(report["runs"][0]["dump"].endswith("/baseline/rank-1"), report["runs"])
        by_rank = {each["rank"]: each["first_divergence"] for each in report["ranks"]}
        self.assertEqual(sorted(by_rank), [0, 1])
        # What rank 0 got of it came out of a collective.
        self.assertTrue(by_rank[0]["operator"].startswith("c10d::"), by_rank)
        self.assertFalse(by_rank[1]["operator"].startswith("c10d::"), by_rank)

    def test_a_program_that_repeats(self):
        self.configure()
        report = self.compare(0)
        self.assertEqual([each["rank"] for each in report["ranks"]], [0, 1])
        for run in ("baseline", "candidate"):
            self.assertEqual(sorted(each.name for each in (self.folder / "repro-check-out" / run).iterdir()),
                             ["rank-0", "rank-1", "ranks.json"])
        # What a collective fills says nothing before, and what a barrier is given nothing at all.
        self.assertEqual(report["warnings"], [])
        gathers = [op["index"] for op in self.operators("baseline/rank-0") if op["operator"] == "c10d::allgather_"]
        shown = self.tool("inspect", "repro-check-out/baseline/rank-0", "--op", gathers[0], "--format", "json")
        filled = {each["slot"]: each["state"] for each in json.loads(shown.stdout)["op"]["inputs"]
                  if each["slot"].startswith("output_tensors")}
        self.assertEqual(filled, {"output_tensors.0.0": "uninitialised", "output_tensors.0.1": "uninitialised"})
        # What an earlier run has left is replaced without a flag.
        self.assertEqual(self.tool("run", "-c", "config.json").code, 0)

    def test_the_rank_that_parted_first_leads(self):
        self.configure("1")
        self.assert_part_at_rank_1(self.compare(1))
        text = self.tool("run", "-c", "config.json").stdout
        self.assertRegex(text, r"^DIVERGED at step \d+ of rank 1[,:] ")
        self.assertRegex(text, r"ranks +2 compared; what else is said is of rank 1")

    def test_values_of_a_second_pair(self):
        self.configure("1", dump={"level": "auto"})
        self.assert_part_at_rank_1(self.compare(1))
        kept = [each.name for each in (self.folder / "repro-check-out").iterdir() if each.is_dir()]
        self.assertEqual(sorted(kept), ["baseline", "baseline.digest", "candidate", "candidate.digest"])

    def test_several_runs(self):
        self.configure("0", repeat=3)
        report = self.compare(1)
        self.assertEqual(len(report["repeat"]["runs"]), 3)
        self.assertTrue(report["runs"][0]["dump"].endswith("/rank-0"), report["runs"])

    def test_a_gate(self):
        self.configure()
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        self.assertEqual(self.tool("gate", "-c", "config.json", env=environment).code, 4)
        self.assertEqual(self.tool("gate", "accept", "-c", "config.json", env=environment).code, 0)
        done = self.tool("gate", "-c", "config.json", env=environment)
        self.assertEqual(done.code, 0, done.stdout + done.stderr)
        again = self.tool("gate", "-c", "config.json", "--against", "repro-check-out", "--format", "json",
                          env=environment)
        self.assertEqual(again.code, 0, again.stdout + again.stderr)
        self.assertEqual([each["rank"] for each in json.loads(again.stdout)["ranks"]], [0, 1])
        self.configure("1")
        done = self.tool("gate", "-c", "config.json", env=environment)
        self.assertEqual(done.code, 1, done.stdout + done.stderr)
        self.assertIn(" of rank 1, ", done.stdout)

    def test_a_gate_keeps_what_each_rank_computes(self):
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        program = PROGRAM.replace("dist.barrier()", "if rank == 1: torch.ones(2) * float(sys.argv[1])\ndist.barrier()")
        (self.folder / "program.py").write_text(program.replace("sys.argv[1:] == [str(rank)]", "False"), "utf-8")

        def gate(factor):
            # Another command would be another configuration.
            (self.folder / "factor.py").write_text(f"import sys\nsys.argv.append('{factor}')\nexec(open('program.py').read())\n")
            self.write_config({"program": {"command": on_ranks(2, "factor.py")}, "threads": 1})
            return self.tool("gate", "-c", "config.json", "--format", "json", env=environment)

        self.assertEqual(gate(2).code, 4)
        self.assertEqual(self.tool("gate", "accept", "-c", "config.json", env=environment).code, 0)
        self.assertEqual(gate(2).code, 0)
        done = gate(3)
        self.assertEqual(done.code, 1, done.stdout + done.stderr)
        self.assertIn("/rank-1", json.loads(done.stdout)["runs"][1]["dump"])

    def test_a_rank_that_an_exception_ends_is_said_to_have_ended_by_it(self):
        spawned = """
import os, torch.multiprocessing
def main(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    exec(compile(open("program.py").read(), "program.py", "exec"), {})
if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT, WORLD_SIZE="2")
    torch.multiprocessing.start_processes(main, nprocs=2, start_method="spawn")
"""
        (self.folder / "program.py").write_text(
            PROGRAM.replace("    own = torch.randn", "    if rank == 1 and step == 2: raise ValueError(step)\n"
                            "    own = torch.randn", 1), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            (self.folder / "spawn.py").write_text(spawned.replace("PORT", repr(str(free.getsockname()[1]))))
        for command in (on_ranks(2, "program.py"), [sys.executable, "spawn.py"]):
            self.assertNotEqual(self.tool("exec", "--force", "-o", "run", "--", *command).code, 0)
            done = self.tool("ranks", "run")
            self.assertRegex(done.stdout.splitlines()[0], r"missing rank 1: .*; ValueError at program.py:8 ended rank 1")
            self.assertRegex(done.stdout, r"raised +rank 1: 0 steps, then ValueError at program.py:8: 2\n")

    def test_a_rank_that_fails(self):
        self.configure()
        (self.folder / "program.py").write_text(
            PROGRAM.replace("for step", "if rank == 1: raise SystemExit(3)\nfor step"), encoding="utf-8")
        report = self.compare(5)
        self.assertEqual(report["verdict"]["status"], "run_failed")


@unittest.skipUnless(torch.distributed.is_available(), "this PyTorch has no torch.distributed")
class WithoutWrapper(ToolTest):
    """Nobody says which parameters are replicas: what begins equal is one, and what gets the same gradients."""

    def judge(self, expected, *arguments, program=BY_HAND):
        done = self.tool("exec", "--force", "-o", "run", "--", *on_ranks(2, program, *arguments),
                         env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.code, 0, done.stderr)
        done = self.tool("ranks", "run", "--format", "json")
        self.assertEqual(done.code, expected, done.stdout)
        return json.loads(done.stdout)

    def test_weights_that_nobody_handed_out(self):
        report = self.judge(1)
        self.assertEqual(report["cause"]["title"], "initial weights not synchronised")
        self.assertEqual((report["first"]["step"], report["first"]["names"]),
                         (0, ["0.bias", "0.weight", "2.bias", "2.weight"]))
        slices = []
        for rank in range(2):
            lines = self.tool("ranks", "run", "--ranks", f"{rank}:{rank + 1}", "--format", "jsonl").stdout
            slices.append(self.folder / f"{rank}.jsonl")
            slices[-1].write_text(lines, encoding="utf-8")
        self.assertEqual(self.tool("report", "--merge", *slices).code, 1)
        self.assertEqual(self.judge(0, "--broadcast")["replicated"], 4)

    def test_parameters_that_are_no_replicas(self):
        own = self.folder / "own.py"
        text = BY_HAND.read_text(encoding="utf-8")
        own.write_text(text.replace("dist.all_reduce(parameter.grad)", "pass"), encoding="utf-8")
        self.assertNotEqual(text, own.read_text(encoding="utf-8"))
        report = self.judge(4, program=own)
        self.assertEqual((report["replicated"], len(report["set_aside"])), (0, 4))
        said = self.tool("ranks", "run").stdout
        self.assertIn("NOT COMPARABLE: nothing says which parameters are replicas", said)


if __name__ == "__main__":
    unittest.main()
