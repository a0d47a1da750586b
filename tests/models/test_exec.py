# SPDX-License-Identifier: Apache-2.0
"""`exec`: unchanged Python programs are recorded and compute what they compute alone; what they
print, and how they end, is their own."""
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch")

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ROOT / "examples" / "train.py"
CLEAN = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONPATH")}
# What a person with the same seeds would write at the top of the program.
SEEDED = "import random, sys, torch, runpy; random.seed(0); torch.manual_seed(0); sys.argv = sys.argv[1:];" \
         "runpy.run_path(sys.argv[0], run_name='__main__')"


class Exec(ToolTest):
    def program(self, text, name="program.py"):
        file = self.folder / name
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file

    def exec(self, dump, *command, flags=(), code=0, **options):
        result = self.tool("exec", "-o", dump, *flags, "--", *command, **{"env": CLEAN, **options})
        self.assertEqual(result.code, code, result.stdout[-2000:] + result.stderr[-3000:])
        return result

    def python(self, dump, *arguments, **options):
        return self.exec(dump, sys.executable, *arguments, **options)

    def compare(self, one, other, expected):
        result = self.tool("diff", one, other, "--format", "json")
        self.assertEqual(result.code, expected, result.stdout[:3000] + result.stderr)
        return json.loads(result.stdout)

    def records(self, dump):
        listed = self.tool("inspect", dump, "--list", "--format", "json")
        self.assertEqual(listed.code, 0, listed.stderr)
        return json.loads(listed.stdout)["ops"]


