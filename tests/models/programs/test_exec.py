# SPDX-License-Identifier: Apache-2.0
"""`exec`: unchanged Python programs are recorded and compute what they compute alone; what they
print, and how they end, is their own."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
import unittest
import zipfile
from pathlib import Path

from harness import ToolTest, need

need("torch")

import torch

ROOT = Path(__file__).resolve().parents[3]
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

    def manifest(self, dump):
        return json.loads((self.folder / dump / "manifest.json").read_text(encoding="utf-8"))

    def records(self, dump):
        listed = self.tool("inspect", dump, "--list", "--format", "json")
        self.assertEqual(listed.code, 0, listed.stderr)
        return json.loads(listed.stdout)["ops"]


class Training(Exec):
    @unittest.skipUnless(hasattr(torch._ops, "_higher_order_ops"), "this PyTorch keeps no list of them")
    def test_operators_that_take_functions(self):
        program = self.program("""
            import torch
            from torch._ops import HigherOrderOperator
            class Twice(HigherOrderOperator):
                def __init__(self): super().__init__("twice")
                def __call__(self, function, x): return super().__call__(function, x)
            twice = Twice()
            twice.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)(lambda function, x: function(function(x)))
            twice.py_impl(torch._C.DispatchKey.Autograd)(lambda function, x: function(function(x)))
            print(twice(torch.tanh, torch.ones(2)).sum().item().hex())
            taken = torch.ops.higher_order.cond(torch.tensor(True), lambda x: (x + 1,), lambda x: (x - 1,),
                                                (torch.ones(3),))
            print(taken[0].tolist())
        """)
        bare = subprocess.run([sys.executable, str(program)], env=CLEAN, capture_output=True, text=True,
                              cwd=self.folder)
        self.assertEqual(bare.returncode, 0, bare.stderr)
        self.assertEqual(self.python("dump", program).stdout, bare.stdout)
        self.assertEqual([each["operator"] for each in self.records("dump")].count("aten::tanh"), 2)

    def test_results_are_those_of_the_bare_program(self):
        bare = subprocess.run([sys.executable, str(TRAIN)], env=CLEAN, check=True,
                              capture_output=True, text=True, cwd=self.folder)
        for number in range(2):
            self.assertEqual(self.python(f"{number}", TRAIN).stdout, bare.stdout)
        report = self.compare("0", "1", 0)
        self.assert_reproducible(report, 600)
        self.assertEqual(self.tool("verify", "0", "1").code, 0)

    def test_batches_of_worker_processes_in_any_order(self):
        program = self.program("""
            import os, sys, time, torch
            torch.manual_seed(0)  # workers are seeded with a number that the loader draws
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
        result = self.python("A", program, flags=["--seed", "0"], code=4)
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

    def records_of_step(self, setup, step="optimizer.step()", *args):
        """What is recorded of a step, which stands between two marks of the program. Behind it contents are read."""
        program = self.program(f"""
            import torch
            model = torch.nn.Linear(3, 2)
            parameters = list(model.parameters())
            {setup}
            model(torch.ones(4, 3)).sum().backward()
            torch.ones(7)
            try:
                {step}
            except Exception as error:
                print(type(error).__name__)
            torch.ones(9).neg()
        """)
        self.printed = self.python("A", program, flags=("--force", *args)).stdout
        records = self.records("A")
        shapes = [[each["shape"] for each in record["outputs"]] for record in records]
        inside = records[shapes.index([[7]]) + 1:shapes.index([[9]])]
        self.assertEqual(records[-1]["operator"], "aten::neg")
        self.assertEqual(records[-1]["outputs"][0]["state"], "hashed")
        return inside

    def test_a_step_of_pytorchs_own_optimizer_is_one_record(self):
        made = "optimizer = torch.optim.SGD(parameters, lr=0.1)"
        own = f"""
            class Own(torch.optim.SGD):
                def step(self): torch.optim.SGD.step(self)
            optimizer = Own(parameters, lr=0.1)"""
        hooked = f"{made}; optimizer.register_step_pre_hook(lambda *args: None)"
        steps = self.records_of_step(made)
        self.assertEqual([each["operator"] for each in steps], ["repro_check::optimizer_step"])
        # What the step wrote is of the record.
        written = {each["slot"]: each["producer"] for each in steps[0]["outputs"]}
        self.assertEqual(written["param.weight"], steps[0]["index"])
        self.assertNotEqual(written["grad.weight"], steps[0]["index"])
        for setup in (own, hooked):
            with self.subTest(setup):
                inside = self.records_of_step(setup)
                self.assertGreater(len(inside), 1)
                self.assertEqual({each["phase"] for each in inside}, {"optimizer"})
        self.assertGreater(len(self.records_of_step(made, "optimizer.step()", "--optimizer", "operators")), 1)

    def test_steps_that_one_recording_alone_has_operators_of(self):
        self.python("A", TRAIN)
        self.python("B", TRAIN, flags=("--optimizer", "operators"))
        for pair in (("A", "B"), ("B", "A")):
            report = self.compare(*pair, 0)
            self.assertIn("they are of optimizers' steps, of which the other recording has what they left",
                          report["warnings"][0])

    def test_a_step_that_fails_does_not_end_the_recording(self):
        broken = "optimizer = torch.optim.SGD(parameters, lr=0.1); optimizer.param_groups[0]['lr'] = 'much'"
        self.assertEqual(self.records_of_step(broken), [])
        self.assertEqual(self.printed, "TypeError\n")

    def test_what_a_step_calls_for_its_loss_is_recorded(self):
        made = "optimizer = torch.optim.SGD(parameters, lr=0.1); loss = lambda: model(torch.ones(4, 3)).sum()"
        inside = self.records_of_step(made, "optimizer.step(loss)")
        self.assertEqual([each["operator"].partition(".")[0] for each in inside],
                         ["aten::ones", "aten::linear", "aten::sum", "repro_check::optimizer_step"])
        self.assertEqual([each["outputs"][0]["state"] for each in inside[:3]], ["hashed"] * 3)
        self.assertNotIn("optimizer", [each["phase"] for each in inside[:3]])

    def test_clipping_and_loss_scale(self):
        file = self.program("""
            import sys
            import torch
            from torch.nn.utils import clip_grad_norm_
            torch.manual_seed(0)
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

    def test_numbers_of_each_step(self):
        """At level digest: loss, gradient norm, and how far the parameters of two runs are apart."""
        file = self.program("""
            import sys
            import torch
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.ReLU(), torch.nn.Linear(400, 3))
            model[2].weight.data = model[2].weight.data.t().contiguous().t()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(4):
                optimizer.zero_grad()
                loss = model(torch.ones(5, 300)).pow(2).mean()
                loss.backward()
                if step == 2:
                    with torch.no_grad():
                        model[0].weight[:, 0] += float(sys.argv[2])
                optimizer.step()
                norm = sum(p.grad.double().pow(2).sum() for p in model.parameters()).sqrt().item()
                print(loss.item().hex(), norm.hex())
                torch.save([p.double() for p in model.parameters()], f"{sys.argv[1]}{step}.pt")
            """)
        printed = self.python("A", file, "a", "0", flags=["--level", "digest"]).stdout.split()
        self.python("B", file, "b", "1e-3", flags=["--level", "digest"])
        report = self.compare("A", "B", 1)
        steps = {series["number"]: series for series in report["steps"]}
        self.assertEqual(list(steps), ["loss", "gradient_norm", "learning_rate", "drift"])
        losses, norms = ([float.fromhex(text) for text in printed[i::2]] for i in (0, 1))
        self.assertEqual(steps["loss"]["baseline"], losses)
        for norm, expected in zip(steps["gradient_norm"]["baseline"], norms, strict=True):
            self.assertAlmostEqual(norm / expected, 1, delta=1e-12)
        self.assertEqual([series["first_apart"] for series in steps.values()], [3, 3, None, 2])
        self.assertEqual(steps["drift"]["candidate"][:2], [0, 0])
        for step in (2, 3):
            one, other = (torch.cat([p.flatten() for p in torch.load(self.folder / f"{name}{step}.pt")])
                          for name in "ab")
            drift = ((other - one).norm() / one.norm()).item()
            self.assertAlmostEqual(steps["drift"]["candidate"][step] / drift, 1, delta=0.5)
        text = self.tool("diff", "A", "B").stdout
        self.assertIn("apart since step 3; parameters apart since step 2 by", text)
        for name in "AB":
            self.assertEqual(self.tool("verify", name).code, 0)

    def test_numbers_of_python_are_shown_as_they_are(self):
        file = self.program("""
            import sys
            import torch
            weight = torch.ones(2, requires_grad=True)
            optimizer = torch.optim.SGD([weight], lr=float(sys.argv[1]))
            (weight * torch.tensor([float(sys.argv[2]), 1.0])).sum().backward()
            optimizer.step()
            """)
        self.python("A", file, "0.1", "1")
        self.python("B", file, "0.2", "1")
        items = self.compare("A", "B", 1)["divergences"]["items"]
        self.assertEqual(items[-1]["key"]["operator"], "repro_check::optimizer_step")
        self.assertEqual(items[-1]["notes"], ["lr[0]: 0.1 against 0.2"])
        self.python("C", file, "0.1", "1.0000002")
        report = self.compare("A", "C", 1)
        loss = next(op for op in report["divergences"]["items"]
                    if op["key"]["operator"] == "repro_check::loss")
        self.assertEqual([(s["baseline"]["value"], s["candidate"]["value"])
                          for s in loss["outputs"][0]["samples"]], [("2", "2.0000002")])

    def test_what_looks_at_a_model_is_evaluation(self):
        file = self.program("""
            import torch
            model = torch.nn.Linear(3, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                model(torch.ones(1, 3)).exp()
            with torch.inference_mode():
                model.weight.cos()
            model(torch.ones(1, 3)).tanh()
            """)
        self.python("A", file)
        phases = {record["operator"]: record["phase"] for record in self.records("A")}
        self.assertEqual([phases[name] for name in ("aten::exp", "aten::cos", "aten::tanh")],
                         ["eval", "eval", "loss"])

    def test_reductions_of_gradients(self):
        file = self.program("""
            import torch
            import torch.distributed as dist
            dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
            torch.manual_seed(0)
            model = torch.nn.parallel.DistributedDataParallel(
                torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(5, 4)).sum().backward()
                optimizer.step()
            dist.destroy_process_group()
            """)
        for name in "AB":
            (self.folder / "program.py.store").unlink(missing_ok=True)
            self.python(name, file, env={**CLEAN, "GLOO_SOCKET_IFNAME": "lo"})
        self.assert_reproducible(self.compare("A", "B", 0), 60)
        by_phase = {}
        for record in self.records("A"):
            by_phase.setdefault(record["phase"], set()).add(record["operator"])
        # Gradients come back from their bucket when all of it has been reduced.
        self.assertTrue({"c10d::allreduce_", "aten::copy_"} <= by_phase["reduce"], by_phase["reduce"])
        self.assertFalse({"c10d::allreduce_", "aten::copy_"} & by_phase["backward"], by_phase["backward"])
        self.assertTrue({"aten::mm", "aten::detach"} <= by_phase["backward"], by_phase["backward"])

    def test_what_the_program_sets_and_what_no_seed_pins(self):
        file = self.program("""
            import os, random, sys, time, uuid
            random.seed(3)
            import torch
            torch.manual_seed(5)
            torch.manual_seed(6)
            torch.use_deterministic_algorithms(True, warn_only=True)
            began = time.time()
            values = [uuid.uuid4().int % 7, random.SystemRandom().random(), time.perf_counter() % 1]
            torch.tensor(values).sum()
            """)
        lines = file.read_text().splitlines()
        at = {text: f"program.py:{1 + next(i for i, line in enumerate(lines) if text in line)}"
              for text in ("random.seed(3)", "manual_seed(5)", "manual_seed(6)", "warn_only", "time.time", "uuid4")}
        self.python("A", file, flags=["--seed", "0"])
        shown = json.loads(self.tool("inspect", "A", "--format", "json").stdout)
        facts = {fact["name"]: fact["value"] for fact in shown["manifest"]["environment"]}
        self.assertEqual((facts["set.random.seed"], facts["set_at.random.seed"]), ("(3)", at["random.seed(3)"]))
        self.assertEqual(facts["set.torch.manual_seed"], "(5), 2 calls, the last (6)")
        self.assertEqual(facts["set_at.torch.manual_seed"], f"{at['manual_seed(5)']} and {at['manual_seed(6)']}")
        self.assertEqual(facts["set.torch.use_deterministic_algorithms"], "(True, warn_only=True)")
        counted = {name: facts.get(f"unpinned.{name}") for name in
                   ("time.time", "time.perf_counter", "uuid", "random.SystemRandom", "hash")}
        one = "1 call, first at "
        self.assertEqual(counted, {"time.time": one + at["time.time"], "time.perf_counter": one + at["uuid4"],
                                   "uuid": one + at["uuid4"], "random.SystemRandom": one + at["uuid4"],
                                   "hash": None})
        self.python("B", file, flags=["--seed", "0"])
        shown = self.tool("diff", "A", "B").stdout
        self.assertIn("random.SystemRandom (1 call, first at", shown)
        self.assertIn(f"random.seed (3) at {at['random.seed(3)']}", shown)
        self.python("C", file)
        shown = json.loads(self.tool("inspect", "C", "--format", "json").stdout)
        facts = {fact["name"]: fact["value"] for fact in shown["manifest"]["environment"]}
        self.assertIn("PYTHONHASHSEED", facts["unpinned.hash"])

    def test_words_behind_an_option_are_the_programs(self):
        file = self.program("""
            import sys, torch
            print(sys.argv[1:])
            torch.ones(2) + 1
            """)
        for flag in (["--include", "aten::*"], ["--exclude", "aten::mul"], ["--phase", "setup"]):
            result = self.python("A", file, "--seed", "5", "--force", "--workers", flags=["--force", *flag])
            self.assertEqual(result.stdout, "['--seed', '5', '--force', '--workers']\n")
        result = self.python("B", file, flags=["--phase", "backward"], code=4)
        self.assertIn("ran no operator that was selected", result.stderr)
        result = self.tool("exec", "--", sys.executable, file)
        self.assertEqual(result.code, 0)
        self.assertIn("repro-check-out/exec-1", result.stderr)

    def test_a_loss_scale_that_is_off(self):
        file = self.program("""
            import torch
            layer = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(layer.parameters(), 0.1)
            scaler = torch.amp.GradScaler("cpu", enabled=False)
            scaler.scale(layer(torch.ones(2)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            """)
        self.assertNotIn("warning", self.python("A", file).stderr)

    def test_what_workers_take_from_the_host_is_told(self):
        file = self.program("""
            import time, torch
            class Data(torch.utils.data.Dataset):
                def __len__(self): return 8
                def __getitem__(self, i): return torch.full((4,), time.time() % 1 + i)
            torch.manual_seed(0)
            layer = torch.nn.Linear(4, 4)
            for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2):
                layer(batch)
            """)
        at = 1 + next(i for i, line in enumerate(file.read_text().splitlines()) if "time.time" in line)
        self.python("A", file)
        shown = json.loads(self.tool("inspect", "A", "--format", "json").stdout)
        facts = {fact["name"]: fact["value"] for fact in shown["manifest"]["environment"]}
        self.assertEqual(facts["unpinned.time.time"], f"in 2 forked processes, first at program.py:{at}")
        self.python("B", file)
        self.assertIn(f"time.time (in 2 forked processes, first at program.py:{at})", self.tool("diff", "A", "B").stdout)

    @unittest.skipUnless(hasattr(torch, "compiler"), "this PyTorch compiles no optimizer")
    def test_a_compiled_step_of_an_optimizer(self):
        file = self.program("""
            import torch
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            @torch.compile(backend="eager")
            def step():
                optimizer.step()
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(torch.ones(2, 4)).square().mean()
                loss.backward()
                step()
                print(loss.item())
            """)
        bare = subprocess.run([sys.executable, str(file)], env=CLEAN, check=True, capture_output=True, text=True)
        recorded = self.python("A", file)
        self.assertEqual(recorded.stdout, bare.stdout)
        # The compiler says nothing that it does not say of the program alone.
        self.assertEqual(recorded.stderr.count("Warning"), bare.stderr.count("Warning"), recorded.stderr)
        self.assertNotIn("repro_check_", recorded.stderr)
        operators = [r["operator"] for r in self.records("A")]
        self.assertEqual(operators.count("repro_check::optimizer_step"), 3)

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
        # A setting that the compiler has put back is none that the program set.
        facts = json.loads((self.folder / "A" / "manifest.json").read_text(encoding="utf-8"))["environment"]
        self.assertEqual([fact["name"] for fact in facts if fact["name"].startswith("set.")], ["set.torch.manual_seed"])
        self.python("B", file, "0.1")
        report = self.compare("A", "B", 0)
        self.assert_reproducible(report, 60)
        # Linear, GELU, Linear, pow and mean: those of the module, in three steps.
        self.assertEqual(report["coverage"]["fused_baseline"], 3 * 3)
        self.assertIn("9 inside compiled regions", self.tool("diff", "A", "B").stdout)
        self.assertIn("9 operators inside compiled regions", self.tool("inspect", "A").stdout)
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
        first, second = (self.python(name, file, flags=["--seed", "0"]).stdout for name in "AB")
        self.assertEqual(first, second)
        written = subprocess.run([sys.executable, "-c", SEEDED, str(file)], env={**CLEAN, "PYTHONHASHSEED": "0"},
                                 check=True, capture_output=True, text=True).stdout
        self.assertEqual(first.splitlines()[0], written.splitlines()[0])
        self.compare("A", "B", 0)
        other = self.python("C", file, flags=["--seed", "7"]).stdout
        self.assertNotEqual(first, other)
        self.compare("A", "C", 1)
        self.assertNotEqual(self.python("D", file).stdout, self.python("E", file, flags=["--no-seed"]).stdout)
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
                total += torch.tensor([number]).to(torch.float32).sum()
            print(total.item())
            """)
        for name in "ABC":
            self.python(name, file)
        self.assertNotIn("nobody has written", self.tool("diff", "A", "B").stdout)
        self.compare("A", "B", 0)
        self.compare("A", "C", 0)

    def test_memory_of_a_copied_tensor_is_no_finding_before_it_is_filled(self):
        file = self.program("""
            import copy, sys
            import torch
            torch.ones(1) + 1
            junk = [bytearray([int(sys.argv[1])]) * 4096 for _ in range(200)]
            del junk
            copies = [copy.deepcopy(torch.ones(1024)) for _ in range(20)]
            print(sum(each.sum().item() for each in copies))
            """)
        for name, byte in (("A", "1"), ("B", "2")):
            self.python(name, file, byte)
        self.compare("A", "B", 0)
        self.assertNotIn("nobody has written", self.tool("diff", "A", "B").stdout)

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

    def test_work_for_a_pool_of_threads_is_a_lane_each(self):
        file = self.program("""
            import asyncio
            from concurrent.futures import ThreadPoolExecutor
            from multiprocessing.pool import ThreadPool
            import torch
            torch.set_num_threads(1)
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
            def work(number):
                with torch.no_grad():
                    return model(torch.full((4, 8), float(number))).sum().item()
            with ThreadPoolExecutor(4) as pool:
                print(list(pool.map(work, range(40))))
            async def serve():
                return await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(8)))
            print(asyncio.run(serve()))
            with ThreadPool(3) as pool:
                print(pool.map(work, range(20)), pool.apply_async(work, (3,)).get())
            """)
        for number in range(3):
            self.python(f"{number}", file)
        for number in (1, 2):
            self.assert_reproducible(self.compare("0", f"{number}", 0), 150)

    def test_memory_that_no_operator_wrote(self):
        file = self.program("""
            import os
            import torch
            x = torch.empty(1000, dtype=torch.uint8)
            x.numpy()[:] = list(os.urandom(1000))
            torch.bitwise_not(x)
            """)
        for name in ("A", "B"):
            self.python(name, file)
        cause = self.compare("A", "B", 1)["first_divergence"]["cause"]
        self.assertIn("no recorded operator wrote it since op 0 aten::empty", json.dumps(cause))

    def test_no_torch_function_of_the_program_is_told_of_what_is_asked(self):
        file = self.program("""
            import torch
            from torch.overrides import TorchFunctionMode
            class Counting(TorchFunctionMode):
                calls = 0
                def __torch_function__(self, function, types, args=(), kwargs=None):
                    Counting.calls += 1
                    return function(*args, **(kwargs or {}))
            model = torch.nn.Linear(4, 2)
            optimizer = torch.optim.AdamW(model.parameters())
            with Counting():
                model(torch.ones(3, 4)).sum().backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            print(Counting.calls)
            """)
        bare = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.python("A", file).stdout, bare)

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

    def test_a_recording_that_grows_is_said_while_it_does_and_at_its_end(self):
        file = self.program("""
            import os, time, torch
            value = torch.ones(1 << 20)
            for _ in range(20):  # 80 MiB
                value = value + 1
            while not os.path.exists("go"):
                time.sleep(0.05)
            """)
        grown = (self.folder / "stderr").open("w+")
        self.addCleanup(grown.close)
        recorded = subprocess.Popen(
            [self.binary, "exec", "-o", "A", "--level", "tensor", "--timeout", "280", "--", sys.executable, file],
            cwd=self.folder, env=CLEAN, stderr=grown)
        while recorded.poll() is None and "in an hour" not in (self.folder / "stderr").read_text():
            time.sleep(0.1)
        (self.folder / "go").touch()
        self.assertEqual(recorded.wait(), 0)
        said = (self.folder / "stderr").read_text().splitlines()
        self.assertRegex(said[0], r"the recording has \d+ MB after \d+ s, which makes .* in an hour; --level digest")
        self.assertRegex(said[-1], r"the dump has \d+ MB; --level digest .*--steps.*--module")

    def test_an_uncaught_exception(self):
        file = self.program("""
            import torch
            torch.ones(2).sum()
            raise KeyError("mine")
            """)
        result = self.python("A", file, code=1)
        self.assertIn("KeyError: 'mine'", result.stderr)
        self.assertNotIn("repro_check_hooks", result.stderr)
        self.assertEqual(self.tool("verify", "A").code, 0)

    def test_a_name_that_hooks_lean_on_and_is_missing_is_in_the_manifest(self):
        file = self.program("""
            import sys, torch
            del sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks
            del torch.utils.data.dataloader._BaseDataLoaderIter
            torch.ones(2).sum()
            """)
        self.python("A", file)
        self.assertEqual([(note["where"], note["error"], note["count"]) for note in self.manifest("A")["notes"]], [
            ("torch.optim.optimizer._global_optimizer_pre_hooks", "this release has no such name, so a step with hooks of "
             "the program may count as one of PyTorch's own", 1),
            *(("torch.utils.data.dataloader._BaseDataLoaderIter" + name, "this release has no such name, so " + lost, 1)
              for name, lost in (
                  ("", "batches of data loaders are not recorded"),
                  ("()._dataset", "the samples of a batch are not recorded"),
                  ("()._num_workers", "the samples of a batch are not recorded"),
                  ("()._num_yielded", "the position of a loader before a checkpoint is not recorded"),
                  ("._next_index", "the samples of a batch are not recorded")))])
        self.assertIn("so batches of data loaders are not recorded", self.tool("diff", "A", "A").stdout)

    def test_how_it_ends_is_in_the_manifest_and_compared(self):
        self.program("""
            import sys, threading, torch
            torch.ones(2).sum()
            how = sys.argv[1]
            if how == "raise": raise ValueError("of nobody's business")
            if how == "thread":
                thread = threading.Thread(target=lambda: [][1], name="second")
                thread.start()
                thread.join()
            if how == "caught":  # as a runner of tests keeps it
                try: [][1]
                except IndexError as error: sys.last_value = error
            sys.exit(3 if how == "exit" else 0)
            """)
        for how, code in (("well", 0), ("exit", 3), ("raise", 1), ("thread", 0), ("caught", 0)):
            for number in "12":
                self.python(how + number, "program.py", how, code=code)
        ends = {how: self.manifest(how + "1")["end"] for how in ("well", "exit", "raise", "thread", "caught")}
        self.assertEqual([ends["well"], ends["exit"], ends["caught"]],
                         [{"exit_code": 0}, {"exit_code": 3}, {"exit_code": 0}])
        raised = ends["raise"]["exception"]
        self.assertEqual((ends["raise"]["exit_code"], raised["type"], raised["line"]), (1, "ValueError", 5))
        self.assertTrue(raised["file"].endswith("program.py"))
        self.assertNotIn("thread", raised)
        self.assertNotIn("business", (self.folder / "raise1/manifest.json").read_text())
        of_thread = ends["thread"]["exception"]
        self.assertEqual((ends["thread"]["exit_code"], of_thread["type"], of_thread["thread"]),
                         (0, "IndexError", "second"))
        for one, other, code in (("well1", "well2", 0), ("exit1", "exit2", 0), ("caught1", "caught2", 0),
                                 ("raise1", "raise2", 4), ("thread1", "thread2", 4), ("well1", "exit1", 4),
                                 ("well1", "raise1", 4)):
            with self.subTest(one=one, other=other):
                report = self.compare(one, other, code)
                self.assertEqual(report["verdict"]["status"], "not_comparable" if code else "reproducible")
                self.assertEqual(any("ValueError" in reason and "program.py:5" in reason
                                     for reason in report["verdict"]["reasons"]), "raise1" in (one, other))

    def test_a_run_has_an_id_of_its_own(self):
        for number in "12":
            self.python(number, "-c", "import torch; torch.ones(2).sum()")
        ids = [self.manifest(number)["run_id"] for number in "12"]
        self.assertTrue(all(re.fullmatch("[0-9a-f]{32}", each) for each in ids), ids)
        self.assertNotEqual(*ids)
        self.assertNotIn("attempt", self.manifest("1"))
        self.python("3", "-c", "import torch; torch.ones(2).sum()", env={**CLEAN, "TORCHELASTIC_RESTART_COUNT": "2"})
        self.assertEqual(self.manifest("3")["attempt"], 2)

    def test_a_hook_that_failed_keeps_runs_from_passing(self):
        program = self.program("""
            import torch
            model = torch.nn.Module()
            weight = torch.nn.Parameter(torch.ones(2))
            model.register_parameter("\\0w", weight)  # no C string
            optimizer = torch.optim.Adam([weight])
            model.forward = lambda x: (x * weight).sum()
            model(torch.ones(2)).backward()
            optimizer.step()
            """)
        for number in "12":
            self.python(number, program)
        notes = self.manifest("1")["notes"]
        self.assertTrue(all(set(note) == {"where", "error", "count"} for note in notes))
        self.assertIn("ValueError: a name has a null in it", [note["error"] for note in notes])
        report = self.compare("1", "2", 4)
        self.assertTrue(any("a name has a null in it" in reason for reason in report["verdict"]["reasons"]))

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
        self.assertIn("did not end by itself", result.stderr)
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
        self.assertIn("so no probe or recorder fits it", result.stderr)

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
        self.assertEqual([r["operator"] for r in self.records("A")][-1], "aten::cos")
        self.assertEqual(sorted(path.name for path in (self.folder / "A").iterdir()),
                         ["manifest.json", "proc-1", "proc-2", "trace.h5"])

    def test_the_programs_own_sitecustomize_runs(self):
        place = self.folder / "mine"
        place.mkdir()
        (place / "sitecustomize.py").write_text("import sys\nsys.mine = 5\n")
        result = self.python("A", "-c", "import sys, torch; torch.ones(2); print(sys.mine)",
                             env={**CLEAN, "PYTHONPATH": str(place)})
        self.assertEqual(result.stdout, "5\n")


