# SPDX-License-Identifier: Apache-2.0
"""`exec --depth blocks`: which modules are blocks, what is read at their borders, and that the program computes what it
computes alone."""
import re
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

from harness import need, on_ranks, with_torchrun

need("torch", "h5py", "xxhash")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

import repro_check  # noqa: E402
import torch  # noqa: E402
import torch.distributed.fsdp  # noqa: E402

from programs.test_harm import Harm  # noqa: E402

FLAGS = ("--depth", "blocks")
# Ends with the exact values of all that was trained.
SHOW = "def show(*tensors): print([float(t.detach().double().sum()).hex() for t in tensors])\n"


class Blocks(Harm):
    def blocks(self, text, *flags, dump="dump"):
        """The rows of a program that computes what it computes alone."""
        self.both(SHOW + textwrap.dedent(text), *FLAGS, *flags)
        self.dump = repro_check.open(self.folder / dump)
        self.addCleanup(self.dump.close)
        self.summary = self.dump.manifest["trace"]["blocks"]
        self.assertNotIn("not everything was recorded", self.said)
        return list(self.dump.blocks())

    def paths(self, rows, step=0):
        return [row.path for row in rows if row.step == step]


class Choice(Blocks):
    def test_a_training_run(self):
        rows = self.blocks("""
            import torch
            torch.manual_seed(0)
            m = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 4))
            o = torch.optim.AdamW(m.parameters())
            for _ in range(20):
                o.zero_grad()
                m(torch.randn(4, 8)).pow(2).mean().backward()
                o.step()
            show(*m.parameters())
        """)
        self.assertEqual(len(rows), 80)
        self.assertEqual(self.paths(rows, 7), ["0", "1", "2", "3"])
        for before, after in zip(rows[:3], rows[1:4]):
            self.assertEqual(before.outputs, after.inputs)
        self.assertEqual({(row.phase, row.training, row.unopened) for row in rows}, {("forward", True, 0)})
        read = {}
        for row in self.dump.parameters():
            read.setdefault(row.step, set()).add(row.name)
        everything = {"0.weight", "0.bias", "3.weight", "3.bias"}
        self.assertEqual([read[step] for step in (0, 16, 19)], [everything] * 3)  # the last one too
        self.assertEqual(set.union(*(names for step, names in read.items() if 0 < step < 16)), everything)
        kinds = [record["operator"] for record in self.records("dump")]
        self.assertEqual(kinds.count("repro_check::loss"), 20)
        self.assertEqual(set(kinds), {"repro_check::loss", "repro_check::optimizer_step"})

    def test_a_long_list_is_cut_into_groups(self):
        text = """
            import torch
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first = torch.nn.Linear(4, 4)
                    self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(48))
                def forward(self, x):
                    x = self.first(x)
                    for layer in self.layers: x = layer(x)
                    return x
            torch.manual_seed(0)
            m = Net()
            for _ in range(2): show(m(torch.ones(2, 4)))
        """
        rows = self.blocks(text)
        self.assertEqual(self.paths(rows)[:3], ["first", "layers.0-2", "layers.3-5"])
        self.assertEqual(len(rows), 2 * 17)
        self.assertEqual([row.call for row in rows], [0] * 17 + [1] * 17)
        self.assertEqual(rows[1].inputs, rows[0].outputs)
        self.assertEqual(rows[2].inputs, rows[1].outputs)
        self.assertEqual(self.paths(self.blocks(text, "--blocks", "5"))[1:], ["layers.0-11", "layers.12-23", "layers.24-35",
                                                                             "layers.36-47"] + ["first"] + ["layers.0-11",
                                                                             "layers.12-23", "layers.24-35", "layers.36-47"])
        rows = self.blocks(text, "--blocks", "layers.1?,first")
        self.assertEqual(self.paths(rows)[:11], ["first", *(f"layers.{n}" for n in range(10, 20))])
        self.assertEqual(self.summary.get("not_seen"), None)

    def test_forward_and_modules_that_are_never_called(self):
        rows = self.blocks("""
            import torch
            class Part(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
                def forward(self, x): return self.b(self.a(x))
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.called, self.passed, self.unused = Part(), Part(), Part()
                def forward(self, x): return self.passed.forward(self.called(x))
            torch.manual_seed(0)
            m = Net()
            for _ in range(3): show(m(torch.ones(2, 4)))
        """, "--blocks", "4")
        # What was run by forward() has given way to what is below it.
        self.assertEqual(self.paths(rows), ["called", "called", "passed.a", "passed.b", "called", "passed.a", "passed.b"])
        self.assertEqual(self.summary["not_seen"], ["unused"])

    def test_modules_that_come_later_or_are_made_as_it_goes(self):
        rows = self.blocks("""
            import torch
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.a = torch.nn.Linear(4, 4)
                def forward(self, x):
                    x = torch.nn.ReLU()(self.a(x))  # of nobody
                    if not hasattr(self, "b"): self.b = torch.nn.Linear(4, 4)
                    return self.b(x)
            torch.manual_seed(0)
            m = Net()
            for _ in range(6): show(m(torch.ones(2, 4)))
        """)
        self.assertEqual(self.paths(rows), ["a"] + ["a", "b"] * 5)

    def test_one_module_twice_submodules_directly_and_two_roots(self):
        rows = self.blocks("""
            import torch
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
                def forward(self, x): return self.b(self.a(self.a(x)))
            torch.manual_seed(0)
            m, loss = Net(), torch.nn.MSELoss()
            o = torch.optim.SGD(m.parameters(), lr=0.1)
            for _ in range(3):
                loss(m.a(m(torch.ones(2, 4))), torch.zeros(2, 4)).backward()
                o.step()
            with torch.no_grad(): show(m.eval()(torch.ones(2, 4)))
        """)
        self.assertEqual(self.paths(rows, 1), ["a", "a", "b", "a", "MSELoss"])
        self.assertEqual([row.call for row in rows if row.path == "a" and row.step == 1], [0, 1, 2])
        self.assertEqual([(row.path, row.phase, row.training) for row in rows[-3:]],
                         [("a", "eval", False), ("a", "eval", False), ("b", "eval", False)])

    def test_parameters_without_an_optimizer(self):
        rows = self.blocks("""
            import torch
            torch.manual_seed(0)
            m = torch.nn.Linear(4, 4)
            for _ in range(20):
                m(torch.ones(2, 4)).sum().backward()
                with torch.no_grad():
                    for p in m.parameters():
                        p.data -= 0.1 * p.grad
                        p.grad = None
            show(*m.parameters())
        """)
        self.assertEqual(len(rows), 20)
        read = [row for row in self.dump.parameters() if row.name == "weight"]
        self.assertEqual(len({row.digest for row in read}), len(read))
        self.assertGreaterEqual(len(read), 4)  # two rounds begin, one share, and the end

    def test_steps_and_every(self):
        text = """
            import torch
            torch.manual_seed(0)
            m = torch.nn.Linear(4, 4)
            o = torch.optim.SGD(m.parameters(), lr=0.1)
            for _ in range(9):
                m(torch.ones(2, 4)).sum().backward()
                o.step()
            show(*m.parameters())
        """
        self.assertEqual([row.step for row in self.blocks(text, "--every", "4")], [0, 4, 8])
        self.assertEqual(self.summary["every"], 4)
        self.assertEqual([row.step for row in self.blocks(text, "--steps", "2:4")], [2, 3])

    def test_what_cannot_be(self):
        program = self.program("import torch; torch.ones(1)")
        for flags, said in ((("--depth", "blocks", "--module", "a"), "include"), (("--depth", "blocks", "--rng", "host"), "rng"),
                            (("--depth", "blocks", "--workers"), "workers"), (("--blocks", "3"), "blocks"),
                            (("--depth", "blocks", "--phase", "forward"), "phases"), (("--every", "3"), "every"),
                            (("--depth", "blocks", "--checkpoints"), "checkpoints")):
            with self.subTest(flags):
                code, _, errors = self.recorded(program, flags=flags)
                self.assertEqual(code, 2)
                self.assertIn(said, errors)


