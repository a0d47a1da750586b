# SPDX-License-Identifier: Apache-2.0
"""Programs that compute and write without an operator: kernels of Triton, CUDA graphs, memory that somebody else
has too. Triton and a device are played by Python: what is tried is what the recording makes of them."""
import subprocess
import sys
import textwrap
import unittest

import torch

from programs.test_exec import Exec

TRITON = """
    import ctypes, inspect
    def memory(tensor):
        return (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())
    class JITFunction:
        def __init__(self, fn):
            self.fn, self.arg_names = fn, list(inspect.signature(fn).parameters)
        def __getitem__(self, grid):
            return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)
        def run(self, *args, grid, warmup, num_warps=4, **kwargs):
            self.fn(*[memory(each) if hasattr(each, "data_ptr") else each for each in args], **kwargs)
            return "compiled"
    """
AUTOTUNER = """
    import random
    class Autotuner:
        def __init__(self, kernel):
            self.kernel = kernel
        def _bench(self, *args):
            import torch
            for _ in range(random.SystemRandom().randrange(1, 9)):
                torch.empty(16).fill_(1.0)
                self.kernel[(1,)](*args)
        def __getitem__(self, grid):
            def run(*args):
                saved = [each.clone() for each in args if hasattr(each, "data_ptr")]
                self._bench(*args)
                for each, before in zip(args, saved):
                    each.data.copy_(before)
                return self.kernel[grid](*args, num_warps=8)
            return run
    """
KERNELS = """
    import sys
    from triton.runtime.jit import JITFunction
    from triton.runtime.autotuner import Autotuner
    import torch
    extra = float(sys.argv[1])
    @JITFunction
    def double(x, out, n, BLOCK):
        for i in range(n):
            out[i] = 2 * x[i] + (extra if i == 3 else 0)
    def another():
        def double(y, out, n, BLOCK):
            out[0] = y[0]
        return JITFunction(double)
    @JITFunction
    def halve(weight):
        for i in range(8):
            weight[i] /= 2
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8))
        def forward(self, x):
            out = torch.empty_like(x)
            made = double[(4,)](x, out, 8, BLOCK=256)
            another()[(1,)](x, torch.zeros(8), 8, BLOCK=1)
            y = out * self.weight
            halve[(1,)](self.weight)
            Autotuner(halve)[(1,)](self.weight)
            return y * self.weight, made
    model = Model()
    for _ in range(2):
        result, made = model(torch.arange(8.0))
    print(result.tolist(), made)
    """


