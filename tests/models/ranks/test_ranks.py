# SPDX-License-Identifier: Apache-2.0
"""Data parallel training on two ranks: what `exec` records of each computes what it computes alone, and
`ranks` names what was planted at its step, kind and name, and nothing else."""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need, on_ranks, with_torchrun

need("torch")
import torch.distributed  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).resolve().parent
PROGRAM = PROGRAMS / "replicas.py"
SHARDED = PROGRAMS / "sharded.py"
GROUPS = PROGRAMS / "groups.py"
TOGETHER = PROGRAMS / "together.py"
SHARDS = bool(hasattr(getattr(torch.distributed, "fsdp", None), "fully_shard")
              or importlib.util.find_spec("torch.distributed.fsdp._fully_shard"))
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
FORWARD = "parameters when the forward pass begins"
BUFFERS = "buffers when the forward pass begins"
OPTIONS = "options of the optimizer"
STATISTICS = ["bn.running_mean", "bn.running_var"]


def launched(*arguments, ranks=2, program=PROGRAM):
    return on_ranks(ranks, program, *arguments)


@unittest.skipUnless(torch.distributed.is_available(), "this PyTorch has no torch.distributed")
class Ranks(ToolTest):
    def record(self, command, *flags, expected=0):
        done = self.tool("exec", "-o", "run", *flags, "--", *command, env=ONE_THREAD)
        self.assertEqual(done.code, expected, done.stderr[-3000:])
        return done

    def ranks(self, expected, *arguments):
        done = self.tool("ranks", *(arguments or ["run"]), "--format", "json")
        self.assertEqual(done.code, expected, done.stdout[:3000] + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["verdict"]["exit_code"], expected)
        return report

    def planted(self, fault, expected=1, ranks=2):
        self.record(launched(fault, ranks=ranks))
        return self.ranks(expected)

    def assert_first(self, report, cause, step, kind, names, of):
        first = report["first"]
        found = (report["cause"]["title"], first["step"], first["kind"], first["names"], first["of"])
        self.assertEqual(found, (cause, step, kind, names, of))

    def others(self, report):
        return [(each["step"], each["kind"]) for each in report["inherited"]]

    def assert_in_sync(self, report, ranks=2, **more):
        self.assertEqual(report["verdict"]["status"], "in_sync")
        self.assertEqual((report["steps"], len(report["ranks"])), (4, ranks))
        self.assertEqual(report["findings"], [])
        items = {each["kind"]: each["items"] for each in report["kinds"] if each["items"]}
        self.assertEqual(items, {FORWARD: 24, BUFFERS: 12, "gradients": 24, "learning rates": 4,
                                 OPTIONS: 16, "optimizer state": 72, "parameters": 24, **more})


