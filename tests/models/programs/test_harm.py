# SPDX-License-Identifier: Apache-2.0
"""A program that is recorded does what it does alone: what it prints, raises, keeps and finds in its process."""
import json
import os
import re
import subprocess
import sys
import unittest

from harness import need, on_ranks

need("torch")

from programs.test_exec import CLEAN, Exec

# What is known of a function without calling it.
DESCRIBE = """
    import copy, functools, importlib, inspect, json, os, pickle, sys
    import concurrent.futures.thread, glob, multiprocessing.pool, random, time, uuid
    import numpy, torch, torch.distributed, torch.nn.parallel, torch.utils.data, torch.distributed.tensor
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    if "--compile" in sys.argv:
        import torch._dynamo

    def attempt(make):
        try:
            return make()
        except Exception as error:
            return type(error).__name__

    def described(function):
        of_object = inspect.ismethod(function)  # whose pickle holds the state of the object
        pickled = [attempt(lambda: pickle.dumps(function, protocol)) for protocol in range(6)]
        return {
            "class": type(function).__name__, "is": [name for name, test in vars(inspect).items()
                                                     if name.startswith("is") and attempt(lambda: test(function))],
            "pickled": not of_object and [str(each) for each in pickled],
            "again": not of_object and [attempt(lambda: pickle.loads(each) is function) for each in pickled],
            "copied": [copy.copy(function) is function, copy.deepcopy(function) is function],
            "signature": attempt(lambda: str(inspect.signature(function))),
            "spec": attempt(lambda: str(inspect.getfullargspec(function))),
            "source": attempt(lambda: inspect.getsource(function)),
            "names": [str(getattr(function, name, None)) for name in ("__name__", "__qualname__", "__module__", "__doc__")],
            "own": sorted(getattr(function, "__dict__", {})),
            "partial": not of_object and str(attempt(lambda: pickle.dumps(functools.partial(function, 1)))),
            "wrapped": functools.wraps(function)(lambda: None).__name__ if hasattr(function, "__name__") else None,
            "compared": [function == function, function != function, {function: 1}.get(function)],
        }

    def found(module, path, name):
        owner = functools.reduce(getattr, path.split(".") if path else [], importlib.import_module(module))
        return getattr(owner, name)

    file = sys.argv[1]
    if os.environ.get("REPRO_CHECK_EXEC"):
        from repro_check_hooks import hooks
        names = [(owner.__name__, "", name) if inspect.ismodule(owner) else (owner.__module__, owner.__qualname__, name)
                 for owner, name in hooks.watched if not isinstance(owner, property)]
    else:
        names = json.load(open(file))["names"]
    functions = {".".join(each): described(found(*each)) for each in names}
    json.dump({"names": names, "functions": functions}, open(file if "REPRO_CHECK_EXEC" in os.environ else file + "2", "w"))
"""


class Harm(Exec):
    def bare(self, *arguments):
        done = subprocess.run([sys.executable, *map(str, arguments)], env=CLEAN, capture_output=True, text=True,
                              cwd=self.folder)
        return done.returncode, done.stdout, done.stderr

    def recorded(self, *arguments, flags=()):
        done = self.tool("exec", "--force", "-o", "dump", *flags, "--", sys.executable, *arguments, env=CLEAN)
        own = [line for line in done.stderr.splitlines(True) if not line.startswith(("repro-check:", "  "))]
        self.said = done.stderr
        return done.code, done.stdout, "".join(own) if done.code == 0 else done.stderr

    def both(self, text, *flags):
        """What the program prints, the same with and without a recording."""
        program = self.program(text)
        bare, recorded = self.bare(program), self.recorded(program, flags=flags)
        self.assertEqual(bare[0], recorded[0], bare[2] + recorded[2])
        self.assertEqual(bare[1], recorded[1], recorded[2])
        return bare[1]