@unittest.skipUnless(hasattr(torch.Tensor, "__dlpack__") and torch.__version__ >= "2", "an old release")
class Triton(Exec):
    def setUp(self):
        super().setUp()
        runtime = self.folder / "some-packages" / "triton" / "runtime"
        runtime.mkdir(parents=True)
        for name, text in (("../__init__", ""), ("__init__", ""), ("jit", TRITON), ("autotuner", AUTOTUNER)):
            (runtime / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        path = f"import sys; sys.path.insert(0, {str(self.folder / 'some-packages')!r})\n"
        self.file = self.folder / "program.py"
        self.file.write_text(path + textwrap.dedent(KERNELS), encoding="utf-8")

    def test_a_kernel_is_an_operator(self):
        bare = subprocess.run([sys.executable, self.file, "0"], capture_output=True, text=True, check=True).stdout
        for name in ("A", "B"):
            self.assertEqual(self.python(name, self.file, "0").stdout, bare)
        self.assert_reproducible(self.compare("A", "B", 0), 10)
        launched = [record for record in self.records("A") if record["operator"].startswith("triton::")]
        self.assertEqual([record["operator"].split(".")[0].removeprefix("triton::") for record in launched],
                         ["double", "double", "halve", "halve"] * 2)
        self.assertEqual(launched[1]["operator"], launched[0]["operator"] + "_")
        self.assertEqual(launched[1]["arguments"][0]["name"], "y")
        line = 1 + self.file.read_text(encoding="utf-8").split("\n").index(
            "        made = double[(4,)](x, out, 8, BLOCK=256)")
        shown = self.tool("inspect", "A", "--op", str(launched[0]["index"])).stdout
        for text in (f"program.py:{line} in forward", "module     (root) (Model)", "argument   BLOCK = 256",
                     'grid = "(4,)"', "output     out = float32 [8]", "in:out, out:out share storage"):
            self.assertIn(text, shown)
        self.assertIn("num_warps = 8", self.tool("inspect", "A", "--op", str(launched[3]["index"])).stdout)

    def test_what_a_kernel_makes_is_its_own(self):
        self.python("A", self.file, "0")
        self.python("B", self.file, "1")
        first = self.compare("A", "B", 1)["first_divergence"]
        self.assertEqual((first["key"]["operator"].split(".")[0], first["relation"]), ("triton::double", "origin"))

    def test_what_a_kernel_writes_is_read_anew(self):
        self.python("A", self.file, "0")
        digests = [record["inputs"][1]["digest"] for record in self.records("A")
                   if record["operator"] == "aten::mul.Tensor"]
        self.assertEqual([digests.index(each) for each in digests], [0, 1, 1, 3])  # 1, 1/4, 1/4, 1/16


class Memory(Exec):
    def test_what_numpy_writes_is_read_anew(self):
        self.writes("x.numpy()[0] = value")

    def test_what_is_in_an_array_that_a_tensor_was_made_of(self):
        for tensor in ("torch.from_numpy(array)", "torch.as_tensor(array)"):
            self.writes("array[0] = value", "numpy.ones(4, dtype=numpy.float32)", tensor)

    @unittest.skipUnless(hasattr(torch.Tensor, "__dlpack__"), "an old release")
    def test_what_a_view_of_another_library_writes_is_read_anew(self):
        self.writes("torch.from_dlpack(x).fill_(value)")

    def test_what_is_written_through_a_pointer_is_found_where_values_are_recorded(self):
        file = self.program("""
            import ctypes, os, struct, torch
            x = torch.ones(4)
            (x * 2).tolist()
            ctypes.memmove(x.data_ptr(), struct.pack("f", os.getpid()), 4)  # no two runs have the same
            (x + 3).tolist()
            """)
        first = self.run_config(1, program={"command": [sys.executable, str(file)]})["first_divergence"]
        self.assertEqual(first["key"]["operator"], "aten::add.Tensor")
        self.assertIn("something changed the value in between without being recorded", str(first["cause"]))

    def writes(self, line, made="None", tensor="torch.ones(4)"):
        """A write between two operators that read the same tensor."""
        file = self.program(f"""
            import numpy, sys, torch
            value = float(sys.argv[1])
            array = {made}
            x = {tensor}
            (x * 2).tolist()
            {line}
            (x + 3).tolist()
            """)
        self.python("A", file, "1.5", flags=("--force",))
        self.python("B", file, "2.5", flags=("--force",))
        report = self.compare("A", "B", 1)
        add = next(each for each in report["divergences"]["items"] if each["key"]["operator"].startswith("aten::add"))
        self.assertIn("something changed the value in between without being recorded", str(add["cause"]))


class Graphs(Exec):
    def test_a_graph_is_not_recorded_and_what_it_leaves_is_read_anew(self):
        file = self.program("""
            import ctypes, sys, torch
            torch.manual_seed(0)
            graphs = torch.cuda.graphs
            base = graphs.CUDAGraph.__mro__[1]
            base.__new__ = lambda cls, *args, **kwargs: object.__new__(cls)
            base.__init__ = lambda graph, *args, **kwargs: None
            base.capture_begin = base.capture_end = lambda graph, *args, **kwargs: None
            out, value = torch.zeros(4), float(sys.argv[1])
            base.replay = lambda graph: ctypes.memset(out.data_ptr(), int(value), 16)
            model, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
            optimizer = torch.optim.SGD(model.parameters())
            graph = graphs.CUDAGraph()
            graph.capture_begin()
            model(x).sum().backward()
            optimizer.step()
            graph.capture_end()
            before = out + 1
            graph.replay()
            print((out + 1).tolist())
            """)
        for name, value in (("A", "63"), ("B", "63"), ("C", "64")):
            self.python(name, file, value)
        self.assertNotIn("aten::linear", [record["operator"] for record in self.records("A")])
        report = self.compare("A", "B", 0)
        self.assertIn("CUDA graphs were run: operators inside are not recorded", str(report["warnings"]))
        first = self.compare("A", "C", 1)["first_divergence"]
        self.assertEqual(first["key"]["operator"], "aten::add.Tensor")
        self.assertIn("no recorded operator made it: the program did", str(first["cause"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
