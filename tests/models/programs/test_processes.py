# SPDX-License-Identifier: Apache-2.0
"""Other processes of a program: what they compute is recorded and compared as well, and one that used PyTorch without
being recorded keeps the comparison from being a pass."""
import json
import shutil
import sys
import unittest

from harness import need

need("torch")

from programs.test_exec import CLEAN, Exec

CHILD = """
import sys, torch
torch.manual_seed(0)
print(torch.nn.Linear(4, 4)(torch.ones(2, 4) * float(sys.argv[1])).sum().item())
"""


class Processes(Exec):
    def processes(self, dump):
        manifest = json.loads((self.folder / dump / "manifest.json").read_text(encoding="utf-8"))
        return [(each["name"], each["how"], each["recorded"]) for each in manifest.get("processes", [])]

    def record(self, dump, file, *arguments, **options):
        return self.python(dump, file, *arguments, **options)

    def assert_child_parts(self, one, other):
        report = self.compare(one, other, 1)
        self.assertEqual(report["runs"][0]["dump"], f"{one}/proc-1")
        self.assertIn("proc-1 (", json.dumps(report["warnings"]))
        return report


class Pools(Processes):
    """Which worker takes which task is a race, and a pool that is left ends its workers by a signal."""

    def pool(self, task, maker, leave):
        return self.program(f"""
            import multiprocessing, random, time, torch
            from concurrent.futures import ProcessPoolExecutor
            def work(n):
                time.sleep(random.random() / 20)
                return {task}.item()
            if __name__ == "__main__":
                torch.manual_seed(0)
                torch.ones(2).sum()
                pool = {maker}
                print(list(pool.map(work, range(1, 9))))
                {leave}
            """)

    def test_tasks_in_any_order(self):
        for maker, leave in (("multiprocessing.get_context('fork').Pool(2)", "pool.terminate(); pool.join()"),
                             ("multiprocessing.get_context('spawn').Pool(2)", "pool.close(); pool.join()"),
                             ("ProcessPoolExecutor(2, multiprocessing.get_context('fork'))", "pool.shutdown()")):
            with self.subTest(maker):
                file = self.pool("(torch.ones(n) * n).square().sum()", maker, leave)
                for dump in ("A", "B"):
                    self.record(dump, file)
                same = self.compare("A", "B", 0)
                self.assertIn("pools-equal", [each["id"] for each in same["findings"]])
                for dump in ("A", "B"):
                    shutil.rmtree(self.folder / dump)

    def test_a_task_that_differs(self):
        file = self.pool("(torch.ones(n) * (time.time() % 1)).sum()",
                         "multiprocessing.get_context('fork').Pool(1)", "pool.terminate(); pool.join()")
        for dump in ("A", "B"):
            self.record(dump, file)
        report = self.compare("A", "B", 1)
        self.assertEqual(report["first_divergence"]["key"]["operator"], "aten::mul.Tensor")

    def test_a_process_that_the_program_stops(self):
        file = self.program("""
            import multiprocessing, sys, time, torch
            def serve(queue):
                while True:
                    queue.put((torch.ones(3) * float(sys.argv[1])).sum().item())
                    time.sleep(0.01)
            if __name__ == "__main__":
                context = multiprocessing.get_context("fork")
                queue = context.Queue()
                server = context.Process(target=serve, args=(queue,), daemon=len(sys.argv) > 2)
                server.start()
                torch.ones(2).sum()
                print(queue.get(), queue.get())
                if len(sys.argv) == 2:
                    server.kill()
                    server.join()
            """)
        for dump, arguments in (("A", "1"), ("B", "1"), ("C", "2"), ("D", "1 daemon"), ("E", "1 daemon")):
            self.record(dump, file, *arguments.split())
        for one, other in (("A", "B"), ("D", "E")):
            same = self.compare(one, other, 0)
            self.assertIn("process-stopped", [each["id"] for each in same["findings"]])
        self.assert_child_parts("A", "C")