class Training(Exec):
    def test_results_are_those_of_the_bare_program(self):
        bare = subprocess.run([sys.executable, "-c", SEEDED, str(TRAIN)], env=CLEAN, check=True,
                              capture_output=True, text=True, cwd=self.folder)
        for number in range(2):
            self.assertEqual(self.python(f"{number}", TRAIN).stdout, bare.stdout)
        report = self.compare("0", "1", 0)
        self.assert_reproducible(report, 600)
        self.assertEqual(self.tool("verify", "0", "1").code, 0)

    def test_batches_of_worker_processes_in_any_order(self):
        program = self.program("""
            import os, sys, time, torch
            class Data(torch.utils.data.Dataset):
                def __len__(self): return 8
                def __getitem__(self, index):
                    slow = torch.utils.data.get_worker_info().id == int(sys.argv[1])
                    time.sleep(0.3 * slow)
                    return torch.full((3,), float(index))
            for batch in torch.utils.data.DataLoader(Data(), num_workers=2, batch_size=2):
                batch.mul(2)
        """)
        for slow in "01":
            self.python(slow, program, slow)
        records = self.records("0")
        self.assertNotIn("aten::set_", {r["operator"].partition(".")[0] for r in records})
        self.assertEqual(sum(r["operator"] == "repro_check::batch" for r in records), 4)
        self.compare("0", "1", 0)

    def test_modules_of_the_program_named_as_ours_are_its_own(self):
        self.program("print('its own')", "json.py")
        program = self.program("import random; print(random.random()); import json")
        result = self.python("A", program, code=4)
        seeded = random.Random(0).random()
        self.assertEqual(result.stdout, f"{seeded}\nits own\n")

    def test_records_say_where_they_are_from(self):
        self.python("A", TRAIN, "--epochs", "1")
        records = self.records("A")
        by_phase = {}
        for record in records:
            by_phase.setdefault(record["phase"], []).append(record)
        self.assertEqual(set(by_phase), {"setup", "data", "forward", "loss", "backward", "optimizer"})
        self.assertEqual({r["operator"] for r in by_phase["loss"]},
                         {"aten::cross_entropy_loss", "repro_check::loss"})
        self.assertEqual({r["module"] for r in by_phase["forward"]} - {"norm", "head", ""},
                         {"encoder.0", "encoder.1", "encoder.2"})
        linear = [r for r in by_phase["forward"] if r["module"] == "encoder.0"]
        self.assertTrue(linear)
        self.assertEqual({r["module"] for r in by_phase["backward"]} & {"encoder.0", "norm", "head"},
                         {"encoder.0", "norm", "head"})
        steps = [r["step"] for r in records if r["operator"] == "repro_check::optimizer_step"]
        self.assertEqual(steps, [0, 1, 2, 3])
        batches = [r for r in records if r["operator"] == "repro_check::batch"]
        self.assertEqual(len(batches), 4)
        self.assertTrue(all("train.py" in json.dumps(r) for r in batches))

    def test_another_epsilon_is_named_at_its_step_and_line(self):
        operators = ["--optimizer", "operators"]
        self.python("A", TRAIN, flags=operators)
        self.python("B", TRAIN, "--eps", "1e-7", flags=operators)
        first = self.compare("A", "B", 1)["first_divergence"]
        self.assertEqual(first["key"]["operator"], "aten::add_.Tensor")
        self.assertIn("train.py", json.dumps(first))
        self.assertEqual(first["key"]["phase"], "optimizer")
        self.assertEqual(first["relation"], "origin")
        # Of the first step: no gradient of a later one has been computed by then.
        at = first["op_index"]["baseline"]
        self.assertEqual([r["step"] for r in self.records("A") if r["index"] == at], [0])

    def test_clipping_and_loss_scale(self):
        file = self.program("""
            import sys
            import torch
            from torch.nn.utils import clip_grad_norm_
            model = torch.nn.Linear(4, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            for step in range(3):
                optimizer.zero_grad()
                loss = model(torch.ones(3, 4)).sum() * (float("inf") if step == 1 else 1.0)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                norm = clip_grad_norm_(model.parameters(), max_norm=float(sys.argv[1]))
                scaler.step(optimizer)
                scaler.update()
                print(norm.item(), scaler.get_scale())
            """)
        bare = subprocess.run([sys.executable, str(file), "1"], env=CLEAN, check=True,
                              capture_output=True, text=True)
        self.assertEqual(self.python("A", file, "1").stdout, bare.stdout)
        records = self.records("A")
        count = [r["operator"] for r in records].count
        self.assertEqual(count("repro_check::clip_grad"), 3)
        self.assertEqual(count("repro_check::grad_scaler"), 3)
        # The step whose gradients were infinite was skipped.
        self.assertEqual(count("repro_check::optimizer_step"), 2)
        scaler = [r["index"] for r in records if r["operator"] == "repro_check::grad_scaler"][1]
        shown = self.tool("inspect", "A", "--op", str(scaler), "--format", "json")
        self.assertEqual(shown.code, 0, shown.stderr)
        self.assertIn("found_inf[0].cpu", shown.stdout)
        self.assertIn("scale", shown.stdout)
        self.python("B", file, "0.5")
        first = self.compare("A", "B", 1)["first_divergence"]
        self.assertEqual(first["relation"], "origin")
        line = 1 + file.read_text().splitlines().index(next(
            line for line in file.read_text().splitlines() if "norm = clip" in line))
        self.assertIn(f"program.py:{line}", self.tool("diff", "A", "B").stdout)

    def test_a_compiled_region_is_one_record(self):
        file = self.program("""
            import sys
            import torch
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
            run = torch.compile(model, backend="aot_eager")
            optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
            for _ in range(3):
                optimizer.zero_grad()
                loss = run(torch.ones(5, 8)).pow(2).mean()
                loss.backward()
                optimizer.step()
            print(loss.item())
            """)
        bare = subprocess.run([sys.executable, str(file), "0.1"], env=CLEAN, check=True,
                              capture_output=True, text=True)
        recorded = self.python("A", file, "0.1")
        self.assertEqual(recorded.stdout, bare.stdout)
        self.assertNotIn("Warning", recorded.stderr)
        records = self.records("A")
        operators = [r["operator"] for r in records]
        self.assertEqual(operators.count("repro_check::region_inputs"), 3)
        self.assertEqual(operators.count("repro_check::region_outputs"), 3)
        # What the compiler ran on tensors without contents is not there.
        first = operators.index("repro_check::region_inputs")
        self.assertEqual(operators[first - 1], "aten::ones")
        self.assertLess(len(records), 200)
        self.python("B", file, "0.1")
        self.assert_reproducible(self.compare("A", "B", 0), 60)
        self.python("C", file, "0.2")
        self.assertEqual(self.compare("A", "C", 1)["first_divergence"]["key"]["phase"], "optimizer")

    def test_seeds_from_outside(self):
        file = self.program("""
            import random
            import torch
            print(random.random(), torch.rand(2).tolist(), hash("a"))
            try:
                import numpy
                print(numpy.random.rand(), numpy.random.default_rng().random())
            except ImportError:
                pass
            """)
        first, second = (self.python(name, file).stdout for name in "AB")
        self.assertEqual(first, second)
        self.compare("A", "B", 0)
        other = self.python("C", file, flags=["--seed", "7"]).stdout
        self.assertNotEqual(first, other)
        self.compare("A", "C", 1)
        self.assertNotEqual(self.python("D", file, flags=["--no-seed"]).stdout,
                            self.python("E", file, flags=["--no-seed"]).stdout)
        self.compare("D", "E", 1)

    def test_determinism_sets_and_takes_away_what_run_does(self):
        show = "import os, torch; torch.ones(2); print(os.environ.get('NVIDIA_TF32_OVERRIDE'), " \
               "os.environ.get('TORCH_ALLOW_TF32_CUBLAS_OVERRIDE'))"
        env = {**CLEAN, "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
        self.assertEqual(self.python("A", "-c", show, env=env).stdout, "None 1\n")
        kept = self.python("B", "-c", show, flags=["--determinism", "error"], env=env)
        self.assertEqual(kept.stdout, "0 None\n")

    def test_memory_that_python_fills_is_no_finding(self):
        file = self.program("""
            import torch
            total = torch.zeros(())
            for number in range(50):
                total += torch.tensor([float(number % 3), 0.0]).detach().sum()
            print(total.item())
            """)
        for name in "ABC":
            self.python(name, file)
        self.compare("A", "B", 0)
        self.compare("A", "C", 0)

    def test_threads_keep_their_lanes(self):
        file = self.program("""
            import threading
            import torch
            results = {}
            def work(number):
                torch.set_num_threads(1)
                x = torch.full((8,), float(number))
                for _ in range(20):
                    x = torch.sin(x) + 1
                results[number] = x.sum().item()
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            print(sorted(results.items()))
            """)
        for number in range(4):
            self.python(f"{number}", file)
        for number in range(1, 4):
            self.assert_reproducible(self.compare("0", f"{number}", 0), 150)

    def test_one_openmp_and_one_libtorch_in_the_process(self):
        file = self.program("""
            import torch
            torch.ones(4).sum()
            maps = open("/proc/self/maps").read().split()
            for kind in ("libgomp", "libtorch_cpu", "libc10.so", "libhdf5"):
                print(kind, len({path for path in maps if kind in path}))
            """)
        out = self.python("A", file).stdout
        self.assertEqual(out.split("\n")[:4],
                         ["libgomp 1", "libtorch_cpu 1", "libc10.so 1", "libhdf5 0"])


class HowItEnds(Exec):
    def test_exit_code_output_and_directory_are_the_programs(self):
        file = self.program("""
            import os, sys, torch
            torch.ones(2).sum()
            print(os.getcwd(), sys.argv[1:], sys.stdin.read())
            print("to stderr", file=sys.stderr)
            sys.exit(7)
            """)
        result = self.python("A", file, "--flag", "-x", code=7, input="given")
        self.assertEqual(result.stdout, f"{self.folder.resolve()} ['--flag', '-x'] given\n")
        self.assertIn("to stderr", result.stderr)
        self.assertEqual(self.tool("verify", "A").code, 0)

    def test_an_uncaught_exception(self):
        file = self.program("""
            import torch
            torch.ones(2).sum()
            raise KeyError("mine")
            """)
        result = self.python("A", file, code=1)
        self.assertIn("KeyError: 'mine'", result.stderr)
        self.assertNotIn("repro_check_attach", result.stderr)
        self.assertEqual(self.tool("verify", "A").code, 0)

    def test_os_exit(self):
        file = self.program("""
            import os, torch
            torch.ones(2).sum()
            os._exit(3)
            """)
        self.python("A", file, code=3)
        self.assertEqual(self.tool("verify", "A").code, 0)

    def test_killed_in_the_middle(self):
        file = self.program("""
            import os, signal, torch
            x = torch.ones(2)
            for _ in range(5): x = torch.sin(x)
            os.kill(os.getpid(), signal.SIGKILL)
            """)
        result = self.python("A", file, code=-signal.SIGKILL)
        self.assertIn("did not come to its end", result.stderr)
        self.assertIn("aten::sin", result.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["A", "program.py"])
        self.assertEqual(len([r for r in self.records("A") if r["operator"] == "aten::sin"]), 5)

    def test_a_program_that_hangs(self):
        file = self.program("""
            import time, torch
            torch.cos(torch.ones(2))
            time.sleep(1000)
            """)
        result = self.python("A", file, flags=["--timeout", "15"], code=5)
        self.assertIn("killed after 15 s", result.stderr)
        self.assertIn("aten::cos", result.stderr)

    def test_nothing_to_record(self):
        for command in (["true"], [sys.executable, "-c", "print(1)"],
                        [sys.executable, "-I", "-c", "import torch; torch.ones(2)"]):
            with self.subTest(command=command):
                result = self.exec("A", *command, code=4)
                self.assertIn("nothing was recorded", result.stderr)
                self.assertFalse((self.folder / "A").exists())
        self.exec("A", sys.executable, "-c", "raise SystemExit(9)", code=9)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_program_that_cannot_be_started(self):
        result = self.exec("A", "no-such-program", code=2)
        self.assertIn("cannot start no-such-program", result.stderr)

    def test_a_dump_that_is_there(self):
        self.python("A", "-c", "import torch; torch.ones(2)")
        result = self.python("A", "-c", "import torch; torch.ones(2)", code=2)
        self.assertIn("--force", result.stderr)
        self.python("A", "-c", "import torch; torch.zeros(3)", flags=["--force"])
        self.assertEqual([r["operator"] for r in self.records("A")], ["aten::zeros"])

    def test_a_torch_of_another_release(self):
        fake = self.folder / "fake" / "torch"
        fake.mkdir(parents=True)
        (fake / "__init__.py").write_text("__version__ = '9.9.1'\n")
        result = self.exec("A", sys.executable, "-c", "import torch; print(torch.__version__)", code=4,
                           env={**CLEAN, "PYTHONPATH": str(fake.parent)})
        self.assertEqual(result.stdout, "9.9.1\n")
        self.assertIn("no probe fits it", result.stderr)

    def test_children(self):
        file = self.program("""
            import multiprocessing, os, subprocess, sys, torch
            def child(queue): queue.put(torch.ones(3).sum().item())
            if __name__ == "__main__":
                torch.sin(torch.ones(2))
                for how in ("fork", "spawn"):
                    context = multiprocessing.get_context(how)
                    queue = context.Queue()
                    process = context.Process(target=child, args=(queue,))
                    process.start()
                    print(how, queue.get())
                    process.join()
                subprocess.run(["bash", "-c", "echo bash"], check=True)
                pid = os.fork()
                if pid == 0: os._exit(0)
                os.waitpid(pid, 0)
                torch.cos(torch.ones(2))
            """)
        result = self.python("A", file)
        self.assertEqual(sorted(result.stdout.split("\n")), ["", "bash", "fork 3.0", "spawn 3.0"])
        self.assertIn("1 further process ran operators too", result.stderr)
        self.assertEqual([r["operator"] for r in self.records("A")][-1], "aten::cos")

    def test_the_programs_own_sitecustomize_runs(self):
        place = self.folder / "mine"
        place.mkdir()
        (place / "sitecustomize.py").write_text("import sys\nsys.mine = 5\n")
        result = self.python("A", "-c", "import sys, torch; torch.ones(2); print(sys.mine)",
                             env={**CLEAN, "PYTHONPATH": str(place)})
        self.assertEqual(result.stdout, "5\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
