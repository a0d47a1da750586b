# SPDX-License-Identifier: Apache-2.0
"""A run that resumes is held against the run that made its checkpoint: what was restored right is reproducible,
and each way to restore it wrong has its word, at the first step of the resumed run."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import ToolTest, need

need("torch", "numpy")

try:
    from torch.distributed.checkpoint.state_dict import set_state_dict
except ImportError:
    set_state_dict = None

PROGRAM = Path(__file__).resolve().parent / "resumed_training.py"
LINES = PROGRAM.read_text().splitlines()
FAULTS = ("nothing", "parameters", "optimizer", "count", "schedule", "scaler", "torch", "numpy", "position", "order",
          "iterator", "skip", "random")


def line_of(mark):
    number = next(number for number, line in enumerate(LINES, 1) if line.endswith(f"# {mark}"))
    return f"{PROGRAM.name}:{number}"


def command(folder, what, file="checkpoint.pt"):
    return [sys.executable, str(PROGRAM), str(folder / file), what]


def tool(folder, *arguments):
    return subprocess.run([os.environ["REPRO_CHECK"], *map(str, arguments)], capture_output=True, text=True,
                          cwd=folder, timeout=280)


def record(folder, what, file="checkpoint.pt", dump=None, *more):
    done = tool(folder, "exec", "--checkpoints", *more, "-o", dump or what, "--", *command(folder, what, file))
    assert done.returncode == 0, done.stderr
    return done.stdout


class Resumed(ToolTest):
    """Recorded once: the run that makes the checkpoint, and the runs that resume from it."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="repro-check-resume-")
        cls.addClassCleanup(scratch.cleanup)
        cls.dumps = Path(scratch.name)
        cls.printed = {"whole": record(cls.dumps, "whole")}
        with ThreadPoolExecutor(2) as pool:
            cls.printed.update(zip(FAULTS, pool.map(lambda fault: record(cls.dumps, fault), FAULTS)))

    def compare(self, candidate, expected, baseline="whole", *more):
        done = tool(self.dumps, "diff", "--resume", baseline, candidate, "--format", "json", *more)
        self.assertEqual(done.returncode, expected, done.stdout[:2000] + done.stderr)
        report = json.loads(done.stdout)
        self.states = {state["kind"]: state for state in (report.get("resume") or {}).get("states", [])}
        return report

    def test_a_launcher_that_trains_in_another_process(self):
        launcher = self.dumps / "launcher.py"
        launcher.write_text("import subprocess, sys, torch\ntorch.zeros(1)\n"
                            "sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)\n")
        for what in ("whole", "nothing", "optimizer"):
            done = tool(self.dumps, "exec", "--checkpoints", "-o", f"launched-{what}", "--", sys.executable, launcher,
                        *command(self.dumps, what, "launched.pt")[1:])
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.compare("launched-nothing", 0, "launched-whole")["resume"]["step"], 5)
        self.compare("launched-optimizer", 1, "launched-whole")
        self.assertEqual(self.states["state of the optimizer"]["outcome"], "not loaded")

    def parts(self, fault, kind, outcome, operator=True):
        """The first state that parts, and that an operator parts as well."""
        report = self.compare(fault, 1)
        resume = report["resume"]
        self.assertEqual(resume["step"], 5)
        self.assertEqual((resume["saved"], resume["loaded"]), (line_of("SAVED"), line_of("LOADED")))
        leading = next(state for state in resume["states"] if state["outcome"] not in ("right", "not proven"))
        self.assertEqual((leading["kind"], leading["outcome"]), (kind, outcome))
        self.assertEqual(report["verdict"]["kind"], "restore")
        self.assertIn(f"at step 5, the first of the resumed run: {kind} {outcome}", report["verdict"]["headline"])
        self.assertIn(kind, report["verdict"]["mend"])
        self.assertEqual(report["first_divergence"] is not None, operator)
        return leading

    def test_the_right_restore(self):
        self.assertEqual(self.printed["nothing"], self.printed["whole"])
        report = self.compare("nothing", 0)
        self.assert_reproducible(report, 190)
        self.assertEqual({state["outcome"] for state in self.states.values()}, {"right"})
        self.assertEqual(len(self.states), 11)
        # What GradScaler makes in its first step.
        self.assertEqual(report["resume"]["first_calls"], 2)

    def test_numbers_of_the_host_are_those_of_the_state_that_was_saved(self):
        for what in "whole", "nothing":
            record(self.dumps, what, "host.pt", f"host-{what}", "--rng", "host")
        self.compare("host-nothing", 0, "host-whole")

    def test_parameters(self):
        self.parts("parameters", "parameters", "not loaded")
        self.assertEqual(self.states["buffers"]["outcome"], "not loaded")
        self.assertEqual(self.states["batch"]["outcome"], "right")

    def test_state_of_the_optimizer(self):
        self.parts("optimizer", "state of the optimizer", "not loaded")

    def test_its_step_count_alone(self):
        count = self.parts("count", "step count of the optimizer", "not loaded")
        self.assertEqual(count["detail"], "5 against 0")
        self.assertEqual(self.states["state of the optimizer"]["outcome"], "right")

    def test_schedule(self):
        schedule = self.parts("schedule", "schedule", "not loaded")
        self.assertIn("last_epoch", schedule["name"])

    def test_loss_scale(self):
        scale = self.parts("scaler", "loss scale", "not loaded")
        self.assertEqual(scale["detail"], "512 against 256")

    def test_generator_of_torch(self):
        self.parts("torch", "generator of PyTorch", "not loaded")

    def test_generator_of_numpy(self):
        self.parts("numpy", "generator of NumPy", "not loaded")

    def test_the_sampler_at_its_start(self):
        batch = self.parts("position", "batch", "not loaded")
        self.assertIn("batch 2 of the loader against 1", batch["detail"])

    def test_another_permutation(self):
        batch = self.parts("order", "batch", "not loaded")
        self.assertIn("generator of the loader", batch["detail"])
        self.assertEqual(batch["place"], line_of("BATCH"))

    def test_an_iterator_that_draws_when_it_is_made(self):
        generator = self.parts("iterator", "generator of PyTorch", "used up between")
        self.assertIn(line_of("BATCH"), generator["place"])
        self.assertIn("random_", generator["place"])
        self.assertEqual(generator["moved"], 2)

    def test_a_skip_that_draws(self):
        generator = self.parts("skip", "generator of NumPy", "used up between")
        self.assertEqual(generator["place"], line_of("BATCH"))
        self.assertEqual(generator["moved"], 8)  # four items, a double each
        self.assertEqual(self.states["batch"]["outcome"], "used up between")

    def test_what_nothing_uses(self):
        report = self.compare("random", 0)
        self.assertEqual(self.states["generator of random"]["outcome"], "not proven")
        self.assertIn("1 that was not used differs", report["verdict"]["headline"])

    def test_what_was_not_saved(self):
        record(self.dumps, "half", "half.pt")
        record(self.dumps, "nothing", "half.pt", "of-half")
        self.compare("of-half", 1, "half")
        not_saved = {kind for kind, state in self.states.items() if state["outcome"] == "not saved"}
        self.assertEqual(not_saved, {"batch", "generator of PyTorch", "generator of NumPy", "loss scale",
                                     "state of the optimizer", "step count of the optimizer", "schedule"})
        self.assertEqual(self.states["parameters"]["outcome"], "right")
        # Of another run than that which made it.
        report = self.compare("nothing", 4, "half")
        self.assertIn("nothing that the first run saved", report["verdict"]["headline"])

    def test_what_cannot_be_compared(self):
        report = self.compare("whole", 4, "nothing")
        self.assertIn("no checkpoint was seen to be saved", report["verdict"]["headline"])
        report = self.compare("whole", 4)
        self.assertIn("nothing was seen to be loaded", report["verdict"]["headline"])

    def resumed(self, expected):
        """What is said of program.py that trains, and of it that resumes."""
        for what in ("train", "resume"):
            done = self.tool("exec", "--checkpoints", "-o", what, "--", sys.executable, "program.py", what)
            self.assertEqual(done.code, 0, done.stderr)
        done = self.tool("diff", "--resume", "train", "resume")
        self.assertEqual(done.code, expected, done.stdout)
        return done.stdout

    def test_a_loader_without_workers_draws_a_seed_for_nobody(self):
        (self.folder / "program.py").write_text("""
import sys, torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = torch.utils.data.DataLoader(torch.arange(8.0).view(4, 2), batch_size=2)
resumes = sys.argv[1] == "resume"
if resumes:
    model.load_state_dict(torch.load("first.pt"))
for epoch in range(resumes, 3):
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    if epoch == 0:
        torch.save(model.state_dict(), "first.pt")
""")
        self.assertIn("generator of PyTorch not proven", self.resumed(0))

    @unittest.skipIf(set_state_dict is None, "this PyTorch has no set_state_dict")
    def test_a_state_that_a_step_of_its_own_makes_before_it_is_restored(self):
        (self.folder / "program.py").write_text("""
import sys, torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
optimizer = torch.optim.AdamW(model.parameters(), 0.1)
start = 0
if sys.argv[1] == "resume":
    state = torch.load("third.pt")
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    start = 3
for step in range(start, 6):
    model(torch.full((3, 2), step + 1.0)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 2:
        states = get_state_dict(model, optimizer)
        torch.save(dict(zip(("model", "optimizer"), states)), "third.pt")
""")
        shown = self.resumed(0)
        self.assertRegex(shown, r"right: .*state of the optimizer, step count of the optimizer")

    def test_a_loss_module_made_in_each_step_and_an_evaluation_of_one_run_alone(self):
        (self.folder / "program.py").write_text("""
import sys, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
x, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
first, last = 0, int(sys.argv[2]) if len(sys.argv) > 2 else 8
if sys.argv[1] == "resume":
    state = torch.load("half.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
for step in range(first, last):
    part = slice(step * 8, step * 8 + 8)
    loss = torch.nn.CrossEntropyLoss()(model(x[part]), y[part])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 3 and not first:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 4}, "half.pt")
if sys.argv[1] == "resume":
    print(sum(parameter.double().sum() for parameter in model.parameters()).item())
""")
        self.resumed(0)
        done = self.tool("exec", "--force", "--checkpoints", "-o", "resume", "--", sys.executable, "program.py",
                         "resume", "6")
        self.assertEqual(done.code, 0, done.stderr)
        done = self.tool("diff", "--resume", "train", "resume", "--format", "json")
        self.assertEqual(done.code, 0, done.stdout[:2000])
        self.assertTrue(any("step 5" in warning for warning in json.loads(done.stdout)["warnings"]))

    @unittest.skipIf(set_state_dict is None, "this PyTorch has no set_state_dict")
    def test_a_checkpoint_that_a_thread_writes_while_the_training_goes_on(self):
        (self.folder / "program.py").write_text("""
import sys, time, torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemWriter
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)

class Slow(FileSystemWriter):
    def write_data(self, *args, **kwargs):
        time.sleep(1)
        return super().write_data(*args, **kwargs)

start = 0
if sys.argv[1] == "resume":
    state = {"model": model.state_dict(), "step": 0}
    dcp.load(state, checkpoint_id="third")
    model.load_state_dict(state["model"])
    start = state["step"]
for step in range(start, 6):
    model(torch.full((3, 2), step + 1.0)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 2 and not start:
        writing = dcp.async_save({"model": model.state_dict(), "step": 3}, storage_writer=Slow("third"))
if not start:
    writing.result()
""")
        self.resumed(0)

    def test_saved_before_the_update(self):
        (self.folder / "program.py").write_text("""
import sys, torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
resumes = sys.argv[1] == "resume"
if resumes:
    model.load_state_dict(torch.load("second.pt"))
for step in range(2 if resumes else 0, 4):
    model(torch.full((2,), step + 1.0)).sum().backward()
    if step == 1:
        torch.save(model.state_dict(), "second.pt")
    optimizer.step()
    optimizer.zero_grad()
""")
        self.assertIn("before the update of step 1, which it lacks", self.resumed(1))

    def test_no_step_in_common(self):
        (self.folder / "program.py").write_text("""
import sys, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
if sys.argv[1] == "resume":
    model.load_state_dict(torch.load("end.pt"))
for _ in range(2):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
torch.save(model.state_dict(), "end.pt")
""")
        self.assertIn("no step in common", self.resumed(4))