class Borders(Blocks):
    def test_what_is_opened(self):
        rows = self.blocks("""
            import collections, dataclasses, enum, numpy, torch
            @dataclasses.dataclass
            class Data: x: torch.Tensor; scale: float = 2.0
            Pair = collections.namedtuple("Pair", "a b")
            class Mine:
                def __init__(self, x): self.x = x
            class Take(torch.nn.Module):
                def forward(self, given, *rest, **named): return given
            m = Take()
            one = torch.arange(4.0)
            class Kind(enum.Enum): A = "a"
            m(one, module=1, result=2)  # names of ours
            for given in (one, [one], {"a": one}, Data(one), Pair(one, None), (1, 2.5, True, 1j, "text", 2**70), Mine(one),
                          numpy.arange(3), None, torch.float32):
                m(given, flag=False)
            m(torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,)))
            m(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
            m(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged))
            m(torch.empty(2, device="meta"))
        """)
        outputs = [row.outputs for row in rows[1:]]
        self.assertEqual(rows.pop(0).outputs, outputs[0])
        self.assertEqual(outputs[0], outputs[1])  # names and lists say nothing
        self.assertEqual(outputs[0], outputs[2])
        self.assertNotEqual(outputs[0], outputs[3])  # its number
        self.assertEqual(outputs[0], outputs[4])
        self.assertEqual([row.outputs is None for row in rows], [False] * 6 + [True] + [False] * 6 + [True])
        self.assertEqual([row.unopened for row in rows], [0] * 6 + [2] + [0] * 6 + [2])
        self.assertEqual(self.summary["unopened"], [{"type": "__main__.Mine", "count": 2}, {"type": "torch.Tensor", "count": 2}])

    def test_the_same_is_read_in_c_as_in_python(self):
        """A block is told of in Python when its root is called the first and the second time, and always where the
        program has a mode of functions of its own; else in C."""
        rows = self.blocks("""
            import collections, dataclasses, enum, numpy, signal, torch, transformers
            from torch.overrides import TorchFunctionMode
            @dataclasses.dataclass
            class Data: x: torch.Tensor; scale: float = 2.0
            class Mine:
                def __init__(self, x): self.x = x
            class Kind(enum.IntEnum): A = 3
            class Tagged(torch.Tensor): pass
            class Counts(TorchFunctionMode):
                told = 0
                def __torch_function__(self, function, types, args=(), kwargs=None):
                    Counts.told += 1
                    return function(*args, **(kwargs or {}))
            class Take(torch.nn.Module):
                def forward(self, given, *rest, **named):
                    if named.get("fails"): raise KeyError("mine")
                    return given
            class Root(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.take, self.other = Take(), torch.nn.Identity()
                def forward(self, *given, **named):
                    try: return self.take(self.other(given[0]), *given[1:], **named)
                    except KeyError as error: return str(error)
            one = torch.arange(4.0)
            deep = [one]
            for _ in range(12): deep = [deep]
            cache = transformers.DynamicCache()
            cache.update(one.reshape(1, 1, 2, 2), one.reshape(1, 1, 2, 2) + 1, 0)
            m, seen = Root(), []
            m.take.register_forward_hook(lambda module, args, out: seen.append(len(args)))
            values = [one, [one, (one, None)], {"a": one, "b": {"c": 1}}, collections.OrderedDict(a=one), Data(one), (1, 2.5, True),
                      -2**63, 2**63, 1j, "text", "\\ud800", Kind.A, numpy.float64(2), Mine(one), numpy.arange(3), None,
                      torch.float32, deep, [one] * 100, ["x" * 900] * 3, cache, transformers.modeling_outputs.ModelOutput(a=one),
                      one.as_subclass(Tagged), torch.nn.Parameter(one), {}, ()]
            for value in values:
                m.train(len(seen) % 2 == 0)
                for _ in range(4): m(value, "rest", one, flag=value)
                with Counts(): m(value, "rest", one, flag=value)
            for _ in range(4): print(m(one, fails=True))
            signal.signal(signal.SIGUSR1, lambda *_: seen.append("told"))
            m.take.register_forward_pre_hook(lambda module, args: signal.raise_signal(signal.SIGUSR1))
            for _ in range(4): m(one)
            print(seen, Counts.told)
        """)
        taken = [row for row in rows if row.path == "take"]
        groups = [taken[i:i + 5] for i in range(0, 5 * 26, 5)]
        for number, group in enumerate(groups):
            self.assertEqual({(row.inputs, row.outputs, row.unopened, row.training) for row in group[1:]},
                             {(group[0].inputs, group[0].outputs, group[0].unopened, group[0].training)}, number)
        self.assertEqual({group[0].training for group in groups}, {True, False})
        self.assertEqual(len({group[0].inputs for group in groups}), 17)  # nothing and containers say nothing
        failed = taken[5 * 26:5 * 26 + 4]
        self.assertEqual(len({(row.inputs, row.outputs) for row in failed}), 1)
        self.assertEqual(len(taken), 5 * 26 + 8)
        self.assertEqual([each["type"] for each in self.summary["unopened"]], ["__main__.Mine", "builtins.list"])

    def test_outputs_are_read_before_the_next_block_writes(self):
        rows = self.blocks("""
            import torch
            m = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU(inplace=True), torch.nn.Identity())
            show(m(torch.tensor([-1.0, 2.0])))
        """)
        self.assertEqual(rows[0].outputs, rows[1].inputs)
        self.assertNotEqual(rows[1].inputs, rows[1].outputs)
        self.assertEqual(rows[1].outputs, rows[2].inputs)

    def test_caches_of_transformers(self):
        need("transformers")
        rows = self.blocks("""
            import torch, transformers
            torch.manual_seed(0)
            m = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=50)).eval()
            tokens = torch.arange(8)[None]
            with torch.no_grad():
                first = m(tokens, use_cache=True)
                show(m(tokens[:, -1:], past_key_values=first.past_key_values).logits)
        """)
        self.assertEqual(self.summary.get("unopened"), None)
        self.assertTrue(all(row.inputs and row.outputs for row in rows))

    def test_an_exception(self):
        rows = self.blocks("""
            import torch
            class Bad(torch.nn.Module):
                def forward(self, x): raise ValueError("mine")
            m = torch.nn.Sequential(torch.nn.Identity(), Bad())
            for _ in range(2):
                try: m(torch.ones(1))
                except ValueError as error: print(error)
            show(m[0](torch.ones(1)))
        """)
        self.assertEqual(self.paths(rows), ["0", "1", "0", "1", "0"])
        self.assertEqual(rows[1].outputs, rows[3].outputs)  # that class of exceptions
        self.assertNotIn(None, [row.outputs for row in rows])


