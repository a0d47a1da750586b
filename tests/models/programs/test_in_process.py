# SPDX-License-Identifier: Apache-2.0
"""`repro_check.record` and `repro_check.compare`: what runs in this process, recorded and compared."""
import copy
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import time
import types
import unittest
from pathlib import Path

from harness import need

need("torch", "numpy", "h5py", "xxhash")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

import numpy  # noqa: E402
import repro_check  # noqa: E402
import torch  # noqa: E402
from repro_check.testing import assert_reproducible  # noqa: E402


def train(steps=2):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()


class Training:
    """A model with its optimizer, and one step of them that changes whatever a step can change."""

    def __init__(self):
        torch.manual_seed(4)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3),
                                         torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)
        self.average = copy.deepcopy(self.model)
        self.generator = torch.Generator().manual_seed(3)
        self.model[0].weight.grad = torch.ones(8, 4)
        self.model[3].weight.requires_grad_(False)
        self.model[2].eval()
        self.fails = False

    @property
    def state(self):
        return {"all": (self.model, self.optimizer, [self.schedule, self.average]), "noise": self.generator}

    def step(self):
        self.model.train()
        self.model[3].weight.requires_grad_()
        x = torch.randn(6, 4) + torch.randn(6, 4, generator=self.generator) * random.random() * numpy.random.rand()
        self.model(x).square().mean().backward()
        self.optimizer.step()
        if self.fails:
            raise KeyError("mine")
        self.optimizer.zero_grad()
        self.schedule.step()
        with torch.no_grad():
            for mean, parameter in zip(self.average.parameters(), self.model.parameters()):
                mean.lerp_(parameter, 0.1)
        self.model[1].running_var = torch.ones(8)
        self.model.calls = getattr(self.model, "calls", 0) + 1

    def held(self):
        """All of it, to be compared, and what it stands in."""
        tensors = [*self.model.parameters(), *self.model.buffers(), *self.average.parameters()]
        return repr([
            [(id(tensor), tensor.data_ptr(), tensor.requires_grad, tensor.tolist()) for tensor in tensors],
            [(id(tensor.grad), None if tensor.grad is None else tensor.grad.tolist()) for tensor in tensors],
            self.optimizer.state_dict(), self.schedule.state_dict(), self.generator.get_state().sum(),
            [module.training for module in self.model.modules()], getattr(self.model, "calls", None),
            torch.get_rng_state().sum(), random.random(), numpy.random.rand(),
        ])