# A training with an average of its weights, noise of the dataset's own and gradients of two batches; the second
# argument is what is done otherwise.
BESIDE = """
import copy, pickle, sys, torch
resumes, fault = sys.argv[1] == "resume", sys.argv[2]
torch.manual_seed(1)

class Noisy(torch.utils.data.Dataset):
    noise = property(lambda self: 0.1 * torch.randn(4, generator=self.generator))

    def __init__(self):
        self.generator = torch.Generator().manual_seed(8)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.full((4,), float(index)) / 16 + self.noise

class ByHand:
    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.momenta = [torch.zeros_like(each) for each in self.parameters]

    def step(self):
        with torch.no_grad():
            for parameter, momentum in zip(self.parameters, self.momenta):
                parameter.sub_(momentum.mul_(0.9).add_(parameter.grad), alpha=0.1)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self):
        return {"momenta": self.momenta}

    def load_state_dict(self, state):
        self.momenta = [each.clone() for each in state["momenta"]]

net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
average = copy.deepcopy(net)
parameters = list(net.parameters())
if resumes and fault == "order":
    parameters[0], parameters[2] = parameters[2], parameters[0]
optimizer = ByHand(parameters) if fault.startswith("hand") else torch.optim.Adam(parameters, lr=0.05)
data, taken = Noisy(), 0
if resumes:
    state = pickle.load(open("saved.pickle", "rb")) if fault == "pickle" else torch.load("saved.pt", weights_only=False)
    net.load_state_dict(state["net"], **({"assign": True} if fault == "assign" else {}))
    if not fault.endswith("without"):
        optimizer.load_state_dict(state["optimizer"])
    if "average" in state and fault != "average not loaded":
        average.load_state_dict(state["average"])
    if "generator" in state and fault != "generator not loaded":
        data.generator.set_state(state["generator"])
    for parameter, gradient in zip(net.parameters(), state.get("gradients", [])):
        parameter.grad = gradient
    if "torch" in state:
        torch.set_rng_state(state["torch"])
    taken = state["taken"]
while taken < 12:
    for batch in torch.utils.data.DataLoader(data, batch_size=4):
        def closure():
            loss = (net(batch) - batch).square().mean()
            loss.backward()
            return loss

        taken += 1
        if fault.startswith("closure"):
            optimizer.step(closure)
            optimizer.zero_grad()
        else:
            closure()
        if taken % 2 == 0 and not fault.startswith("closure"):
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for mean, parameter in zip(average.parameters(), net.parameters()):
                    mean.lerp_(parameter, 0.1)
        if taken == 11 and resumes and fault == "more":
            net(batch).sum()
        if not resumes and taken == 5:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "average": average.state_dict(),
                     "generator": data.generator.get_state(), "taken": taken, "torch": torch.get_rng_state(),
                     "gradients": [parameter.grad for parameter in net.parameters()]}
            state.pop(fault, None)
            pickle.dump(state, open("saved.pickle", "wb")) if fault == "pickle" else torch.save(state, "saved.pt")
        if taken % 5 == 0:
            break
print(sum(parameter.sum().item() for parameter in [*net.parameters(), *average.parameters()]))
"""