class HostGenerators(Exec):
    """Python's `random` and NumPy's global generator, from which no operator draws."""

    def augmented(self, seed="", extra=""):
        return self.program(f"""
            import random
            import torch
            {seed}
            torch.manual_seed(3)
            class Sentences(torch.utils.data.Dataset):
                def __len__(self): return 32
                def __getitem__(self, index):
                    x = torch.full((4,), float(index))
                    if random.random() < 0.5:
                        x[0] = 0
                    return x
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for number, x in enumerate(torch.utils.data.DataLoader(Sentences(), batch_size=8)):
                {extra or "pass"}
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            """)

    def cause(self, one, other):
        return self.compare(one, other, 1)["first_divergence"]["cause"]

    def test_never_seeded(self):
        for number in "12":
            self.python(number, self.augmented())
        cause = self.cause("1", "2")
        self.assertEqual(cause["name"], "rng stream")
        self.assertRegex(cause["evidence"], r"random numbers were not seeded: Python's `random` stood .*program\.py:(9|1[0-2])\b")

    def test_moved_otherwise(self):
        for number, extra in (("1", ""), ("2", "if number == 1: random.random()")):
            self.python(number, self.augmented("random.seed(5)", extra))
        cause = self.cause("1", "2")
        self.assertEqual(cause["name"], "rng stream")
        self.assertRegex(cause["evidence"], r"`random` moved otherwise.*since op \d+ repro_check::\w+")

    def test_seeded_otherwise(self):
        for number in "12":
            self.python(number, self.augmented(f"random.seed({number})"))
        evidence = self.cause("1", "2")["evidence"]
        self.assertRegex(evidence, r"random\.seed \(1\) at \S+:4 in the baseline, by random\.seed \(2\)")

    def test_a_pass_says_which_moved_and_who_seeded_them(self):
        for number in "12":
            self.python(number, self.augmented(), flags=["--seed", "0"])
        self.assertEqual([each["text"] for each in self.compare("1", "2", 0)["random"]["of_host"]],
                         ["Python's `random` moved, seeded by repro-check (0)"])
        facts = {fact["name"]: fact["value"] for fact in self.manifest("1")["environment"]}
        self.assertEqual(facts["moved.random"], "true")
        if "moved.numpy" in facts:
            self.assertEqual(facts["moved.numpy"], "false")
        for number in "34":
            self.python(number, "-c", "import random, torch; random.seed(7); torch.ones(2).sum()")
        self.assertNotIn("random", self.compare("3", "4", 0))

    def test_numpy(self):
        need("numpy")
        for number, seed in (("1", "--seed 1"), ("2", "--seed 2")):
            self.python(number, "-c", "import numpy, torch; torch.ones(2).mul(float(numpy.random.rand()))",
                        flags=seed.split())
        self.assertIn("NumPy's global generator was seeded otherwise", self.cause("1", "2")["evidence"])