class Functions(Harm):
    def test_what_is_watched_is_as_it_was(self):
        program = self.program(DESCRIBE)
        for flags, own in (("--checkpoints", "--workers"), ()), (("--depth", "blocks"), ("recv",)):
            code, _, errors = self.recorded(program, "functions", "--compile", flags=flags)
            self.assertEqual(code, 4 if own else 0, errors)  # it calls no module
            self.assertNotIn("not everything was recorded", self.said)
            code, _, errors = self.bare(program, "functions", "--compile")
            self.assertEqual(code, 0, errors)
            with_hooks = json.loads((self.folder / "functions").read_text())["functions"]
            alone = json.loads((self.folder / "functions2").read_text())["functions"]
            self.assertGreater(len(alone), 60)
            self.assertLessEqual({f"torch.distributed.distributed_c10d..{name}" for name in own}, set(alone))
            for name, expected in alone.items():
                with self.subTest(name, flags=flags):
                    self.assertEqual(with_hooks[name], expected)

    def test_what_a_program_keeps_of_functions(self):
        self.assertEqual(self.both("""
            import time, torch
            class Clock:
                now = time.time  # no method: a function in C is bound to nothing
            class Kept(torch.Tensor):
                seen = {torch.Tensor.tolist: "tolist", torch.as_tensor: "as_tensor"}
                @classmethod
                def __torch_function__(cls, function, types, args=(), kwargs=None):
                    if function in (torch.Tensor.tolist,): print(cls.seen[function], function is torch.Tensor.tolist)
                    return super().__torch_function__(function, types, args, kwargs or {})
            print(type(Clock().now()).__name__)
            torch.ones(2).as_subclass(Kept).tolist()
            print(torch._C._VariableFunctions.as_tensor is torch.as_tensor)
        """), "float\ntolist True\nTrue\n")

    def test_pools_and_loaders_that_are_spawned(self):
        self.both("""
            import numpy, torch
            from concurrent.futures import ProcessPoolExecutor
            class Samples(torch.utils.data.Dataset):
                def __init__(self): self.transform = torch.from_numpy
                def __len__(self): return 2
                def __getitem__(self, index): return self.transform(numpy.ones(1, dtype="float32"))
            if __name__ == "__main__":
                with ProcessPoolExecutor(1) as pool:
                    print(type(next(pool.map(numpy.random.default_rng, [1]))).__name__)
                print(next(iter(torch.utils.data.DataLoader(Samples(), num_workers=1,
                                                            multiprocessing_context="spawn"))))
        """)


class Raised(Harm):
    def test_what_signal_handlers_raise(self):
        self.assertEqual(self.both("""
            import signal, sys, torch
            class TimeUp(Exception): pass
            fired = reached = 0
            def stop(number, frame):
                global fired
                fired += 1
                assert "repro_check" not in frame.f_code.co_filename, frame
                raise TimeUp
            before = signal.signal(signal.SIGALRM, stop)
            print(before, signal.getsignal(signal.SIGALRM) is stop,
                  signal.getsignal(signal.SIGINT) is signal.default_int_handler)
            parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(60)]
            for each in parameters: each.grad = torch.ones(2)
            optimizer = torch.optim.SGD(parameters, lr=0.1)
            model = torch.nn.Sequential(*[torch.nn.Identity() for _ in range(20)])
            optimizer.step()
            for turn in range(40):
                last = fired
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.01 + turn * 0.0005)
                    while fired == last:
                        optimizer.step()
                        model(parameters[0])
                except TimeUp:
                    reached += 1
            print(fired, reached)
            optimizer.step()
        """), "0 True True\n40 40\n")

    def test_interrupts_and_ends(self):
        self.both("""
            import os, signal, threading, torch
            model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(10)])
            optimizer = torch.optim.Adam(model.parameters())
            caught = 0
            for turn in range(10):
                timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                try:
                    while True:
                        model(torch.ones(1, 2)).sum().backward()
                        optimizer.step()
                except KeyboardInterrupt:
                    caught += 1
                timer.join()
            print(caught)
            def leave(*_): raise SystemExit(6)
            signal.signal(signal.SIGALRM, leave)
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            while True: optimizer.step()
        """)

    def test_tracebacks_and_depth(self):
        printed = self.both("""
            import traceback, torch
            from concurrent.futures import ThreadPoolExecutor
            from multiprocessing.pool import ThreadPool
            def fail(*_): raise ValueError("of the program")
            class Broken(torch.nn.Module):
                def forward(self, x): fail()
            class Samples(torch.utils.data.Dataset):
                def __len__(self): return 2
                def __getitem__(self, index): fail()
            def show(work):
                try: work()
                except Exception: print(traceback.format_exc())
            x = torch.ones(2, requires_grad=True)
            parameter = torch.nn.Parameter(torch.ones(2))
            optimizer = torch.optim.SGD([parameter], lr=0.1)
            show(lambda: torch.nn.Sequential(Broken())(x))
            show(lambda: (x * 2).backward())
            show(lambda: optimizer.step(fail))
            try: torch.nn.utils.clip_grad_norm_((fail() for _ in range(2)), 1.0)
            except ValueError: print("repro_check" in traceback.format_exc())
            show(lambda: torch.nn.utils.clip_grad_norm_())
            show(lambda: list(torch.utils.data.DataLoader(Samples())))
            show(lambda: torch.from_numpy(1))
            show(lambda: torch.load("nowhere"))
            show(lambda: list(ThreadPoolExecutor(1).map(fail, [1])))
            show(lambda: ThreadPool(1).map(fail, [1]))
            show(lambda: torch.manual_seed(fail))
        """, "--checkpoints")
        self.assertIn("of the program", printed)

    def test_depth_of_nested_modules(self):
        program = self.program("""
            import torch
            class Nested(torch.nn.Module):
                def forward(self, deep):
                    global deepest
                    deepest = deep
                    return self(deep + 1)
            try: Nested()(0)
            except RecursionError: print(deepest)
            torch.ones(1)
        """)
        bare, recorded = int(self.bare(program)[1]), int(self.recorded(program)[1])
        self.assertGreaterEqual(recorded, 0.95 * bare)