class Unharmed(Blocks):
    def test_copies_pickles_scripts_and_hooks(self):
        self.blocks("""
            import copy, io, pickle, torch
            torch.manual_seed(0)
            m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
            x = torch.ones(2, 4)
            seen = []
            m[0].register_forward_hook(lambda module, args, out: seen.append(type(module).__name__))
            m(x); m(x)
            print(seen)
            m[0]._forward_hooks.clear()
            copied = copy.deepcopy(m)
            print(sorted(vars(m)) == sorted(vars(torch.nn.Sequential())))
            show(copied(x), pickle.loads(pickle.dumps(m))(x), torch.jit.script(m)(x), torch.jit.trace(m, x)(x))
            file = io.BytesIO()
            torch.save(m, file)
            file.seek(0)
            show(torch.load(file, weights_only=False)(x))
            show(torch.func.functional_call(m, {k: v * 2 for k, v in m.named_parameters()}, (x,)))
            show(torch.vmap(m)(torch.ones(3, 2, 4)))
        """)

    def test_checkpointing(self):
        rows = self.blocks("""
            import torch
            from torch.utils.checkpoint import checkpoint
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()) for _ in range(2))
                def forward(self, x):
                    for n, layer in enumerate(self.layers): x = checkpoint(layer, x, use_reentrant=n == 1)
                    return x
            torch.manual_seed(0)
            m = Net()
            o = torch.optim.SGD(m.parameters(), lr=0.1)
            for _ in range(2):
                o.zero_grad()
                m(torch.ones(2, 4, requires_grad=True)).sum().backward()
                o.step()
            show(*m.parameters())
        """, "--blocks", "2")
        self.assertEqual([(row.path, row.phase) for row in rows if row.step == 1],
                         [("layers.0", "forward"), ("layers.1", "forward"), ("layers.1", "recompute"), ("layers.0", "recompute")])

    def test_threads(self):
        rows = self.blocks("""
            import threading, torch
            torch.manual_seed(0)
            models = [torch.nn.Linear(4, 4) for _ in range(3)]
            def work(n):
                for _ in range(5): models[n](torch.ones(2, 4))
            threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
            for t in threads: t.start()
            for t in threads: t.join()
            show(models[0](torch.ones(2, 4)))
        """)
        self.assertEqual(len(rows), 16)
        self.assertEqual(len({(row.path, row.call) for row in rows}), 16)

    def test_compiled_code(self):
        rows = self.blocks("""
            import torch, torch._dynamo
            torch.manual_seed(0)
            m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
            c = torch.compile(m, backend="aot_eager", fullgraph=True)
            o = torch.optim.SGD(m.parameters(), lr=0.1)
            for _ in range(3):
                c(torch.ones(2, 4)).sum().backward()
                o.step()
            show(*m.parameters())
            print(torch._dynamo.utils.counters["stats"]["unique_graphs"], dict(torch._dynamo.utils.counters["graph_break"]))
        """)
        self.assertEqual([self.paths(rows, step)[0] for step in range(3)], ["compiled.0"] * 3)

    def on_two_ranks(self, text, *flags):
        """The dumps of two ranks that compute what they compute alone."""
        program = self.program(SHOW + textwrap.dedent(text))
        alone = subprocess.run([str(word) for word in on_ranks(2, program)], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        done = self.tool("exec", "--force", "-o", "dump", *FLAGS, *flags, "--", *on_ranks(2, program))
        self.assertEqual((done.code, sorted(done.stdout.splitlines())), (0, sorted(alone.stdout.splitlines())), done.stderr)
        self.assertNotIn("was not recorded", done.stderr)
        for rank in range(2):
            with repro_check.open(self.folder / "dump" / f"rank-{rank}") as dump:
                yield list(dump.blocks()), {row.name for row in dump.parameters()}

    def test_replicas(self):
        for rank, (rows, parameters) in enumerate(self.on_two_ranks("""
            import torch, torch.distributed as dist
            dist.init_process_group("gloo")
            torch.manual_seed(0)
            m = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)))
            o = torch.optim.SGD(m.parameters(), lr=0.1)
            for step in range(3):
                o.zero_grad()
                m(torch.full((2, 4), float(dist.get_rank()))).sum().backward()
                o.step()
            if dist.get_rank() == 0: show(*m.parameters())
            dist.barrier()
            dist.destroy_process_group()
        """)):
            self.assertEqual([row.path for row in rows], ["0", "1"] * 3)
            self.assertEqual(parameters, {"0.weight", "0.bias", "1.weight", "1.bias"})
            self.assertEqual(self.exchanges(rank).count("c10d::allreduce_"), 3)  # of the reducer, which is C++

    def exchanges(self, rank):
        """Operators that exchange, each behind the record that it is entered."""
        kinds = [each["operator"] for each in self.records(f"dump/rank-{rank}")]
        found = [kind for kind in kinds if not kind.startswith("repro_check::")]
        self.assertEqual(kinds.count("repro_check::collective"), len(found))
        return found

    def test_collectives(self):
        list(self.on_two_ranks("""
            import inspect, pickle, torch, torch.distributed as dist, torch.distributed._functional_collectives as functional
            names = [name for name in dir(dist) if inspect.isfunction(getattr(dist, name))]
            held = [getattr(dist, name) for name in names]
            dist.init_process_group("gloo")
            rank = dist.get_rank()
            one = lambda n=4: torch.full((n,), 1.0 + rank)
            results = []
            def note(*tensors): results.extend(t.clone() for t in tensors)
            x = one(); dist.all_reduce(x); note(x)
            x = one(); work = dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True); work.wait(); note(x)
            x = one(8); dist.all_gather_into_tensor(x, one()); note(x)
            gathered = [one(), one()]; dist.all_gather(gathered, one()); note(*gathered)
            x = one(); dist.broadcast(x, 1); note(x)
            x = one(); dist.all_to_all_single(x, one()); note(x)
            x = one(); dist.reduce(x, 0); note(*([x] if rank == 0 else []))
            gathered = [one(), one()] if rank == 0 else None; dist.gather(one(), gathered); note(*(gathered or []))
            x = one(); dist.scatter(x, [one(), one()] if rank == 0 else None); note(x)
            x = one()
            if rank == 0: dist.send(x, 1, tag=7)
            else: dist.recv(x, 0, tag=7); note(x)
            note(functional.all_reduce(one(), "sum", dist.group.WORLD))
            assert [dist.group.WORLD.allreduce([one()]).wait() for _ in range(2)]
            dist.all_gather_object([None, None], "text")
            dist.barrier()
            assert all(getattr(dist, name) is each and pickle.loads(pickle.dumps(each)) is each for name, each in
                       zip(names, held))
            if rank == 0: show(*results)
            else: print(len(results))
            dist.destroy_process_group()
        """))
        wanted = ["allreduce_", "allreduce_", "_allgather_base_", "allgather_", "broadcast_", "alltoall_base_", "reduce_",
                  "gather_", "scatter_"]
        for rank in range(2):
            found = [name.partition("::")[2] for name in self.exchanges(rank)]
            self.assertEqual(found[:9], wanted)
            self.assertEqual(found[9:13], [["send", "recv_"][rank], "all_reduce", "allreduce_", "allreduce_"])
            self.assertEqual(found[-1], "barrier")
        made = [[each["outputs"] for each in self.records(f"dump/rank-{rank}") if each["operator"] == "c10d::allreduce_"]
                for rank in range(2)]
        self.assertEqual([[tensor["digest"] for tensor in each] for each in made[0]],
                         [[tensor["digest"] for tensor in each] for each in made[1]])
        self.assertIsNotNone(made[0][0][0]["digest"])

    def test_collectives_that_nobody_waits_for(self):
        list(self.on_two_ranks("""
            import torch, torch.distributed as dist
            dist.init_process_group("gloo")
            x = torch.full((4,), 1.0 + dist.get_rank())
            work = dist.all_reduce(x, async_op=True)
            work.wait()
            if dist.get_rank() == 0: show(x, torch.nn.Identity()(x))
            dist.barrier()
            dist.destroy_process_group()
        """, "--no-sync"))
        reduced = next(each for each in self.records("dump/rank-0") if each["operator"] == "c10d::allreduce_")
        self.assertIsNotNone(reduced["inputs"][0]["digest"])
        self.assertEqual({tensor["digest"] for tensor in reduced["outputs"]}, {None})

    def test_two_runs_under_torchrun(self):
        """Its own process imports PyTorch and runs no operator of the program's."""
        program = self.program(SHOW + textwrap.dedent("""
            import torch, torch.distributed as dist
            dist.init_process_group("gloo")
            torch.manual_seed(0)
            m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
            o = torch.optim.SGD(m.parameters(), lr=0.1)
            m(torch.full((2, 4), float(dist.get_rank()))).sum().backward()
            o.step()
            dist.barrier()
            dist.destroy_process_group()
        """))
        for name in ("A", "B"):
            done = self.tool("exec", "-o", name, *FLAGS, "--", *with_torchrun(2, program))
            self.assertEqual(done.code, 0, done.stderr)
            self.assertNotIn("was not recorded", done.stderr)
        compared = self.tool("diff", "A", "B")
        self.assertEqual(compared.code, 0, compared.stdout)
        self.assertIn(": outputs, parameters, collectives", compared.stdout.replace("losses, ", ""))

    @unittest.skipUnless(hasattr(torch.distributed, "fsdp") and hasattr(torch.distributed.fsdp, "fully_shard"), "no FSDP2")
    def test_shards(self):
        for rank, (rows, parameters) in enumerate(self.on_two_ranks("""
            import torch, torch.distributed as dist
            from torch.distributed.fsdp import fully_shard
            dist.init_process_group("gloo")
            torch.manual_seed(0)
            m = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(3)])
            for layer in m: fully_shard(layer)
            fully_shard(m)
            o = torch.optim.AdamW(m.parameters())
            for step in range(3):
                o.zero_grad()
                loss = m(torch.full((2, 8), 1.0 + dist.get_rank())).sum()
                loss.backward()
                o.step()
            if dist.get_rank() == 0: show(loss)
            dist.barrier()
            dist.destroy_process_group()
        """)):
            self.assertEqual([row.path for row in rows], ["0", "1", "2"] * 3)
            self.assertEqual(parameters, {f"{n}.{kind}@0:{rank}/2" for n in range(3) for kind in ("weight", "bias")})

    def test_two_runs_are_equal(self):
        text = """
            import torch
            torch.manual_seed(0)
            m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.2))
            def main():
                o = torch.optim.Adam(m.parameters())
                for _ in range(18):
                    o.zero_grad()
                    m(torch.ones(2, 4)).sum().backward()
                    o.step()
            main()
            show(*m.parameters())
        """
        first = [*self.blocks(text), *self.dump.parameters()]
        self.assertEqual([*self.blocks(text), *self.dump.parameters()], first)
        # The optimizer was gone before the program ended.
        self.assertEqual({row.name for row in self.dump.parameters() if row.step == 17}, {"0.weight", "0.bias"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