class Imports(Exec):
    """However PyTorch comes into the process, what it computes from then on is recorded."""

    USE = "print(torch.sin(torch.ones(2)).sum().item())\n"
    WAYS = {
        "asked for before": "import importlib.util; assert importlib.util.find_spec('torch'); import torch",
        "asked for by pkgutil": "import pkgutil; torch = pkgutil.resolve_name('torch:nn') and __import__('torch')",
        "loaded at its first use": """
            import importlib.util, sys
            spec = importlib.util.find_spec("torch")
            spec.loader = importlib.util.LazyLoader(spec.loader)
            torch = sys.modules["torch"] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(torch)
            import colorsys, torch
            """,
        "made of its specification": """
            import importlib.util, sys
            spec = importlib.util.find_spec("torch")
            torch = sys.modules["torch"] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(torch)
            """,
        "by a finder of the program's": """
            import importlib.machinery, sys
            class Finder:
                @staticmethod
                def find_spec(name, path=None, target=None):
                    return importlib.machinery.PathFinder.find_spec(name, path) if name == "torch" else None
            sys.meta_path.insert(0, Finder)
            import torch, colorsys
            """,
        "by a loader of the program's": """
            import importlib.machinery, importlib.util, sys
            found = importlib.machinery.PathFinder.find_spec("torch")
            spec = importlib.util.spec_from_file_location("torch", found.origin)
            torch = sys.modules["torch"] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(torch)
            import colorsys
            """,
        "at the second try": """
            import sys
            sys.modules["torch.version"] = None
            try: import torch
            except ImportError: del sys.modules["torch.version"]
            assert "torch" not in sys.modules
            for name in [name for name in sys.modules if name.startswith("torch.")]: del sys.modules[name]
            import torch
            """,
    }

    def test_ways_in(self):
        for number, (way, text) in enumerate(self.WAYS.items()):
            with self.subTest(way):
                file = self.program(textwrap.dedent(text) + "\n" + self.USE)
                self.assertNotEqual(self.python(f"{number}", file).stdout, "")
                self.assertIn("aten::sin", [each["operator"] for each in self.records(f"{number}")])

    def test_started_as_a_module_and_from_an_archive(self):
        file = self.program("import torch\n" + self.USE, "__main__.py")
        for number, arguments in enumerate((["-m", "program"], ["program.zip"],
                                            ["-c", "import runpy; runpy.run_path('program.zip')"])):
            if number == 0:
                file.rename(self.folder / "program.py")
            elif number == 1:
                with zipfile.ZipFile(self.folder / "program.zip", "w") as archive:
                    archive.write(self.folder / "program.py", "__main__.py")
            with self.subTest(arguments):
                self.python(f"{number}", *arguments)
                self.assertIn("aten::sin", [each["operator"] for each in self.records(f"{number}")])

    def test_the_command_sets_the_path(self):
        (self.folder / "mine").mkdir()
        self.program("used = 3", "mine/helper.py")
        file = self.program("import helper, os, torch\ntorch.sin(torch.ones(helper.used))\n")
        for number, command in enumerate((["env", "PYTHONPATH=mine", sys.executable, file],
                                          ["bash", "-c", f"PYTHONPATH=mine {sys.executable} {file}"],
                                          [sys.executable, "-c", f"""if True:
                                              import os, subprocess, sys
                                              environment = {{**os.environ, "PYTHONPATH": "mine"}}
                                              subprocess.run([sys.executable, "{file}"], env=environment, check=True)
                                              """])):
            with self.subTest(command[0]):
                self.exec(f"{number}", *command)
                self.assertIn("aten::sin", [each["operator"] for each in self.records(f"{number}")])

    def test_a_specification_and_a_failed_import_are_as_without_us(self):
        text = """
            import importlib.util, os, sys, traceback
            spec = importlib.util.find_spec("random")
            spec = importlib.util.find_spec("torch")
            print(type(spec.loader), spec.origin, spec.loader.get_filename(), spec.submodule_search_locations)
            sys.path.insert(0, os.getcwd())
            try: import torch
            except ImportError: traceback.print_exc(file=sys.stdout)
            """
        place = self.folder / "torch"
        place.mkdir()
        (place / "__init__.py").write_text("import nothing_of_this_name\n")
        file = self.program(text)
        bare = subprocess.run([sys.executable, str(file)], env=CLEAN, capture_output=True, text=True,
                              cwd=self.folder)
        self.assertIn("nothing_of_this_name", bare.stdout)
        self.assertEqual(self.python("A", file, code=4).stdout, bare.stdout)

    def test_a_module_that_is_loaded_again_is_seeded_again(self):
        file = self.program("""
            import importlib, random, torch
            importlib.reload(random)
            print(random.random(), torch.ones(2).sum().item())
            """)
        self.assertEqual(*(self.python(name, file, flags=["--seed", "0"]).stdout for name in "AB"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