class Forked(Processes):
    def test_a_child_of_multiprocessing(self):
        file = self.program("""
            import multiprocessing, sys, torch
            def work():
                torch.manual_seed(0)
                model = torch.nn.Linear(4, 4)
                model(torch.ones(2, 4) * float(sys.argv[1])).sum().backward()
            if __name__ == "__main__":
                torch.ones(2).sum()
                child = multiprocessing.get_context("fork").Process(target=work)
                child.start()
                child.join()
                sys.exit(child.exitcode)
            """)
        for dump, value in (("A", 1), ("B", 1), ("C", 2)):
            self.record(dump, file, str(value))
        self.assertEqual(self.processes("A"), [("proc-1", "ForkProcess-1", True)])
        same = self.compare("A", "B", 0)
        self.assertIn("proc-1 (ForkProcess-1) reproducible", json.dumps(same["warnings"]))
        parts = self.assert_child_parts("A", "C")
        self.assertEqual(parts["first_divergence"]["key"]["operator"], "aten::mul.Tensor")
        self.assertEqual(parts["first_divergence"]["source"]["line"], 6)
        # What a dump is taken for otherwise.
        self.assertEqual(self.tool("verify", "A").stdout.count("VERIFIED"), 2)
        self.assertIn("ForkProcess-1", self.tool("inspect", "A").stdout)
        self.assertEqual(self.tool("pack", "A").code, 0)
        self.assertEqual(self.tool("unpack", "A.tar.zst", "-o", "D").code, 0)
        self.compare("A", "D", 0)
        shutil.rmtree(self.folder / "D" / "proc-1")
        self.assertEqual(self.compare("A", "D", 3)["verdict"]["exit_code"], 3)
        self.record("A", file, "1", flags=["--force"])
        self.compare("A", "B", 0)

    def test_a_plain_fork_and_its_child(self):
        file = self.program("""
            import os, sys, torch
            torch.manual_seed(3)
            def child(depth):
                if os.fork() == 0:
                    torch.rand(3) * float(sys.argv[1])
                    if depth > 0: child(depth - 1)
                    os._exit(0)
                os.wait()
            torch.rand(3)
            child(1)
            print(torch.rand(1).item())
            """)
        self.assertEqual(self.record("A", file, "1").stdout, self.record("B", file, "1").stdout)
        self.assertEqual(self.processes("A"), [("proc-1", "fork at program.py:5", True),
                                               ("proc-2", "fork at program.py:5", True)])
        # It goes on with the generator of its parent.
        self.assertEqual([each["operator"] for each in self.records("A/proc-1")][:2], ["aten::rand", "aten::mul.Tensor"])
        self.compare("A", "B", 0)
        self.record("C", file, "2")
        self.assert_child_parts("A", "C")

    def test_a_child_that_computes_on_several_threads(self):
        file = self.program("""
            import os, torch
            child = os.fork()
            if child == 0:
                torch.ones(3000000).sum()
                os._exit(0)
            os.waitpid(child, 0)
            torch.ones(2).sum()
            """)
        self.record("A", file, timeout=120)
        self.assertEqual(self.processes("A"), [("proc-1", "fork at program.py:3", True)])

    def test_a_child_that_only_starts_another_program(self):
        file = self.program("""
            import os, subprocess, torch
            torch.ones(2).sum()
            subprocess.run(["true"], preexec_fn=lambda: None, check=True)
            if os.fork() == 0: os.execvp("true", ["true"])
            os.wait()
            """)
        self.record("A", file)
        self.assertEqual(self.processes("A"), [])

    def test_ranks_that_are_forked(self):
        file = self.program("""
            import os, socket, torch, torch.distributed as dist, torch.multiprocessing as mp
            def work(rank, port):
                os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
                dist.init_process_group("gloo", rank=rank, world_size=2)
                torch.manual_seed(0)
                model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                torch.manual_seed(rank)
                for step in range(2):
                    model(torch.randn(3, 4)).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
                dist.barrier()
                dist.destroy_process_group()
            if __name__ == "__main__":
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    port = free.getsockname()[1]
                mp.start_processes(work, (port,), nprocs=2, start_method="fork")
            """)
        self.record("A", file)
        self.assertEqual(sorted(path.name for path in (self.folder / "A").iterdir()),
                         ["rank-0", "rank-1", "ranks.json"])
        self.assertEqual(self.tool("ranks", "A").code, 0)

    def test_workers_of_loaders_are_no_processes(self):
        file = self.program("""
            import sys, torch
            class Data(torch.utils.data.Dataset):
                def __len__(self): return 4
                def __getitem__(self, index): return torch.ones(2) * index
            if __name__ == "__main__":
                loader = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context=sys.argv[1])
                print(sum(batch.sum().item() for batch in loader))
            """)
        for how in ("fork", "spawn"):
            self.record(how, file, how)
            self.assertEqual(self.processes(how), [])


