# SPDX-License-Identifier: Apache-2.0
"""Forks that overlap: what has no race in it gives no alarm, whoever ran first; a race is found."""
from typing import Dict, List

import harness

harness.need("torch")

import torch
from torch import Tensor, nn

RUNS = 20


class One(nn.Module):
    """A fork beside the main line."""

    def __init__(self):
        super().__init__()
        self.near = nn.Linear(256, 256)
        self.far = nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        far = torch.jit.fork(self.far, x)
        near = torch.tanh(self.near(x))
        return torch.sin(near + torch.jit.wait(far))


class Eight(nn.Module):
    """Eight at once, each of several operators and with a fork of its own; then the main line."""

    def __init__(self):
        super().__init__()
        self.part = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256))

    def inner(self, x: Tensor) -> Tensor:
        half = torch.jit.fork(self.part, x * 0.5)
        return torch.tanh(self.part(x)) + torch.jit.wait(half)

    def forward(self, x: Tensor) -> Tensor:
        futures: List[torch.jit.Future[Tensor]] = []
        for i in range(8):
            futures.append(torch.jit.fork(self.inner, x + float(i)))
        total = torch.cos(x)
        for future in futures:
            total = total + torch.jit.wait(future)
        return torch.sin(total)


class Race(nn.Module):
    """Two forks that write one tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shared", torch.ones(64, 64))

    def scale(self, n: int) -> int:
        for _ in range(n):
            self.shared.mul_(1.001)
        return n

    def shift(self, n: int) -> int:
        for _ in range(n):
            self.shared.add_(0.5)
        return n

    def forward(self, x: Tensor) -> Tensor:
        scaled = torch.jit.fork(self.scale, 3000)
        shifted = torch.jit.fork(self.shift, 3000)
        torch.jit.wait(scaled)
        torch.jit.wait(shifted)
        return x + self.shared.sum()


class Waits(Race):
    """The same, the second only where the first has ended."""

    def forward(self, x: Tensor) -> Tensor:
        torch.jit.wait(torch.jit.fork(self.scale, 3000))
        torch.jit.wait(torch.jit.fork(self.shift, 3000))
        return x + self.shared.sum()


def work(x: Tensor, n: int) -> Tensor:
    for _ in range(300):
        x = torch.sin(x) + n
    return x


class Returned(nn.Module):
    """Nobody in the model waits for what it returns."""

    def forward(self, x: Tensor, n: int):
        return x * 2, [torch.jit.fork(work, x, n)]


class Alone(nn.Module):
    def forward(self, x: Tensor, n: int):
        return [torch.jit.fork(torch.add, x, n)]


def refuse(x: Tensor) -> Tensor:
    for _ in range(300):
        x = torch.sin(x)
    raise ValueError("no such fork")
    return x


class Fails(nn.Module):
    def forward(self, x: Tensor):
        return torch.jit.fork(refuse, x)


class ForksTest(harness.ToolTest):
    def fields(self, module: nn.Module, **more) -> dict:
        torch.manual_seed(1)
        torch.jit.script(module.eval()).save(self.folder / "model.pt")
        x = {"generate": "normal", "shape": [64, 256], "dtype": "float32", "seed": 3}
        return {"model": "model.pt", "inputs": [x], "interop_threads": 4, "threads": 1, **more}

    def lanes(self) -> set:
        return {op["lane"] for op in self.operators("run-1")}

    def test_one_fork(self):
        report = self.run_config(0, "-n", RUNS, **self.fields(One()))
        self.assert_reproducible(report, 4)
        self.assertEqual(len(self.lanes()), 2)

    def test_eight_forks_with_a_fork_each(self):
        report = self.run_config(0, "-n", RUNS, **self.fields(Eight()))
        self.assert_reproducible(report, 60)
        self.assertEqual(len(self.lanes()), 17)

    def test_forks_through_the_optimising_executor(self):
        report = self.run_config(0, "-n", RUNS, **self.fields(Eight(), optimize_executor=True))
        self.assert_reproducible(report, 60)

    def test_a_race_is_found(self):
        report = self.run_config(1, "-n", RUNS, **self.fields(Race()))
        self.assertEqual(report["verdict"]["status"], "diverged")
        first = report["first_divergence"]
        self.assertIn(first["key"]["operator"], ("aten::mul_.Scalar", "aten::add_.Scalar"), first)

    def test_who_waits_has_no_race(self):
        report = self.run_config(0, "-n", 8, **self.fields(Waits()))
        self.assert_reproducible(report, 6000)

    def returning(self, module: nn.Module, *numbers: int) -> dict:
        fields = self.fields(module)
        (x,) = fields.pop("inputs")
        names = ("baseline", "candidate")
        return {**fields, "runs": [{"name": name, "inputs": [x, n]} for name, n in zip(names, numbers)]}

    def test_what_forks_still_make_is_part_of_the_call(self):
        for module, count, path in ((Returned(), 600, "out[1][0]"), (Alone(), 0, "out[0]")):
            for _ in range(5):
                report = self.run_config(0, **self.returning(module, 1, 1))
                self.assert_reproducible(report, count)
                self.assertEqual(report["returned"]["opaque"], [])
                report = self.run_config(1, **self.returning(module, 0, 1))
                self.assertEqual(report["returned"]["first"]["outputs"][0]["slot"], path)

    def test_the_observer_sees_what_forks_still_make(self):
        self.run_config(0, "--check-observer", **self.returning(Returned(), 1, 1))

    def test_a_fork_that_fails_fails_the_run(self):
        config = self.write_config(self.fields(Fails()))
        result = self.tool("run", "-c", config)
        self.assertEqual(result.code, 5, result.stdout + result.stderr)
        self.assertIn("no such fork", result.stdout + result.stderr)

    def test_an_accepted_baseline_does_not_hold_the_order_of_forks(self):
        fields = self.fields(Eight(), runs=[{"name": "baseline"}, {"name": "candidate"}])
        config = self.write_config(fields)
        for expected, *words in ((4,), (0, "accept"), (0,), (0,), (0,)):
            result = self.tool("gate", *words, "-c", config)
            self.assertEqual(result.code, expected, result.stdout + result.stderr)


if __name__ == "__main__":
    harness.main()