class Beside(ToolTest):
    def resumed(self, fault, expected):
        (self.folder / "program.py").write_text(BESIDE)
        for what in ("train", "resume"):
            done = self.tool("exec", "--force", "--checkpoints", "-o", what, "--", sys.executable, "program.py", what,
                             fault)
            self.assertEqual(done.code, 0, done.stderr)
        done = self.tool("diff", "--resume", "train", "resume", "--format", "json")
        self.assertEqual(done.code, expected, done.stdout[:2000] + done.stderr)
        return json.loads(done.stdout)

    def assert_leads(self, fault, words):
        self.assertIn(f"the first of the resumed run: {words}", self.resumed(fault, 1)["verdict"]["headline"])

    def test_what_is_restored(self):
        for fault in ("nothing", "pickle", "hand"):
            with self.subTest(fault=fault):
                report = self.resumed(fault, 0)
                outcomes = {state["kind"]: state["outcome"] for state in report["resume"]["states"]}
                self.assertLessEqual({"another module", "generator of the dataset"}, set(outcomes))
                self.assertEqual(outcomes.get("gradients", "right"), "right")
                self.assertLessEqual(set(outcomes.values()), {"right", "not proven"})

    def test_an_average_of_the_weights(self):
        self.assert_leads("average", "another module not saved: module.Sequential.0.weight, other bits")
        self.assert_leads("average not loaded", "another module not loaded: module.Sequential.0.weight, other bits")

    def test_gradients_that_more_would_have_been_added_to(self):
        self.assert_leads("gradients", "gradients not saved: gradient.0.weight, not there in the resumed run")

    def test_a_generator_of_the_dataset(self):
        self.assert_leads("generator", "generator of the dataset not saved")
        self.assert_leads("generator not loaded", "generator of the dataset not loaded")

    def test_a_generator_that_nobody_draws_from_any_more(self):
        report = self.resumed("torch", 0)
        outcomes = {state["kind"]: state["outcome"] for state in report["resume"]["states"]}
        self.assertEqual(outcomes["generator of PyTorch"], "not proven")

    def test_an_optimizer_of_parameters_in_another_order(self):
        self.assert_leads("order", "state of the optimizer at another's place: optimizer.0.weight.exp_avg, "
                                   "which is optimizer.2.weight.exp_avg in the resumed run")

    def test_parameters_that_were_assigned(self):
        self.assert_leads("assign", "state of the optimizer at another's place: optimizer.0.weight.exp_avg, "
                                    "which is optimizer.group0.0.exp_avg in the resumed run")

    def test_an_optimizer_by_hand_that_is_not_restored(self):
        report = self.resumed("hand without", 1)
        self.assertEqual(report["first_divergence"]["key"]["operator"], "aten::mul_.Tensor")

    def test_a_step_that_calls_for_its_loss(self):
        report = self.resumed("closure", 0)
        outcomes = {state["kind"]: state["outcome"] for state in report["resume"]["states"]}
        self.assertEqual(outcomes["state of the optimizer"], "right")
        self.assert_leads("closure without", "state of the optimizer not loaded")

    def test_steps_of_what_the_resumed_run_makes_alone_are_those_of_the_first(self):
        report = self.resumed("more", 1)
        self.assertRegex(report["verdict"]["headline"], r"at step 5[,:] ")