class Healthy(Ranks):
    def test_it_computes_what_it_computes_alone(self):
        command = with_torchrun(2, PROGRAM)
        bare = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, timeout=120)
        self.assertEqual(bare.returncode, 0, bare.stderr)
        done = self.record(command)
        self.assertEqual(sorted(done.stdout.split()), sorted(bare.stdout.split()))
        self.assert_in_sync(self.ranks(0))
        self.assertEqual(sorted(each.name for each in (self.folder / "run").iterdir()),
                         ["rank-0", "rank-1", "ranks.json"])
        verified = self.tool("verify", "run")
        self.assertEqual(verified.code, 0, verified.stderr)
        self.assertEqual(verified.stdout.count("VERIFIED run/rank-"), 2)
        shown = json.loads(self.tool("inspect", "run", "--format", "json").stdout)
        self.assertEqual([each["rank"] for each in shown["ranks"]], [0, 1])
        self.assertRegex(self.tool("inspect", "run").stdout, r"(?m)^rank 1 +[1-9]\d* operators, .*: run/rank-1$")
        self.assertEqual(self.tool("pack", "run").code, 0)
        self.assertEqual(self.tool("ranks", "run.tar.zst").code, 2)
        unpacked = self.tool("unpack", "run.tar.zst", "-o", "again")
        self.assertEqual(unpacked.code, 0, unpacked.stderr)
        self.assert_in_sync(self.ranks(0, "again"))
        refused = self.tool("inspect", "run", "--op", "0")
        self.assertEqual(refused.code, 2)
        self.assertIn("holds the dumps of 2 ranks", refused.stderr)
        # It is replaced as a whole, and only where that was asked for.
        self.assertEqual(self.tool("exec", "-o", "run", "--", *command).code, 2)
        self.record(["true"], "--force", expected=4)
        self.assert_in_sync(self.ranks(0))
        self.record(launched("no-sync"), "--force")
        self.ranks(1)

    def test_options_of_the_wrapper(self):
        for option in ("unused", "static", "subgroups"):
            with self.subTest(option=option):
                self.record(launched(option), "--force")
                self.assert_in_sync(self.ranks(0))

    def twice(self, case, ranks=2):
        """Two runs, which are equal to each other and to a bare one."""
        command = launched(case, ranks=ranks, program=TOGETHER)
        bare = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, timeout=120)
        self.assertEqual(bare.returncode, 0, bare.stderr)
        for name in ("A", "B"):
            done = self.tool("exec", "-o", name, "--", *command, env=ONE_THREAD)
            self.assertEqual(done.code, 0, done.stderr[-3000:])
            self.assertEqual(sorted(done.stdout.split()), sorted(bare.stdout.split()))
        compared = self.tool("diff", "A", "B")
        self.assertEqual(compared.code, 0, compared.stdout[:3000])

    def together(self, case, ranks=2):
        self.twice(case, ranks)
        report = self.ranks(0, "A")
        self.assertEqual((report["verdict"]["status"], report["findings"]), ("in_sync", []))
        return {each["kind"]: each["items"] for each in report["kinds"] if each["items"]}, report

    def test_an_optimizer_that_shards_its_state(self):
        kinds, report = self.together("zero")
        self.assertEqual(kinds, {FORWARD: 12, "gradients": 12, "learning rates": 3, OPTIONS: 12, "parameters": 12})
        self.assertEqual(report["alone"], 36)

    def test_objects_that_ranks_exchange(self):
        kinds, _ = self.together("objects")
        self.assertEqual(kinds, {FORWARD: 12, "gradients": 12, "learning rates": 3, OPTIONS: 9, "parameters": 12})
        listed = json.loads(self.tool("inspect", "A/rank-0", "--list", "--format", "json").stdout)["ops"]
        gathered = [each for each in listed if each["operator"] == "c10d::allgather_"
                    and any(tensor["dtype"] == "uint8" for tensor in each["inputs"])]
        self.assertTrue(gathered)
        self.assertEqual({tensor["digest"] for each in gathered for tensor in each["inputs"] + each["outputs"]}, {None})

    def test_a_model_for_each_part_of_the_ranks(self):
        kinds, _ = self.together("ensembles", ranks=4)
        self.assertEqual(kinds, {FORWARD: 24, "gradients": 24, "learning rates": 3, OPTIONS: 9, "parameters": 24})

    @unittest.skipUnless(importlib.util.find_spec("torch.distributed.pipelining"), "this PyTorch has no pipelines")
    def test_stages_that_find_out_shapes(self):
        self.twice("pipeline")
        self.ranks(4, "A")  # each has a stage of its own: nothing is a replica

    def test_processes_that_the_program_starts_itself(self):
        script = self.folder / "spawn.py"
        script.write_text(
            "import os, runpy, sys, torch.multiprocessing as mp\n"
            "def work(rank, program):\n"
            "    os.environ.update(RANK=str(rank), WORLD_SIZE='2', MASTER_ADDR='127.0.0.1',\n"
            f"                      MASTER_PORT='{20000 + os.getpid() % 20000}')\n"
            "    sys.argv = [program]\n"
            "    runpy.run_path(program, run_name='__main__')\n"
            "if __name__ == '__main__':\n"
            f"    mp.spawn(work, ({str(PROGRAM)!r},), nprocs=2)\n", encoding="utf-8")
        self.record([sys.executable, str(script)])
        self.assert_in_sync(self.ranks(0))

    def test_collectives_that_nobody_waits_for(self):
        command = launched()
        waited = self.record(command)
        (self.folder / "run").rename(self.folder / "waited")
        done = self.record(command, "--no-sync")
        self.assertEqual(sorted(done.stdout.split()), sorted(waited.stdout.split()))
        self.assert_in_sync(self.ranks(0))
        self.assertEqual(self.tool("ranks", "waited").stdout, self.tool("ranks", "run").stdout)
        # Nothing is said of what is not there yet, and what comes is never taken for what was there before.
        given = {}
        for name in ("waited", "run"):
            listed = self.tool("inspect", f"{name}/rank-0", "--list", "--format", "json").stdout
            operators = json.loads(listed)["ops"]
            reduced = next(i for i, each in enumerate(operators) if each["operator"] == "c10d::allreduce_")
            reader = operators[reduced + 1]
            given[name] = ([each["digest"] for each in operators[reduced]["outputs"]],
                           [each["digest"] for each in reader["inputs"] + reader["outputs"]])
        self.assertEqual(given["run"], ([None], given["waited"][1]))
        self.assertEqual(given["waited"][0], given["waited"][1][:1])
        (self.folder / "run").rename(self.folder / "A")
        self.record(command, "--no-sync")
        self.assertEqual(self.tool("diff", "A", "run").code, 0)
        apart = self.tool("diff", "A", "waited")
        self.assertEqual(apart.code, 4, apart.stdout)
        self.assertIn("collectives were waited for in one of the runs, and not in the other", apart.stdout)
        self.record(launched("nudged"), "--no-sync", "--force")
        received = json.loads(self.tool("diff", "A", "run", "--format", "json").stdout)[1]
        self.assertEqual(received["runs"][0]["dump"], "A/rank-0")
        self.assertEqual(received["first_divergence"]["cause"]["name"], "received from another rank")

    def test_the_variables_of_other_launchers(self):
        script = self.folder / "translated.py"
        for rank, size in (("SLURM_PROCID", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                           ("PMI_RANK", "PMI_SIZE")):
            script.write_text(
                "import os, runpy, sys\n"
                f"os.environ.update(RANK=os.environ['{rank}'], WORLD_SIZE='2', MASTER_ADDR='127.0.0.1',\n"
                f"                  MASTER_PORT='{20000 + os.getpid() % 20000}')\n"
                f"sys.argv = [{str(PROGRAM)!r}]\n"
                f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')\n", encoding="utf-8")
            with self.subTest(launcher=rank):
                self.record(["bash", "-c", f"export {size}=2; {rank}=1 \"$@\" & {rank}=0 \"$@\" && wait $!", "-",
                             sys.executable, str(script)], "--force")
                self.assert_in_sync(self.ranks(0))


class Innocents(Ranks):
    """What looks like ranks that part, and is meant."""
    def judged(self, case, expected, ranks=2):
        self.record(launched(case, ranks=ranks, program=TOGETHER), "--force")
        return self.ranks(expected)

    def test_join_over_two_epochs(self):
        report = self.judged("join", 0)
        self.assertEqual([each["weight"] for each in report["findings"]], ["note"])
        self.assertGreater(report["kinds"][5]["items"], 0)

    def test_periods_of_averaging(self):
        report = self.judged("local_sgd", 0)
        self.assertEqual([each["weight"] for each in report["findings"]], ["note"])
        self.assertTrue(self.judged("averaged", 4)["why_not"]["text"])

    def test_experts_that_begin_alike(self):
        report = self.judged("experts", 0)
        self.assertEqual((report["findings"], report["set_aside"]), ([], ["expert.bias", "expert.weight"]))

    @unittest.skipUnless(SHARDS and importlib.util.find_spec("torch.distributed.pipelining"), "no sharded pipelines")
    def test_stages_that_are_modules_of_their_own(self):
        self.assertEqual(self.judged("sharded_stages", 0, ranks=4)["first"], None)

    @unittest.skipUnless(importlib.util.find_spec("torch.distributed.tensor"), "this PyTorch has no DTensor")
    def test_a_rank_that_looks_at_what_it_holds(self):
        self.assertEqual(self.judged("logged", 0)["findings"], [])

    def test_a_job_that_starts_its_ranks_again(self):
        script = self.folder / "again.sh"
        words = " ".join(launched())
        script.write_text(f"STEPS=2 {words}\nTORCHELASTIC_RESTART_COUNT=1 STEPS=3 {words}\n", encoding="utf-8")
        self.record(["bash", str(script)])
        self.assertEqual(self.ranks(0)["steps"], 3)
        for rank in (0, 1):
            manifest = json.loads((self.folder / "run" / f"rank-{rank}" / "manifest.json").read_text())
            self.assertEqual(manifest["attempt"], 1)

    @unittest.skipUnless(importlib.util.find_spec("torch.testing._internal.distributed.fake_pg"), "no fake ranks")
    def test_one_process_that_stands_for_all_ranks(self):
        script = self.folder / "simulated.py"
        script.write_text(
            "import torch, torch.distributed as dist\n"
            "from torch.testing._internal.distributed.fake_pg import FakeStore\n"
            "dist.init_process_group('fake', rank=0, world_size=4, store=FakeStore())\n"
            "dist.all_reduce(torch.ones(3))\n", encoding="utf-8")
        for run in ("A", "B"):
            done = self.tool("exec", "-o", run, "--", sys.executable, str(script), env=ONE_THREAD)
            self.assertEqual(done.code, 0, done.stderr)
        self.assertEqual(self.tool("diff", "A", "B").code, 0)
        self.assertEqual(self.tool("ranks", "A").code, 4)


class Faults(Ranks):
    """What looks like ranks that agree."""
    def found(self, case, ranks=2):
        self.record(launched(case, ranks=ranks, program=TOGETHER), "--force")
        return self.ranks(1)

    def proof(self, case):
        finding, = [each for each in self.found(case)["findings"] if each["weight"] == "proof"]
        return finding["text"]

    def test_parameters_that_never_move(self):
        for case, name in (("head_alone", "0.bias, 0.weight"), ("experts_in_no_optimizer", "expert.bias, expert.weight"),
                           ("experts_that_are_cut_off", "expert.bias, expert.weight")):
            with self.subTest(case=case):
                self.assertIn(name, self.proof(case))

    def test_gradients_that_nobody_sums_and_all_clip(self):
        report = self.found("partial")
        self.assert_first(report, "replicated weights with partial gradients", 0, "gradients", ["bias", "weight"], 4)

    def test_a_norm_of_what_one_rank_holds(self):
        report = self.found("own_norm")
        self.assertEqual(report["cause"]["title"], "gradients are clipped by different norms")
        self.assertRegex(report["first"]["behind"], r"together.py:\d+")

    def test_a_message_that_is_written_while_it_is_sent(self):
        self.assertRegex(self.proof("overwritten"), r"^content mismatch: message 1 from rank 0 to rank 1.* [0-9a-f]{32} ")

    def test_a_split_that_each_rank_draws(self):
        report = self.found("split_by_rank")
        self.assertEqual([each["id"] for each in report["findings"]], ["trained-and-validated", "samples-overlap"])


class Planted(Ranks):
    def test_initial_weights(self):
        report = self.planted("no-broadcast")
        self.assert_first(report, "initial weights not synchronised", 0, FORWARD,
                          ["a.bias", "a.weight", "b.bias", "b.weight"], 6)
        self.assertNotIn("gradients", [kind for _, kind in self.others(report)])

    def test_running_statistics(self):
        report = self.planted("buffers")
        self.assert_first(report, "running statistics drift apart", 1, BUFFERS, STATISTICS, 3)
        self.assertEqual(self.others(report), [])

    def test_no_sync_around_the_last_micro_batch(self):
        report = self.planted("no-sync")
        self.assert_first(report, "gradients not reduced", 0, "gradients",
                          ["a.bias", "a.weight", "b.bias", "b.weight", "bn.bias", "bn.weight"], 6)

    def test_a_gradient_that_nobody_reduced(self):
        report = self.planted("skipped")
        self.assert_first(report, "some gradients not reduced", 0, "gradients", ["a.bias"], 6)

    def test_a_gradient_that_nobody_reduced_behind_statistics_that_drift(self):
        report = self.planted("skipped-late")
        self.assert_first(report, "some gradients not reduced", 2, "gradients", ["a.bias"], 6)
        other, = report["independent"]
        self.assertEqual((other["cause"]["title"], other["step"], other["kind"]),
                         ("running statistics drift apart", 1, BUFFERS))
        self.assertIn("SyncBatchNorm", other["cause"]["fix"])
        self.assertNotIn(BUFFERS, [kind for _, kind in self.others(report)])

    def test_a_step_that_one_rank_skips(self):
        report = self.planted("no-step")
        self.assert_first(report, "the optimizer skipped a step on some ranks", 2, "gradients",
                          ["a.bias", "a.weight", "b.bias", "b.weight", "bn.bias", "bn.weight"], 6)
        finding, = report["findings"]
        self.assertEqual((finding["weight"], finding["id"]), ("proof", "steps-skipped"))
        self.assertEqual(finding["text"], "optimizers made different numbers of steps: 3 steps on rank 1 and 4 on rank 0, for as "
                         "many backward passes: steps after the shorter run were not compared")

    def test_a_rank_in_eval_mode(self):
        finding, = self.planted("eval", expected=0)["findings"]
        self.assertEqual((finding["weight"], finding["id"], finding["where"]["step"], finding["fields"]["ranks"]),
                         ("suspicion", "no-draws-on-some-ranks", 2, [1]))

    def test_gradients_that_one_rank_clips(self):
        report = self.planted("clip-alone")
        self.assert_first(report, "gradients are clipped on some ranks alone", 2, "gradients",
                          ["a.bias", "a.weight", "b.bias", "b.weight", "bn.bias", "bn.weight"], 6)

    def test_the_rank_that_brings_nan(self):
        finding, = self.planted("nan", expected=0)["findings"]
        self.assertEqual(finding["weight"], "suspicion")
        self.assertRegex(finding["text"],
                         r"^values are NaN: first at step 2 on rank 1, in what it reads, `input\[0\]` \(op \d+\)$")

    def test_lost_optimizer_state(self):
        report = self.planted("lost-state")
        self.assert_first(report, "optimizer state differs", 2, "optimizer state",
                          ["a.weight.exp_avg"], 18)
        self.assertNotIn("gradients", [kind for _, kind in self.others(report)])

    def test_a_weight_written_outside_the_optimizer(self):
        report = self.planted("nudged")
        self.assert_first(report, "weights written outside the optimizer", 2, FORWARD, ["b.weight"], 6)

    def test_a_learning_rate(self):
        self.assert_first(self.planted("rate"), "learning rates differ", 2, "learning rates", ["lr[0]"], 1)

    def test_a_weight_decay(self):
        self.assert_first(self.planted("decay"), "options of the optimizers differ", 2, OPTIONS, ["weight_decay[0]"], 4)

    def test_the_odd_one_of_three(self):
        first = self.planted("nudged", ranks=3)["first"]
        self.assertEqual((first["odd_ranks"], first["rank"]), ([1], 1))
        text = self.tool("ranks", "run").stdout
        self.assertIn("DIVERGED: rank 1 parts at step 2", text)
        # What it says next can be typed.
        self.assertEqual([code for _, code in self.type_next(text)], [0, 0])

    def test_masks_that_are_copies(self):
        report = self.planted("same-masks", expected=0)
        self.assertEqual([(each["weight"], each["id"]) for each in report["findings"]],
                         [("suspicion", "masks-are-copies")])

    def test_a_generator_of_another_rank(self):
        finding, = self.planted("restored", expected=0)["findings"]
        self.assertEqual(finding["weight"], "suspicion")
        self.assertRegex(finding["text"], r"^another rank's generator was restored: from step 2 on ranks 0, 1 made all of "
                         r"their 4 draws from one seed \(5\), at the same positions; before that they drew from seed 5 on rank 0, "
                         r"seed 6 on rank 1$")

    def test_a_model_that_is_called_past_its_wrapper(self):
        report = self.planted("past-wrapper")
        self.assert_first(report, "the model was called past its wrapper", 0, "gradients",
                          ["a.bias", "a.weight", "b.bias", "b.weight", "bn.bias", "bn.weight"], 6)

    def test_ranks_that_read_the_same_data(self):
        report = self.planted("same-data")
        self.assertEqual([(each["weight"], each["id"]) for each in report["findings"]],
                         [("proof", "ranks-read-same-data")])

    def test_weights_that_never_move(self):
        self.assertIn("weights never moved", self.planted("frozen")["findings"][0]["text"])


@unittest.skipUnless(SHARDS, "this PyTorch has no fully_shard")
class Sharded(Ranks):
    def test_shards_without_replicas(self):
        command = launched(program=SHARDED)
        bare = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, timeout=120)
        self.assertEqual(sorted(self.record(command).stdout.split("\n")), sorted(bare.stdout.split("\n")))
        report = self.ranks(0)
        self.assertEqual((report["tensors_unread"], report["findings"]), (0, []))
        self.assertGreaterEqual(report["alone"], 2 * 3 * 4 * 5)

    def test_two_runs(self):
        """FSDP frees the memory of what it gathered, and has it again without an operator: what nobody has written
        since is nothing to compare."""
        for run in ("A", "B"):
            self.record(launched(program=SHARDED))
            (self.folder / "run").rename(self.folder / run)
        done = self.tool("diff", "A", "B", "--format", "json")
        self.assertEqual(done.code, 0, done.stdout[:3000])
        for report in json.loads(done.stdout):
            self.assertEqual((report["verdict"]["status"], report["warnings"]), ("reproducible", []))
            self.assertGreater(report["coverage"]["compared"], 300)

    def test_parts_are_put_together(self):
        """By where they lie in the whole, whatever the number of ranks."""
        sys.path.insert(0, str(ROOT / "python"))
        import numpy
        import repro_check

        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        for ranks in (2, 3):
            self.record(launched(ranks=ranks, program=SHARDED), "--level", "tensor", "--force")
            whole = {name: numpy.full(value.shape, numpy.nan, "float32") for name, value in model.named_parameters()}
            for rank in range(ranks):
                with repro_check.open(self.folder / "run" / f"rank-{rank}") as dump:
                    facts = {each["name"]: each["value"] for each in dump.manifest["environment"]}
                    tensors = next(op for op in dump if op.full_name == "repro_check::replica").outputs.records
                    for name, value in whole.items():
                        place = json.loads(facts["placement." + name])
                        self.assertEqual(place["shape"], list(value.shape))
                        self.assertRegex(place["placements"][0], rf"^shard of {ranks}: S")
                        part = next(each.numpy() for each in tensors if each.slot.startswith(f"param.{name}@"))
                        value[tuple(slice(at, at + size) for at, size in zip(place["offset"], part.shape))] = part
            for name, value in model.named_parameters():
                numpy.testing.assert_array_equal(whole[name], value.detach().numpy())

    def test_replicas_of_shards(self):
        self.record(launched(ranks=4, program=SHARDED))
        report = self.ranks(0)
        items = {each["kind"]: each["items"] for each in report["kinds"]}
        self.assertEqual((items["gradients"], items["parameters"], report["alone"]), (24, 24, 0))
        self.record(launched("nudged", ranks=4, program=SHARDED), "--force")
        first = self.ranks(1)["first"]
        self.assertEqual((first["step"], first["kind"], first["names"], first["of"]),
                         (1, FORWARD, ["2.weight@0:1/2"], 4))


class Groups(Ranks):
    """What four ranks exchange in five groups."""

    def exchanged(self, fault):
        # gloo ends the program, or waits for ever.
        self.tool("exec", "-o", "run", "--timeout", "30", "--", *launched(fault, ranks=4, program=GROUPS),
                  env=ONE_THREAD)
        done = self.tool("ranks", "run", "--format", "json")
        self.assertIn(done.code, (1, 3), done.stderr)
        return [each["text"] for each in json.loads(done.stdout)["findings"]]

    def assert_named(self, fault, pattern):
        found = self.exchanged(fault)
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], pattern)

    def test_healthy(self):
        command = launched(ranks=4, program=GROUPS)
        bare = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, timeout=120)
        self.assertEqual(bare.returncode, 0, bare.stderr)
        done = self.record(command)
        self.assertEqual(sorted(done.stdout.split("\n")), sorted(bare.stdout.split("\n")))
        # No parameter is on all ranks: of replicas there is nothing to say.
        report = self.ranks(4)
        # In three steps two gradients of each stage and the loss, and one barrier; four messages a step.
        self.assertEqual((report["collectives"], report["messages"], report["unplaced"]), (16, 12, 0))
        self.assertEqual((report["verdict"]["status"], report["findings"]), ("not_comparable", []))

    def test_another_operator(self):
        self.assert_named("operator", r"^type mismatch: collective 3 of group 3 \(ranks 0, 2\), at step 1, is "
                          r"c10d::allreduce_ float32 \[6, 8\] \(groups.py:\d+\) on rank 0, and "
                          r"c10d::broadcast_ float32 \[6\] \(groups.py:\d+\) on rank 2$")

    def test_another_dtype_and_another_size(self):
        for fault, what, other in (("dtype", "dtype", r"float64 \[2, 6\]"), ("size", "size", r"float32 \[11\]")):
            with self.subTest(fault=fault):
                self.assert_named(fault, rf"^{what} mismatch: collective 3 of group 4 \(ranks 1, 3\), at step 1, is "
                                  rf"c10d::allreduce_ float32 \[2, 6\] .* and c10d::allreduce_ {other} ")
                shutil.rmtree(self.folder / "run")

    def test_a_collective_that_one_of_a_group_skips(self):
        # One waits in the other's next collective: neither explains the other.
        every, stage = self.exchanged("skipped")
        self.assertRegex(every, r"^missing rank 0: never entered collective 2 of group 0 \(ranks 0-3\), ")
        self.assertRegex(stage, r"^missing rank 2: never entered collective 3 of group 3 \(ranks 0, 2\), which rank 0 "
                         r"entered at step 1 as c10d::allreduce_ float32 \[6, 8\] .* did not complete; ")

    def test_a_send_without_its_recv(self):
        found = self.exchanged("no-recv")
        self.assertRegex("\n".join(found), r"missing recv: message 1 from rank 0 to rank 1, of group 1 \(ranks 0, 1\), "
                         r"tag 7, was sent at step 1 as c10d::send float32 \[2\] \(groups.py:\d+\)")
        # The gradients of both stages wait for these two.
        self.assertTrue(all(each.startswith(("missing recv: ", "missing send: ")) for each in found), found)