class Started(Processes):
    def test_a_child_that_trains(self):
        child = self.program(CHILD, "child.py")
        file = self.program(f"""
            import os, subprocess, sys, torch
            torch.ones(2).sum()
            count = int(open("count").read()) if os.path.exists("count") else 0
            open("count", "w").write(str(count + 1))
            subprocess.run([sys.executable, {str(child)!r}, "1"], check=True)
            subprocess.run([sys.executable, {str(child)!r}, str(count * int(sys.argv[1]))], check=True)
            """)
        report = self.run_config(1, program={"command": [sys.executable, str(file), "1"]})
        self.assertIn("/proc-", report["runs"][0]["dump"])
        (self.folder / "count").unlink()
        self.record("A", file, "0")
        self.record("B", file, "0")
        self.assertEqual([how for _, how, _ in self.processes("A")], ["exec", "exec"])
        self.compare("A", "B", 0)

    def test_one_run_alone_has_it(self):
        child = self.program(CHILD, "child.py")
        file = self.program(f"""
            import subprocess, sys, torch
            torch.ones(2).sum()
            if sys.argv[1] == "1": subprocess.run([sys.executable, {str(child)!r}, "1"], check=True)
            """)
        for dump in "01":
            self.record(dump, file, dump)
        report = self.compare("0", "1", 4)
        self.assertEqual(report["verdict"]["status"], "not_comparable")
        self.assertIn("child.py", json.dumps(report["verdict"]["reasons"]))

    def test_one_that_is_not_reached(self):
        file = self.program("""
            import subprocess, sys, torch
            torch.ones(2).sum()
            subprocess.run([sys.executable, "-I", "-c", "import torch; torch.ones(7)"], check=True)
            """)
        for dump in "AB":
            self.record(dump, file)
        self.assertEqual([recorded for _, _, recorded in self.processes("A")], [False])
        report = self.compare("A", "B", 4)
        self.assertIn("import torch; torch.ones(7)", json.dumps(report["verdict"]["reasons"]))
        for dump in "CD":
            self.record(dump, file, flags=["--processes", "main"])
        report = self.compare("C", "D", 0)
        self.assertIn("one process", self.tool("diff", "C", "D").stdout)

    def test_one_that_a_library_forks(self):
        file = self.program("""
            import ctypes, os, torch
            torch.ones(2).sum()
            child = ctypes.PyDLL(None).fork()
            if child == 0:
                torch.ones(5).sum()
                os._exit(0)
            os.waitpid(child, 0)
            """)
        for dump in "AB":
            self.record(dump, file)
        self.compare("A", "B", 4)

    def test_a_program_that_another_one_replaces(self):
        file = self.program("""
            import os, sys, torch
            print((torch.ones(3) * float(sys.argv[1])).sum().item(), flush=True)
            if sys.argv[2] == "other":
                os.execv("/bin/echo", ["echo", "replaced"])
            if sys.argv[2] == "itself":
                os.execvp(sys.executable, [sys.executable, __file__, sys.argv[1], "last"])
            """)
        for name, value in (("A", 1), ("B", 1), ("C", 2)):
            result = self.record(name, file, value, "other")
            self.assertEqual(result.stdout, f"{3.0 * value}\nreplaced\n")
            self.record(name + "-itself", file, value, "itself")
        self.compare("A", "B", 0)
        self.compare("A", "C", 1)
        # Both are recorded: the first is one more process.
        self.assertEqual([recorded for _, _, recorded in self.processes("A-itself")], [True])
        self.compare("A-itself", "B-itself", 0)
        self.compare("A-itself", "C-itself", 1)


class Threads(Processes):
    def operators(self, dump):
        return [each["operator"] for each in self.records(dump)]

    def test_a_thread_that_python_did_not_start(self):
        file = self.program("""
            import ctypes, torch
            libc = ctypes.CDLL(None)
            torch.ones(2).sum()
            @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
            def work(_):
                torch.sin(torch.ones(3))
            thread = ctypes.c_ulong()
            assert libc.pthread_create(ctypes.byref(thread), None, work, None) == 0
            libc.pthread_join(thread, None)
            torch.cos(torch.ones(3))
            """)
        for dump in "AB":
            self.record(dump, file)
        self.assertIn("aten::sin", self.operators("A"))
        self.compare("A", "B", 0)

    def test_pytorch_is_imported_in_a_thread(self):
        file = self.program("""
            import threading
            def load():
                import torch
                torch.sin(torch.ones(2))
            thread = threading.Thread(target=load)
            thread.start()
            thread.join()
            import torch
            torch.cos(torch.ones(2))
            """)
        for dump in "AB":
            self.record(dump, file)
        self.assertEqual({"aten::sin", "aten::cos"} - set(self.operators("A")), set())
        self.compare("A", "B", 0)

    def test_a_handler_of_the_end_that_was_there_before(self):
        file = self.program("""
            import atexit
            atexit.register(lambda: torch.sin(torch.ones(2)))
            import torch
            torch.cos(torch.ones(2))
            """)
        self.record("A", file)
        self.assertIn("aten::sin", self.operators("A"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