class Process(Harm):
    def test_what_dies_when_it_is_let_go(self):
        self.assertEqual(self.both("""
            import gc, weakref, torch
            class Big: pass
            parameter = torch.nn.Parameter(torch.zeros(2))
            parameter.grad = torch.ones(2)
            optimizer = torch.optim.SGD([parameter], lr=0.1)
            class Trainer:
                def step(self):
                    big = Big()
                    alive = weakref.ref(big)
                    optimizer.step()
                    del big
                    print(alive() is None)
                    loss = (parameter * 2).sum()
                    alive = weakref.ref(loss)
                    loss.backward()
                    del loss
                    print(alive() is None)
            Trainer().step()
            model = torch.nn.Linear(2, 2)
            model(torch.ones(2))
            alive = weakref.ref(model)
            del model
            print(alive() is None)
        """), "True\nTrue\nTrue\n")

    def test_what_a_program_finds_in_its_process(self):
        self.both("""
            import gc, locale, os, random, signal, sys, threading, warnings
            import torch
            for _ in range(2):
                print(sorted(os.readlink(f"/proc/self/fd/{each}").partition(":")[0]
                             for each in os.listdir("/proc/self/fd") if int(each) > 2
                             if os.path.lexists(f"/proc/self/fd/{each}")))
                print(warnings.filters)
                print(threading.active_count(), gc.callbacks, sys.gettrace(), sys.getprofile(), gc.isenabled())
                print(os.getcwd(), os.umask(0o27), signal.pthread_sigmask(signal.SIG_BLOCK, []))
                print([signal.getsignal(each) for each in signal.valid_signals()])
                print(sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook)
                print(sys.getrecursionlimit(), sys.flags, sys.argv, locale.setlocale(locale.LC_ALL))
                print(torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(),
                      len(torch.nn.modules.module._global_forward_hooks), sorted(vars(torch.nn.Linear(1, 1))))
                state = torch.get_rng_state().sum().item(), random.getstate()[1][0]
                torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1).step()
                print(state == (torch.get_rng_state().sum().item(), random.getstate()[1][0]))
                opened = os.open("/dev/null", os.O_RDONLY)
                print(opened)
        """, "--no-seed")

    def test_calls_that_are_traced(self):
        self.both("""
            import cProfile, pstats, sys, torch
            model, parameter = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.ones(2))
            parameter.grad = torch.ones(2)
            optimizer = torch.optim.SGD([parameter], lr=0.1)
            seen = []
            def own(frame, event, _argument):
                if "torch/nn/modules" in frame.f_code.co_filename: seen.append((event, frame.f_code.co_name))
            sys.setprofile(own)
            model(torch.ones(2))
            sys.setprofile(None)
            print(seen)
        """)