class TwoRuns(Ranks):
    def compare(self, fault, expected):
        self.record(launched())
        (self.folder / "run").rename(self.folder / "A")
        self.record(launched(fault))
        done = self.tool("diff", "A", "run", "--format", "json")
        self.assertEqual(done.code, expected, done.stderr)
        return json.loads(done.stdout)

    def test_the_rank_that_parted_first_leads(self):
        own, received = self.compare("nudged", 1)
        self.assertEqual([run["dump"] for run in own["runs"]], ["A/rank-1", "run/rank-1"])
        self.assertEqual([run["dump"] for run in received["runs"]], ["A/rank-0", "run/rank-0"])
        first = received["first_divergence"]
        self.assertEqual((first["key"]["operator"], first["cause"]["name"]),
                         ("c10d::allreduce_", "received from another rank"))
        # That of the other rank is the write itself.
        self.assertEqual(own["first_divergence"]["relation"], "missing")

    def test_equal_runs_and_a_rank_that_one_of_them_lacks(self):
        self.assertEqual([report["verdict"]["status"] for report in self.compare("", 0)],
                         ["reproducible"] * 2)
        self.assertEqual(self.tool("diff", "A", "run/rank-0").code, 2)
        (self.folder / "run" / "rank-1").rename(self.folder / "elsewhere")
        lacking = self.tool("diff", "A", "run")
        self.assertEqual(lacking.code, 4, lacking.stderr)
        self.assertIn("run/rank-1", lacking.stdout)
        self.assertEqual(self.tool("verify", "run").code, 3)


    def test_another_number_of_ranks(self):
        """What does not depend on it is compared, and is no pass."""
        for fault in ("frozen", ""):
            for ranks in (2, 3):
                self.record(launched(fault, ranks=ranks))
                (self.folder / "run").rename(self.folder / f"{fault}{ranks}")
            done = self.tool("diff", f"{fault}2", f"{fault}3", "--format", "json")
            self.assertEqual(done.code, 4, done.stdout[:2000] + done.stderr)
            reports = json.loads(done.stdout)
            self.assertEqual([each["runs"][1]["dump"] for each in reports], [f"{fault}3/rank-0", f"{fault}3/rank-1"])
            # The gradients of a third one make the second step another.
            self.assertEqual(reports[0]["verdict"]["reasons"],
                             ["the baseline ran on 2 ranks and the candidate on 3 ranks: operators, gradients and what "
                              "the optimizer leaves were not compared",
                              "compared: 6 parameters before the first step", "compared: losses of step 0",
                              "not compared: further losses: gradients were reduced in step 0, over ranks that may "
                              "have read something else"])