class Configured(ToolTest):
    def write(self, fault, **more):
        (self.folder / "config.json").write_text(json.dumps({
            "program": {"command": command(self.folder, "whole"), "resume": command(self.folder, fault)}, **more}))

    def test_run(self):
        self.write("iterator")
        done = self.tool("run", "-c", "config.json", "--report", "html=page.html", "--report", "json=report.json")
        self.assertEqual(done.code, 1, done.stdout + done.stderr)
        self.assertIn("generator of PyTorch used up between", done.stdout.splitlines()[0])
        # The second pair, a resumed run again, has the values.
        report = json.loads((self.folder / "report.json").read_text())
        self.assertEqual(len(report["passes"]), 2)
        self.assertIsNotNone(report["first_divergence"]["outputs"][0]["metrics"])
        self.assertIn("Resumed at step 5", (self.folder / "page.html").read_text())
        again = self.tool("report", "report.json", "--report", "text=-")
        self.assertEqual((again.code, again.stdout.splitlines()[0]), (1, done.stdout.splitlines()[0]))
        for line, code in self.type_next(done.stdout):
            self.assertIn(code, (0, 1), line)

    def test_what_is_refused(self):
        self.write("nothing", repeat=3)
        done = self.tool("run", "-c", "config.json")
        self.assertEqual(done.code, 2)
        self.assertIn("/repeat", done.stderr)
        self.write("nothing")
        self.assertEqual(self.tool("bisect", "-c", "config.json").code, 2)


class OfBlocks(ToolTest):
    """What a checkpoint restores needs operators: recordings of blocks say so, and no broken restore passes."""

    def record_blocks(self, what):
        done = tool(self.folder, "exec", "--depth", "blocks", "-o", what, "--", *command(self.folder, what))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_broken_restore(self):
        refused = tool(self.folder, "exec", "--depth", "blocks", "--checkpoints", "-o", "whole", "--",
                       *command(self.folder, "whole"))
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("checkpoints", refused.stderr)
        self.record_blocks("whole")
        for fault in FAULTS:
            with self.subTest(fault):
                self.record_blocks(fault)
                resumed = tool(self.folder, "diff", "--resume", "whole", fault)
                self.assertEqual(resumed.returncode, 4, resumed.stdout)
                self.assertIn("a recording of blocks says nothing of what a checkpoint restores", resumed.stdout)
                self.assertIn("record both runs with --depth top", resumed.stdout)
                # Without being told that it resumes it is a run that has other steps.
                self.assertEqual(tool(self.folder, "diff", "whole", fault).returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