class Descriptors(Harm):
    def test_a_program_that_closes_what_it_has_not_opened(self):
        self.assertEqual(self.both("""
            import os, sys, torch
            torch.ones(2).sum()
            os.closerange(3, 256)
            os.makedirs("results", exist_ok=True)
            files = [open(f"results/{number}", "w+b", buffering=0) for number in range(8)]
            for file in files: file.write(b"R" * 500_000)
            x, big = torch.zeros(8), torch.zeros(5000)
            for number in range(6000): x = x + 1
            for number in range(50): big = big + 1
            child = os.fork()
            if child == 0:
                os.closerange(3, 256)
                torch.ones(2)
                os._exit(0)
            os.waitpid(child, 0)
            for number in range(3, 9): os.dup2(1, number)
            for number in range(100): big = big + 1
            print([os.path.getsize(file.name) for file in files],
                  {open(file.name, "rb").read().count(b"R") for file in files}, x.sum().item())
        """, "--level", "tensor"), f"{[500000] * 8} {{500000}} 48000.0\n")
        self.assertGreater(len(self.records("dump")), 6000)
        self.assertEqual(self.tool("verify", "dump").code, 0)

    def test_a_journal_that_is_cut_from_outside(self):
        for code in (0, 3):
            program = self.program(f"""
                import os, sys, torch
                torch.ones(2).sum()
                journal = os.path.join(os.path.dirname(os.environ["REPRO_CHECK_EXEC"]), str(os.getpid()), "journal.bin")
                os.truncate(journal, 16)
                x = torch.zeros(8)
                for number in range(3000): x = x + 1
                print(x.sum().item(), flush=True)
                sys.exit({code})
            """)
            ended, printed, errors = self.recorded(program)
            self.assertEqual(printed, "24000.0\n", errors)
            self.assertEqual(ended, code or 4, errors)  # nothing is left of it


class Ends(Harm):
    LATE = """
        import os, sys, torch
        torch.ones(3).sum()
        os.makedirs("dump", exist_ok=True)
        open("dump/mine.txt", "w").write("of the program")
        print("ran")
        sys.exit(int(sys.argv[1]))
    """

    def test_a_dump_that_cannot_be_made(self):
        program = self.program(self.LATE)
        for code, expected in ((0, 5), (7, 7)):
            ended, printed, said = self.recorded(program, code)
            self.assertEqual((ended, printed), (expected, "ran\n"), said)
            kept = re.search(r"repro-check recover (\S+) -o DIR", said)
            self.assertTrue(kept, said)
            recovered = self.tool("recover", kept[1], "-o", f"recovered-{code}")
            self.assertEqual(recovered.code, 0, recovered.stderr)
            self.assertEqual(self.records(f"recovered-{code}")[-1]["operator"], "aten::sum")
            (self.folder / "dump" / "mine.txt").unlink()
            (self.folder / "dump").rmdir()

    def test_what_can_be_refused_is_refused_before_the_program(self):
        program = self.program("open('started', 'w'); import torch; torch.ones(1)")
        (self.folder / "dump").mkdir()
        (self.folder / "dump" / "notes.txt").write_text("mine")
        self.assertEqual(self.recorded(program)[0], 2)
        self.assertEqual(self.recorded(*on_ranks(2, program)[1:])[0], 2)
        self.assertFalse((self.folder / "started").exists())
        self.assertEqual(os.listdir(self.folder / "dump"), ["notes.txt"])

    def test_nothing_recorded(self):
        for code, expected in ((0, 4), (3, 3)):
            self.assertEqual(self.recorded(self.program(f"import sys; sys.exit({code})"))[0], expected)

    def test_ranks_of_which_no_dump_can_be_made(self):
        program = self.program("""
            import os, torch, torch.distributed as dist
            dist.init_process_group("gloo")
            torch.full((3,), float(dist.get_rank())).sum()
            if dist.get_rank() == 0:
                os.makedirs("dump", exist_ok=True)
                open("dump/mine.txt", "w").write("of the program")
            dist.barrier()
            dist.destroy_process_group()
        """)
        ended, _, said = self.recorded(*on_ranks(2, program)[1:])
        self.assertEqual(ended, 5, said)
        kept = re.search(r"repro-check recover (\S+) -o DIR", said)
        self.assertTrue(kept, said)
        recovered = self.tool("recover", kept[1], "-o", "recovered")
        self.assertEqual(recovered.code, 0, recovered.stderr)
        self.assertEqual(self.tool("verify", "recovered").code, 0)
        self.assertEqual(sorted(each.name for each in (self.folder / "recovered").glob("rank-*")),
                         ["rank-0", "rank-1"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