class Interrupted(Ranks):
    def test_a_rank_that_is_killed(self):
        done = self.tool("exec", "-o", "run", "--", *with_torchrun(2, PROGRAM, "killed"), env=ONE_THREAD)
        self.assertEqual(done.code, 1, done.stderr)
        report = self.ranks(3)
        self.assertEqual((report["steps"], report["first"]), (2, None))
        # The other one may have been in a collective when its launcher stopped it.
        self.assertIn(1, [each["rank"] for each in report["ranks"] if each["last_operator"]])
        self.assertIn("INCOMPLETE: ", self.tool("ranks", "run").stdout)
        self.assert_never_came(report)

    def test_a_rank_that_is_recovered_is_the_rank_that_it_was(self):
        command = launched("killed")
        for place in ("run", "again"):
            self.tool("exec", "-o", place, "--", *command, env=ONE_THREAD)
            facts = json.loads((self.folder / place / "rank-1" / "manifest.json").read_text())["environment"]
            self.assertIn({"name": "distributed.rank", "value": "1"}, facts)
            self.assertIn({"name": "distributed.wrapper", "value": "DistributedDataParallel"}, facts)

    def assert_never_came(self, report):
        what = report["findings"][0]["text"]
        self.assertRegex(what, r"^missing rank 1: never entered collective \d+ of group 0 \(ranks 0, 1\), which rank 0 "
                               r"entered at step 2 as c10d::broadcast_ float32 \[32\] \(replicas.py:\d+\) and did not "
                               r"complete; the last operator there was ")

    def test_a_rank_that_never_comes(self):
        done = self.tool("exec", "-o", "run", "--timeout", "25", "--", *with_torchrun(2, PROGRAM, "hang"), env=ONE_THREAD)
        self.assertEqual(done.code, 5, done.stderr)
        report = self.ranks(3)
        self.assertEqual([each["rank"] for each in report["ranks"]], [0, 1])
        # The one waits in a collective, the other does not.
        by_rank = {each["rank"]: each["last_operator"] for each in report["ranks"]}
        self.assertTrue(by_rank[0].startswith("c10d::"), by_rank)
        self.assertNotIn("c10d", by_rank[1])
        self.assert_never_came(report)

    def test_ranks_that_make_other_collectives(self):
        # gloo ends the program, or waits for ever.
        self.tool("exec", "-o", "run", "--timeout", "40", "--", *launched("other-collective"), env=ONE_THREAD)
        what = self.ranks(3)["findings"][0]["text"]
        self.assertRegex(what, r"^size mismatch: collective \d+ of group 0 \(ranks 0, 1\), at step 2, is "
                               r"c10d::allreduce_ float32 \[4\] \(replicas.py:\d+\) on rank 0, and c10d::allreduce_ float32 \[8\] ")
        said = self.tool("ranks", "run").stdout
        self.assertRegex(said, r"^INCOMPLETE: .*: size mismatch: collective ")
        self.assertEqual((said.count("size mismatch: "), said.count("  fix  ")), (1, 1))

    def test_gradients_that_one_rank_changes_behind_their_reduction(self):
        report = self.planted("halved")
        self.assertEqual((report["cause"]["title"], report["first"]["step"], report["first"]["differing"]),
                         ("gradients changed after their reduction", 2, 6))
        self.assertRegex(report["first"]["behind"],
                         r"^first after the reduction: aten::mul_ \(replicas.py:\d+\) on rank 1 alone$")
        said = self.tool("ranks", "run").stdout
        self.assertRegex(said, r"\nnext: repro-check inspect run/rank-1 --op \d+\n$")

    def test_what_reads_other_data_is_not_compared_as_two_runs(self):
        self.record(launched("no-sync"))
        self.assertRegex(self.tool("ranks", "run").stdout,
                         r"\nnext: repro-check inspect run/rank-(?:1 .*\n.*rank-0|0 .*\n.*rank-1) --op \d+\n$")

    def test_a_rank_that_reduces_by_something_else(self):
        what = self.planted("maximum")["findings"][0]["text"]
        self.assertRegex(what, r"^reduce op mismatch: collective \d+ of group 0 \(ranks 0, 1\), at step 0, is c10d::allreduce_ "
                               r"float32 \[16, 8\] SUM \(replicas.py:\d+\) on rank 0, and .* MAX \(replicas.py:\d+\) on rank 1$")

    def test_a_rank_that_is_absent(self):
        self.record(launched())
        (self.folder / "run" / "rank-1").rename(self.folder / "elsewhere")
        self.assertEqual(self.ranks(4)["absent"], [1])
        self.assert_in_sync(self.ranks(0, "run/rank-0", "elsewhere"))
        self.assertEqual(self.tool("ranks", "run", "run/rank-0").code, 2)

    def test_one_process_is_no_rank(self):
        self.record([sys.executable, "-c", "import torch; torch.ones(2) + 1"])
        done = self.tool("ranks", "run")
        self.assertEqual(done.code, 2, done.stderr)
        self.assertIn("is of no rank", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