class InProcess(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="repro-check-models-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_a_block_is_recorded_and_nothing_else(self):
        torch.cos(torch.ones(2))
        with repro_check.record(self.folder / "A", seed=3) as dump:
            train()
        torch.tan(torch.ones(2))
        operators = repro_check.open(dump)
        names = {operator.full_name for operator in operators}
        self.assertIn("aten::linear", names)
        self.assertNotIn("aten::cos", names)
        self.assertNotIn("aten::tan", names)
        self.assertEqual({operator.phase for operator in operators},
                         {"setup", "forward", "loss", "backward", "optimizer"})
        self.assertEqual({operator.module for operator in operators.module("2")}, {"2", "2.weight", "2.bias"})

    def test_a_second_block_knows_its_modules_and_steps(self):
        for name in ("A", "B"):
            with repro_check.record(self.folder / name, seed=3):
                train()
        one, other = (repro_check.open(self.folder / name) for name in "AB")
        shown = [[(o.full_name, o.module, o.phase, o.step) for o in dump] for dump in (one, other)]
        self.assertEqual(*shown)
        self.assertEqual({o.step for o in other}, {0, 1, 2} - {2} | {max(o.step for o in other)})

    def test_a_loader_that_was_there_before_is_no_failure(self):
        program = f"""
            import repro_check, torch
            from torch.utils.data import DataLoader, TensorDataset
            batches = iter(DataLoader(TensorDataset(torch.arange(8)), batch_size=2, num_workers=2))
            with repro_check.record({str(self.folder / "A")!r}):
                print(sum(batch.sum().item() for batch, in batches))
            from repro_check_hooks import hooks
            print(len(hooks.notes))
        """
        paths = os.pathsep.join([str(Path(repro_check.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
                              env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
        self.assertEqual(done.stdout, "28\n0\n", done.stderr)

    def test_a_block_that_raises_leaves_its_dump(self):
        with self.assertRaises(KeyError):
            with repro_check.record(self.folder / "A"):
                torch.sin(torch.ones(2))
                raise KeyError("mine")
        self.assertIn("aten::sin", {o.full_name for o in repro_check.open(self.folder / "A")})

    def test_what_is_there_is_not_replaced(self):
        with repro_check.record(self.folder / "A"):
            torch.sin(torch.ones(2))
        with self.assertRaises(repro_check.ToolError):
            with repro_check.record(self.folder / "A"):
                pass
        with repro_check.record(self.folder / "A", force=True):
            torch.exp(torch.ones(2))
        self.assertIn("aten::exp", {o.full_name for o in repro_check.open(self.folder / "A")})

    def test_blocks_do_not_nest(self):
        with repro_check.record(self.folder / "A"):
            torch.sin(torch.ones(2))
            with self.assertRaises(RuntimeError):
                with repro_check.record(self.folder / "B"):
                    pass
            torch.exp(torch.ones(2))
        self.assertIn("aten::exp", {o.full_name for o in repro_check.open(self.folder / "A")})

    def test_comparing(self):
        self.assertTrue(repro_check.compare(train, seed=0).reproducible)
        self.assertTrue(repro_check.compare(train, runs=3, seed=0).reproducible)
        entropy = repro_check.compare(lambda: torch.tensor(list(os.urandom(8))).float().exp())
        self.assertEqual(entropy.exit_code, 1)
        self.assertIn("DIVERGED", entropy.text)
        self.assertIn("test_in_process.py", entropy.text)
        self.assertIn("max absolute", entropy.text)  # from the second pair
        lines = Path(__file__).read_text().splitlines()
        line = next(number for number, text in enumerate(lines, 1) if "urandom(8)" in text)
        self.assertIn(f"it took from os.urandom (1 call, first at test_in_process.py:{line})",
                      " ".join(entropy.text.split()))

    def assert_untouched(self, call):
        """That `call`, given a training, leaves it and the generators of the process as they were."""
        training = Training()
        random.seed(1)
        numpy.random.seed(1)
        before = training.held()
        random.seed(1)
        numpy.random.seed(1)
        result = call(training)
        self.assertEqual(training.held(), before)
        return result

    def test_a_step_that_trains_is_called_from_one_state(self):
        outcome = self.assert_untouched(lambda it: repro_check.compare(it.step, state=it.state, runs=3, seed=0))
        self.assertTrue(outcome.reproducible, outcome.text)
        self.assertIn("REPRODUCIBLE", repr(outcome))
        training = Training()
        assert_reproducible(training.step, state=training.state, seed=0)

    def test_a_step_that_raises_leaves_its_state(self):
        def raises(training):
            training.fails = True
            with self.assertRaises(KeyError):
                repro_check.compare(training.step, state=training.state, seed=0)

        self.assert_untouched(raises)
        self.assertTrue(repro_check.compare(train, seed=0).reproducible)

    def test_a_step_that_trains_goes_on_without_a_state_and_that_is_said(self):
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step():
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()

        outcome = repro_check.compare(step)
        self.assertEqual(outcome.exit_code, 1)
        self.assertIn("state=", outcome.reports[0]["verdict"]["mend"])
        weight = torch.ones(3, requires_grad=True)

        def by_hand():
            (weight * weight).sum().backward()
            with torch.no_grad():
                weight.sub_(weight.grad)

        self.assertIn("state=", repro_check.compare(by_hand).reports[0]["verdict"]["mend"])
        self.assertTrue(repro_check.compare(by_hand, state=weight).reproducible)
        self.assertIsNone(repro_check.compare(lambda: torch.tensor(list(os.urandom(8))).float().exp())
                          .reports[0]["verdict"]["mend"])

    def test_what_is_no_state_is_refused(self):
        for state in (object(), torch.nn.LazyLinear(2)):
            with self.subTest(state=type(state).__name__), self.assertRaises((TypeError, ValueError)):
                repro_check.compare(train, state=state)

    def test_policies_that_need_values(self):
        """The second pair is made where digests cannot judge."""
        def differing(by):
            calls = []

            def call():
                calls.append(None)
                return (torch.full((8,), 0.5 + (by(len(calls)) if len(calls) % 2 == 0 else 0))).sum()

            return call

        tiny = 2.0 ** -24
        self.assertEqual(repro_check.compare(differing(lambda _: tiny), ulp=4).exit_code, 0)
        self.assertEqual(repro_check.compare(differing(lambda _: tiny), rtol=1e-5, atol=1e-8).exit_code, 0)
        self.assertEqual(repro_check.compare(differing(lambda _: 0.25), policy="ulp", ulp=4).exit_code, 1)
        for flags in (["--policy", "ulp", "--ulp", "4"], ["--policy", "tolerance"]):
            outcome = repro_check.compare(differing(lambda _: tiny), flags=flags)
            self.assertEqual(outcome.exit_code, 0, outcome.text)
            self.assertGreater(outcome.reports[0]["coverage"]["within_policy"], 0)
            self.assertEqual(repro_check.compare(differing(lambda _: 0.25), flags=flags).exit_code, 1)
            # What differed once and not again was never measured.
            with self.assertRaises(repro_check.ToolError) as raised:
                repro_check.compare(differing(lambda calls: 0.25 if calls == 2 else 0), flags=flags)
            self.assertEqual(raised.exception.exit_code, 4)

    def test_the_same_numbers_by_other_operators(self):
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

        def step_of(made):
            calls = []

            def step():
                calls.append(None)
                optimizer.zero_grad()
                made(model(torch.ones(3, 4)), len(calls)).pow(2).mean().backward()
                optimizer.step()

            return step

        def compare(made, **options):
            return repro_check.compare(step_of(made), state=(model, optimizer), **options)

        def doubled(x, calls):
            return x * 2 if calls % 2 == 0 else x + x

        self.assertEqual(compare(doubled).exit_code, 1)
        for numbers in (True, "losses", ["losses", "parameters", "gradients"]):
            outcome = compare(doubled, numbers=numbers)
            self.assertEqual(outcome.exit_code, 0, outcome.text)
            self.assertTrue(outcome.text.startswith("REPRODUCIBLE numbers: losses"), outcome.text)
        self.assertEqual(compare(lambda x, calls: x * (calls % 2 + 1), numbers=True).exit_code, 1)
        with self.assertRaises(repro_check.ToolError) as raised:
            compare(doubled, numbers=["results"])
        self.assertEqual(raised.exception.exit_code, 4)
        with self.assertRaises(ValueError):
            compare(doubled, numbers=[])

    def test_an_index_says_whose_it_is(self):
        calls = []

        def call():
            calls.append(None)
            made = (torch.ones(8) * 0.5).clone()
            if len(calls) % 2 == 0:
                made[0] = torch.nextafter(made[0], torch.tensor(1.0))
            return (made + 0).sum()

        shown = repro_check.compare(call, flags=["--policy", "ulp", "--ulp", "4"]).text
        self.assertEqual(shown.splitlines()[0], "DIVERGED at step 0: the candidate alone called operators")
        self.assertIn("candidate op 3 aten::select", shown)
        self.assertIn("op 3 of the baseline", " ".join(shown.split()))

    def test_what_no_seed_pins_is_counted_in_the_block_alone(self):
        before = os.urandom, time.time, random._urandom
        time.time()
        for name in "AB":
            with repro_check.record(self.folder / name):
                torch.full((2,), time.time()).mul(random.SystemRandom().random())
            self.assertEqual((os.urandom, time.time, random._urandom), before)
        asked = repro_check.open(self.folder / "B").manifest["environment"]
        unpinned = {fact["name"]: fact["value"] for fact in asked if fact["name"].startswith("unpinned.")}
        self.assertEqual({name: value.split(",")[0] for name, value in unpinned.items()},
                         {"unpinned.time.time": "1 call", "unpinned.random.SystemRandom": "1 call"})

    def test_the_assertion_takes_a_function(self):
        assert_reproducible(train, seed=0)
        with self.assertRaises(AssertionError) as raised:
            assert_reproducible(lambda: torch.randn(3) * torch.rand(3))
        self.assertIn("aten::randn", str(raised.exception))

    def test_nothing_is_seeded_unless_asked(self):
        """Generators go on from call to call, as in the loop that the function is taken from."""
        for draws in (lambda: torch.randn(3).exp(), lambda: torch.full((2,), random.random()).exp(),
                      lambda: torch.full((2,), numpy.random.rand()).exp()):
            shown = " ".join(repro_check.compare(draws).text.split())
            self.assertIn("DIVERGED at step 0: random numbers were not seeded ", shown)
            self.assertIn("test_in_process.py", shown)
            self.assertIn("or, to find what differs after it: seed=0", shown)
            outcome = repro_check.compare(draws, seed=0)
            self.assertIn("REPRODUCIBLE with seed 0 set by repro-check: ", outcome.text)

        def seeded():
            torch.manual_seed(3)
            return torch.randn(3).exp()

        self.assertTrue(repro_check.compare(seeded).text.startswith("REPRODUCIBLE: "))
        state = torch.get_rng_state()
        repro_check.compare(lambda: torch.ones(3).exp())
        self.assertTrue(torch.equal(torch.get_rng_state(), state))

    def test_a_notebook_names_its_cells_and_shows_the_page(self):
        """What is asked of IPython, of which a cell of two lines is the sixth."""
        file = "/tmp/ipykernel_1/2.py"
        names = {"torch": torch}
        exec(compile("def step():\n    return torch.randn(3).exp()", file, "exec"), names)
        shown = []
        handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
        shell = types.SimpleNamespace(kernel=self, compile=types.SimpleNamespace(_filename_map={file: 6}))
        played = {"IPython": types.SimpleNamespace(
            get_ipython=lambda: shell, display=types.SimpleNamespace(display=lambda *_, **__: handle))}
        played["IPython.core.interactiveshell"] = types.SimpleNamespace(
            InteractiveShell=types.SimpleNamespace(initialized=lambda: True, instance=lambda: shell))
        self.assertIsNone(repro_check.compare(lambda: torch.ones(2).exp())._repr_html_())
        sys.modules.update(played)
        for name in played:
            self.addCleanup(sys.modules.pop, name)
        outcome = repro_check.compare(names["step"])
        self.assertIn("In [6], line 2", " ".join(repr(outcome).split()))
        source = outcome.reports[0]["first_divergence"]["source"]
        self.assertEqual((source["file"], source["line"]), ("In [6]", 2))
        self.assertIn("In [6], line 2", outcome.page)
        self.assertRegex(outcome._repr_html_(), '^<iframe sandbox="allow-scripts" .* srcdoc="&lt;!DOCTYPE html&gt;')
        self.assertNotIn(f"inspect {outcome.directory}", outcome.page)
        calls = ["call 1 of 2", "call 2 of 2"]
        again = [call + ", again, to have the values" for call in calls]
        self.assertEqual(shown, [*calls, "comparing", *again, "comparing", ""])

    def test_default_rng_stays_as_it_was(self):
        before = numpy.random.default_rng
        repro_check.compare(train, seed=0)
        self.assertIs(numpy.random.default_rng, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
