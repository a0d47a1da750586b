# SPDX-License-Identifier: Apache-2.0
"""A configuration with a program: whatever `run` does with a model it does with a program."""
import json
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch")

TRAIN = Path(__file__).resolve().parents[3] / "examples" / "train.py"
STEP = next(number for number, line in enumerate(TRAIN.read_text().splitlines(), 1)
            if "optimizer.step()" in line)
EPOCH = [sys.executable, str(TRAIN), "--epochs", "1"]


class Program(ToolTest):
    def write(self, text, name="program.py"):
        file = self.folder / name
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file

    def write_config(self, fields):
        file = self.folder / "config.json"
        file.write_text(json.dumps(fields), encoding="utf-8")
        return file

    def of_epsilons(self, one="1e-8", other="1e-7"):
        return {"program": {"command": [*EPOCH, "--eps", one]},
                "runs": [{"name": "baseline"},
                         {"name": "candidate", "program": {"command": [*EPOCH, "--eps", other]}}]}


class Run(Program):
    def test_training_repeats(self):
        self.assertEqual(self.tool("init", "--program", "-o", "config.json", "--", *EPOCH).code, 0)
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertIn("REPRODUCIBLE at the borders of ", shown.stdout)
        self.assertNotIn("returned", shown.stdout)
        three = self.tool("run", "-c", "config.json", "-n", "3", "--format", "json")
        self.assertEqual(three.code, 0, three.stdout[-2000:] + three.stderr)
        self.assertEqual(json.loads(three.stdout)["repeat"]["judged"], 2)

    def test_quantised_layers_repeat(self):
        """They are made with weights that nobody has written, and are given their own afterwards."""
        program = self.write("""
            import os
            import torch
            from torch.ao.quantization import quantize_dynamic
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).eval()
            litter = [os.urandom(4096) for _ in range(500)]
            del litter
            quantised = quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
            print(quantised(torch.ones(2, 64)).sum())
        """)
        self.write_config({"program": {"command": [sys.executable, "-W", "ignore", str(program)]}})
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)

    def test_threads_beside_the_training_repeat(self):
        program = self.write("""
            import concurrent.futures
            import copy
            import random
            import threading
            import time
            import torch
            torch.manual_seed(1)
            model = torch.nn.Linear(4, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            moods = random.SystemRandom()
            def beside():
                for i in range(10):
                    torch.ones(3) * i
                    time.sleep(0.02 * moods.random())
            thread = threading.Thread(target=beside)
            thread.start()
            for _ in range(6):
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()
                time.sleep(0.03 * moods.random())
            thread.join()
            def evaluate(copied):
                time.sleep(0.02 * moods.random())
                return copied(torch.ones(1, 4))
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(evaluate, [copy.deepcopy(model) for _ in range(6)]))
        """)
        self.write_config({"program": {"command": [sys.executable, str(program)]}})
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)

    def test_whole_trainings_in_threads_repeat(self):
        """Which of them calls its model or makes a step first is decided by their race."""
        program = self.write("""
            import os
            import threading
            import time
            import torch
            torch.manual_seed(1)
            models = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)) for _ in range(2)]
            def train(number):
                generator = torch.Generator().manual_seed(number)
                optimizer = torch.optim.AdamW(models[number].parameters(), lr=0.01)
                for step in range(8):
                    time.sleep(os.getpid() % 2 * 0.01 * number)
                    loss = models[number](torch.randn(4, 8, generator=generator)).pow(2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            threads = [threading.Thread(target=train, args=(number,)) for number in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with torch.no_grad():
                print([model(torch.ones(8)).item() for model in models])
        """)
        self.write_config({"program": {"command": [sys.executable, str(program)]}})
        shown = self.tool("run", "-c", "config.json", "-n", "4")
        self.assertEqual(shown.code, 0, shown.stdout[-3000:] + shown.stderr)
        self.assertIn("REPRODUCIBLE", shown.stdout)

    def test_a_model_that_threads_share_is_named_by_the_first_of_them_in_order(self):
        command = [sys.executable, str(self.write("""
            import sys
            import threading
            import torch
            torch.manual_seed(1)
            models = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)) for _ in range(2)]
            was_called = threading.Event()
            def call(number):
                if number != int(sys.argv[1]):
                    was_called.wait()
                for model in models[::-1 if number else 1]:
                    model(torch.full((2, 4), float(number)))
                was_called.set()
            threads = [threading.Thread(target=call, args=(number,)) for number in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """))]
        self.write_config({"program": {"command": command},
                           "runs": [{"name": name, "program": {"command": [*command, name]}} for name in "01"]})
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        listed = self.tool("inspect", "repro-check-out/1", "--list", "--format", "json").stdout
        self.assertIn("Sequential@main:0#2.1", listed)
        self.assertNotIn("Sequential@main:1", listed)

    def test_what_parts_inside_of_transforms_is_found_there(self):
        program = self.write("""
            import sys
            import torch
            from torch.func import grad, vmap
            def loss(weight, x):
                hidden = x @ weight
                hidden = hidden * float(sys.argv[1])
                return hidden.sum()
            print(vmap(grad(loss), in_dims=(None, 0))(torch.ones(4, 2), torch.ones(3, 4)).sum())
        """)
        command = [sys.executable, str(program)]
        self.write_config({"program": {"command": [*command, "1"]},
                           "runs": [{"name": "one"},
                                    {"name": "two", "program": {"command": [*command, "2"]}}]})
        found = self.tool("run", "-c", "config.json")
        self.assertEqual(found.code, 1, found.stderr)
        self.assertRegex(found.stdout, r"(?s)^DIVERGED at step 0: .* aten::mul \(program.py:7\): .*origin")

    def compare(self, text, *more, **fields):
        """The first divergence of a program, and what is said of it. Its first argument tells the two runs apart."""
        command = [sys.executable, str(self.write(text))]
        runs = [{"name": name, "program": {"command": [*command, str(number), *more]}}
                for number, name in enumerate(("baseline", "candidate"))]
        self.write_config({"program": {"command": command}, "runs": runs, **fields})
        report = self.tool("run", "-c", "config.json", "--format", "json")
        self.assertEqual(report.code, 1, report.stdout[-2000:] + report.stderr)
        return json.loads(report.stdout)["first_divergence"]

    def test_tensors_in_another_order_are_an_origin_of_the_program(self):
        """As a set of parameters has them, whose order is that of addresses."""
        first = self.compare("""
            import sys
            import torch
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
            parameters = list(model.parameters())[::1 if sys.argv[1] == "0" else -1]
            optimizer = torch.optim.SGD(parameters, lr=0.1)
            model(torch.ones(3, 4)).sum().backward()
            torch.nn.utils.clip_grad_norm_(parameters, 0.1)
            optimizer.step()
        """, dump={"depth": "top"})  # what comes of it is the same
        self.assertEqual((first["relation"], first["cause"]["name"]), ("origin", "argument differs"))
        self.assertEqual((first["key"]["operator"], first["source"]["line"]), ("aten::_foreach_norm.Scalar", 9))
        self.assertIn("it was given the same tensors in another order: argument `self.", first["cause"]["evidence"])
        self.assertIn("the order of a set", first["cause"]["advice"])

    def test_a_longer_list_of_tensors_is_an_argument(self):
        first = self.compare("""
            import sys
            import torch
            parts = [torch.full((2,), float(i)) for i in range(4)]
            print(torch.cat(parts[:3 + int(sys.argv[1])]).sum())
        """)
        self.assertEqual(first["cause"]["name"], "argument differs")
        self.assertEqual(first["cause"]["evidence"], "it was given 1 tensor more in the candidate: argument `tensors.3`; "
                         "the command lines differ: 0 -> 1")

    def test_another_norm_to_clip_by_is_named(self):
        first = self.compare("""
            import sys
            import torch
            torch.manual_seed(1)
            model = torch.nn.Linear(4, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(2):
                model(torch.ones(3, 4)).pow(2).sum().backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0 - 0.5 * int(sys.argv[1]))
                optimizer.step()
        """)
        self.assertEqual((first["cause"]["name"], first["source"]["line"]), ("argument differs", 9))
        self.assertEqual(first["cause"]["evidence"], "gradients are clipped by another norm: max_norm 1.0 -> 0.5")

    def test_a_variable_that_the_runs_were_given_is_a_suspect(self):
        program = self.write("""
            import os
            import torch
            print(torch.ones(3).mul(float(os.environ.get("SCALE", "1"))).sum())
        """)
        self.write_config({"program": {"command": [sys.executable, str(program)]},
                           "runs": [{"name": "baseline"}, {"name": "candidate", "env": {"SCALE": "2"}}]})
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 1, shown.stderr)
        self.assertIn("argument `other` differs, 1 -> 2, and no recorded operator made it: the program did; "
                      "suspect: env.SCALE as found -> 2\n", shown.stdout)
        self.assertIn("  differ     env.SCALE as found -> 2\n", shown.stdout)
        self.assertIn('  fix        give both runs "env": {"SCALE": "2"}\n', shown.stdout)
        self.assertIn("""--set '/runs/0/env/SCALE="2"'""", shown.stdout)

    def test_threads_that_the_program_sets_are_its_own_to_set(self):
        first = self.compare("""
            import sys
            import torch
            torch.set_num_threads(1 + int(sys.argv[1]))
            torch.manual_seed(1)
            print(torch.randn(1 << 22).sum())
        """)
        self.assertEqual(first["cause"]["name"], "threads")
        self.assertEqual(first["cause"]["advice"], "let the program set it alike in both runs: torch.set_num_threads "
                                                   "(1) at program.py:4 -> (2) at program.py:4")

    def test_how_many_workers_load_is_no_divergence(self):
        command = [sys.executable, str(self.write("""
            import sys
            import torch
            torch.manual_seed(1)
            data = torch.utils.data.TensorDataset(torch.arange(24.0).reshape(12, 2))
            loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, num_workers=int(sys.argv[1]),
                                                 generator=torch.Generator().manual_seed(3))
            model = torch.nn.Linear(2, 1)
            for epoch in range(2):
                for x, in loader:
                    model(x).sum().backward()
        """))]
        self.write_config({"program": {"command": command}, "dump": {"depth": "top"},
                           "runs": [{"name": str(workers), "program": {"command": [*command, str(workers)]}}
                                    for workers in (0, 2)]})
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertIn("REPRODUCIBLE with seed 0 set by repro-check: ", shown.stdout)
        self.assertRegex(shown.stdout, r"\d+ operators of the candidate left out: they are of loaders, of which some")
        self.assertNotIn("took other arguments", shown.stdout)

    GROUPED = """
            import sys
            import torch
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
            parameters = list(model.parameters())[::1 if sys.argv[1] == "0" else -1]
            groups = parameters
            if sys.argv[2:] and sys.argv[1] == "1":
                groups = [{"params": parameters[:2]}, {"params": parameters[2:], "weight_decay": 0}]
            optimizer = torch.optim.AdamW(groups, lr=0.1)
            for step in range(2):
                loss = model(torch.ones(3, 4)).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """

    def test_the_order_of_an_optimizers_parameters_is_no_divergence(self):
        program = [sys.executable, str(self.write(self.GROUPED))]
        runs = [{"name": name, "program": {"command": [*program, name]}} for name in "01"]
        config = self.write_config({"program": {"command": program}, "runs": runs})
        shown = self.tool("run", "-c", str(config))
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertNotIn("parameters apart", shown.stdout)

    def test_groups_with_other_options_are_named(self):
        first = self.compare(self.GROUPED, "grouped")
        self.assertIn("the optimizer was given different numbers: option.weight_decay[1]: nothing against 0",
                      first["cause"]["evidence"])
        self.assertIn("give the optimizers of both the same options", first["cause"]["advice"])

    def test_what_a_hook_or_a_backward_of_the_program_computes_stands_at_its_line(self):
        text = """
            import sys
            import torch
            torch.manual_seed(1)
            class Scaled(torch.autograd.Function):
                @staticmethod
                def forward(context, x):
                    return x * 2
                @staticmethod
                def backward(context, gradient):
                    return torch.relu(gradient * (2 + float(sys.argv[1])))
            def hook(gradient):
                return gradient * (1 + float(sys.argv[1]))
            layer = torch.nn.Linear(4, 1)
            out = layer(torch.ones(3, 4))
            if sys.argv[2] == "hook":
                layer.weight.register_hook(hook)
            else:
                out = Scaled.apply(out)
            out.sum().backward()
        """
        for where, line in (("hook", 13), ("function", 11)):
            first = self.compare(text, where)
            self.assertEqual((first["key"]["phase"], first["key"]["operator"], first["source"]["line"]),
                             ("backward", "aten::mul.Tensor", line), first["cause"])

    def test_a_setting_that_the_program_sets_is_named(self):
        first = self.compare("""
            import sys
            import torch
            torch.manual_seed(1)
            torch.backends.mkldnn.enabled = sys.argv[1] == "0"
            print(torch.nn.Conv2d(3, 8, 3)(torch.randn(2, 3, 32, 32)).sum())
        """)
        self.assertEqual(first["cause"]["name"], "settings differ")
        self.assertIn("suspect: mkldnn.enabled on -> off", first["cause"]["evidence"])
        self.assertEqual(first["cause"]["advice"], "let the program set mkldnn.enabled alike in both runs")

    # As the default is on a device, and on a CPU.
    ON_TWO_DEVICES = """
        import sys
        import torch
        other = sys.argv[1] == "1"
        torch.manual_seed(int(sys.argv[2]))
        torch.rand(8 if other else 4)  # a device takes another number of its generator
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.AdamW(model.parameters(), foreach=other)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
        if hasattr(torch, "func"):  # one draw for all would be no other one for each
            noise = torch.func.vmap(lambda x: x + torch.rand(()), randomness="different")(torch.zeros(3))
            assert len(set(noise.tolist())) == 3, noise
    """

    def test_two_devices_draw_the_same_numbers_and_make_a_step_in_two_ways(self):
        program = [sys.executable, str(self.write(self.ON_TWO_DEVICES))]
        rules = [{"match": {"operator": "aten::rand"}, "policy": "ignore"}]

        def fields_for(seed, **more):
            return {"program": {"command": program}, "preset": "cross-device", "disable_dropout": False,
                    "compare": {"rules": rules, "unmatched": "policy"},
                    "runs": [{"name": "one", "program": {"command": [*program, "0", "0"]}},
                             {"name": "other", "program": {"command": [*program, "1", seed]}}], **more}

        self.write_config(fields_for("0"))
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertRegex(shown.stdout, r"random +\d+ operators drew from host \(seed 0\)")
        self.assertIn("of an optimizer's step what it leaves", shown.stdout)
        self.write_config(fields_for("0", rng="device"))
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 1)
        self.assertIn("it drew 4 against 8 numbers", shown.stdout)
        self.assertIn("--set /rng=host", shown.stdout)
        for rng in "device", "host":  # which follows the seeds of the program
            self.write_config(fields_for("1", rng=rng))
            shown = self.tool("run", "-c", "config.json")
            self.assertEqual(shown.code, 1, shown.stdout + shown.stderr)
            self.assertIn("the generators started apart (seed 0 against 1)", shown.stdout)
            self.assertNotIn("--set /rng=host", shown.stdout)

    # What each prints has to be the same, however often it sets its generators back.
    SETS_BACK = """
        import sys
        import torch
        from torch.utils.checkpoint import checkpoint
        again = sys.argv[1] == "1"
        torch.manual_seed(5)
        layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout()) for _ in range(3))

        def digest(tensors):
            return [tensor.detach().double().pow(3).sum().item() for tensor in tensors]

        for step in range(2):
            x = torch.randn(4, 8, requires_grad=True)
            out = x
            for layer in layers:
                out = checkpoint(layer, out, use_reentrant=step == 0) if again else layer(out)
            out.sum().backward()
            print("gradients", digest([x.grad] + [p.grad for p in layers.parameters()]))

        own = torch.Generator().manual_seed(9)
        for epoch in range(2):
            torch.manual_seed(7)
            state = torch.get_rng_state()
            before = torch.nn.functional.dropout(torch.ones(64)), torch.randn(3, generator=own), torch.randperm(9)
            if again:
                with torch.random.fork_rng():
                    torch.manual_seed(3 + epoch)
                    torch.rand(10)
                here = torch.get_rng_state()
                torch.set_rng_state(state)
                own.manual_seed(9)
                after = torch.nn.functional.dropout(torch.ones(64)), torch.randn(3, generator=own), torch.randperm(9)
                assert all(map(torch.equal, before, after))
                torch.set_rng_state(here)
            own.manual_seed(9)
            print("epoch", digest(before), digest([torch.rand(4)]))
    """

    def test_generators_that_a_program_sets_back_have_the_numbers_of_the_host_again(self):
        program = self.write(self.SETS_BACK)
        printed = []
        for again in "01":
            done = self.tool("exec", "--rng", "host", "-o", f"dump-{again}", "--", sys.executable, str(program), again)
            self.assertEqual(done.code, 0, done.stderr)
            printed.append(done.stdout.splitlines())
        self.assertEqual(printed[0], printed[1])
        self.assertEqual(len(set(printed[0])), 3, printed[0])  # the epochs are alike, the steps are not

    def test_threads_that_pin_batches_take_them_as_they_come(self):
        """As the one of a loader does, which needs a device."""
        program = self.write("""
            import os
            import threading
            import torch
            from torch.utils.data._utils import pin_memory
            torch.manual_seed(1)
            batches = [torch.randn(4), torch.randn(4)]
            def loop(order):
                for each in order:
                    batches[each] = batches[each].clone()
            pin_memory._pin_memory_loop = loop
            order = range(2) if os.environ["REPRO_CHECK_TEST"] == "0" else range(1, -1, -1)
            thread = threading.Thread(target=pin_memory._pin_memory_loop, args=(order,))
            thread.start()
            thread.join()
            print(sum(batches).sum())
        """)
        command = [sys.executable, str(program)]
        self.write_config({"program": {"command": command},
                           "runs": [{"name": "one", "env": {"REPRO_CHECK_TEST": "0"}},
                                    {"name": "other", "env": {"REPRO_CHECK_TEST": "1"}}]})
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)

    def test_what_came_of_nothing_is_no_place_to_look_at(self):
        first = self.compare("""
            import sys, torch
            w = torch.zeros(3, requires_grad=True)
            (w * float(sys.argv[1])).sum().backward()
            torch.optim.SGD([w], 0.1).step()
        """)
        self.assertEqual(first["key"]["phase"], "backward")
        self.assertEqual(first["relation"], "origin")
        self.assertIn("argument `other` differs, 0 -> 1, and no recorded operator made it", first["cause"]["evidence"])

    def test_options_of_an_optimizer_that_one_run_alone_has_operators_for(self):
        for text in ("torch.optim.Adam(model.parameters(), weight_decay=0.1 * int(sys.argv[1]))",
                     "torch.optim.Adam(model.parameters(), weight_decay=0.1 - 0.1 * int(sys.argv[1]))"):
            first = self.compare(f"""
                import sys, torch
                model = torch.nn.Linear(3, 1)
                optimizer = {text}
                model(torch.ones(2, 3)).sum().backward()
                optimizer.step()
            """)
            self.assertIn("the optimizer was given different numbers: option.weight_decay[0]", first["cause"]["evidence"])

    def test_unread_tensors_are_not_known_to_be_the_same(self):
        first = self.compare("""
            import sys, torch
            parameters = [torch.nn.Parameter(torch.rand(n)) for n in (2, 3, 4)]

            class Sign(torch.optim.Optimizer):
                @torch.no_grad()
                def step(self):
                    for each in self.param_groups[0]["params"]:
                        if each.grad is not None:
                            each.sub_(each.grad.sign(), alpha=0.1)

            optimizer = Sign(parameters, {})
            sum((each * each).sum() for each in parameters).backward()
            if sys.argv[1] == "1":
                parameters[0].grad = None
            optimizer.step()
        """)
        self.assertIn("it was given another tensor", first["cause"]["evidence"])

    def test_what_an_operator_of_one_run_stands_in_the_place_of(self):
        first = self.compare("""
            import sys, torch
            logits = torch.rand(2, 4)
            taken = logits.argmax(-1) if sys.argv[1] == "1" else torch.multinomial(logits.softmax(-1), 1).squeeze(-1)
            print(torch.nn.Embedding(4, 2)(taken).sum())
        """)
        self.assertRegex(first["cause"]["advice"], "^look at what leads to this line in each run")

    def test_numbers_that_python_made_a_tensor_of(self):
        first = self.compare("""
            import sys, torch
            print(torch.nn.Linear(3, 1)(torch.tensor([float(sys.argv[1]), 2., 3.])))
        """)
        self.assertIn("made room for it: the program did", first["cause"]["evidence"])
        self.assertNotIn("nobody", first["cause"]["evidence"])

    def test_a_compiled_function_is_at_a_line_of_the_programs(self):
        first = self.compare("""
            import sys, torch

            @torch.compile(backend="eager")
            def scaled(x):
                return (x + 1) * float(sys.argv[1])

            print(scaled(torch.ones(3)))
        """)
        self.assertIn("program.py", str(first["source"]))
        self.assertNotIn("eval_with_key", str(first["source"]))

    def test_the_seed_of_hashes_is_a_suspect(self):
        self.write_config({"program": {"command": [sys.executable, str(self.write("""
            import torch
            values = {name: torch.rand(3) for name in ("ce", "kd", "l2", "mse", "reg", "aux")}
            print(sum(torch.nn.Linear(3, 1)(values[name]).sum() for name in set(values)))
        """))]}, "seed": None, "runs": [{"name": "one", "env": {"PYTHONHASHSEED": "1"}},
                                        {"name": "other", "env": {"PYTHONHASHSEED": "2"}}]})
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 1, shown.stderr)
        self.assertIn("env.PYTHONHASHSEED 1 -> 2", shown.stdout)

    def test_a_file_that_is_memory_is_read_anew(self):
        first = self.compare("""
            import mmap, sys, torch
            file = open("memory", "w+b")
            file.write(bytes(16))
            file.flush()
            shared = torch.from_file("memory", shared=True, size=4)
            written = mmap.mmap(file.fileno(), 16)
            model = torch.nn.Linear(4, 1)
            for step in range(2):
                written[3:4] = bytes([63 * step * int(sys.argv[1])])
                print(model(shared).sum())
        """)
        self.assertEqual(first["cause"]["name"], "unobserved write")

    def test_a_parameter_that_one_run_alone_freezes_is_named(self):
        first = self.compare("""
            import sys
            import torch
            model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
            model[0].weight.requires_grad_(sys.argv[1] == "0")
            model(torch.ones(3, 4)).sum().backward()
        """)
        self.assertIn("`weight` requires gradients at op", first["cause"]["evidence"])
        self.assertIn("in the baseline alone", first["cause"]["evidence"])

    def test_memory_that_is_written_in_part_is_named(self):
        first = self.compare("""
            import sys
            import torch
            memory = torch.empty(64, 64)
            memory[:32] = 1
            memory.numpy()[32:] = float(sys.argv[1])  # as chance has it otherwise
            print(torch.sigmoid(memory).sum())
        """)
        self.assertEqual((first["relation"], first["cause"]["name"]), ("origin", "uninitialised memory"))
        self.assertIn("has been written in part alone, last by op", first["cause"]["evidence"])

    def test_a_pass_says_where_programs_print_otherwise(self):
        program = self.write("""
            import sys
            import torch
            print(torch.ones(2).sum())
            print("of run", sys.argv[1])
        """)
        command = [sys.executable, str(program)]
        self.write_config({"program": {"command": command},
                           "runs": [{"name": name, "program": {"command": [*command, number]}}
                                    for name, number in (("one", "1"), ("two", "1"), ("three", "3"))]})
        shown = self.tool("run", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertRegex(shown.stderr, r"printed output differs, and is not compared: line 2 of \S*one\.log, \S*three\.log")
        self.assertNotIn("two.log", shown.stderr)

    def test_memory_that_no_operator_reads_is_compared_where_it_is_saved_or_listed(self):
        programs = {
            "aten::lift_fresh": "print(torch.tensor([0.0, float(sys.argv[1])]).shape)",
            "repro_check::read": """memory = torch.empty(2)
memory.numpy()[:] = float(sys.argv[1])
{}""",
        }
        reads = ("print(memory.tolist())", "torch.save({'memory': [memory]}, 'saved.pt')",
                 "model = torch.nn.Linear(2, 1, bias=False); model.weight.data = memory.view(1, 2)\n"
                 "pickle.dump(model.state_dict(), open('saved.pickle', 'wb'))",
                 "torch.save(torch.frombuffer(bytearray(sys.argv[1].encode()), dtype=torch.uint8), 'saved.pt')")
        for operator, text in programs.items():
            for read in reads if "{}" in text else [""]:
                with self.subTest(operator=operator, read=read):
                    first = self.compare("import pickle, sys, torch\n" + text.replace("{}", read))
                    self.assertEqual(first["key"]["operator"], operator)

    def test_what_is_written_with_no_operator_of_its_own_is_named(self):
        writes = {
            "x.apply_(lambda value: value + by)": "repro_check::written",
            "x.map_(x, lambda value, other: value + by)": "repro_check::written",
            "x.map2_(x, x, lambda value, one, other: value + by)": "repro_check::written",
            "x.untyped_storage().byteswap(torch.float32) if by else None": "repro_check::written",
            "torch.ops.mine.add(x, by)": "mine::add",
            "torch.ops.mine.point(x, by)": "mine::point",
        }
        for write, operator in writes.items():
            with self.subTest(write=write):
                first = self.compare(f"""
            import ctypes
            import sys
            import torch
            library = torch.library.Library("mine", "DEF")
            def point(x, by):
                ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_float))[0] += by
                return torch.zeros(1)
            for name, write in (("add", lambda x, by: (x.add_(by), torch.zeros(1))[1]), ("point", point)):
                library.define(f"{{name}}(Tensor x, float by) -> Tensor")
                library.impl(name, write, "CompositeExplicitAutograd")
            by = float(sys.argv[1])
            x = torch.ones(4)
            print(x.sum())
            {write}
            y = x * 1
        """)
                self.assertEqual(first["key"]["operator"], operator)

    def test_a_generator_of_its_own_that_is_seeded_otherwise(self):
        first = self.compare("""
            import random
            import sys
            import torch
            generator = random.Random(int(sys.argv[1]))
            print(torch.arange(8)[generator.randrange(8)])
        """)
        self.assertEqual(first["cause"]["name"], "argument differs")
        self.assertIn("the program called random.Random.seed (0) at program.py:5 -> (1) at program.py:5",
                      first["cause"]["evidence"])
        self.assertIn("the same value in every run", first["cause"]["advice"])

    def test_another_epsilon_is_found_with_its_values(self):
        self.write_config(self.of_epsilons())
        found = self.tool("run", "-c", "config.json", "--explain", "--report", "html=page.html")
        self.assertEqual(found.code, 1, found.stderr)
        self.assertTrue(found.stdout.startswith("DIVERGED at step 0: "), found.stdout)
        place, = (line for line in found.stdout.splitlines() if "parts at step 0, optimizer, op " in line)
        self.assertIn(f"train.py:{STEP}", place)
        self.assertIn("origin", place)
        self.assertIn("the optimizer was given different numbers: option.eps[0]: 1e-08 against 1e-07", found.stdout)
        self.assertNotIn("graph", found.stdout)
        self.assertIn("--eps 1e-7", found.stdout)
        # The second pair has the values.
        self.assertIn("ULP", found.stdout)
        self.assertTrue((self.folder / "page.html").stat().st_size > 10_000)
        for line, code in self.type_next(found.stdout):
            self.assertIn(code, (0, 1), line)

    def test_what_is_kept_for_the_backward_pass_is_no_origin(self):
        self.write_config(self.of_epsilons())
        report = json.loads(self.tool("run", "-c", "config.json", "--format", "json", "--all").stdout)
        every = [report["first_divergence"], *report["divergences"]["items"]]
        origins = [op["key"]["operator"] for op in every if op["relation"] == "origin"]
        self.assertTrue(origins)
        self.assertEqual({name for name in origins if "backward" in name}, set(), origins)

    def test_the_gate(self):
        file = self.write(TRAIN.read_text())
        self.write_config({"program": {"command": [sys.executable, str(file), "--epochs", "1"]}})
        self.assertEqual(self.tool("gate", "-c", "config.json").code, 4)  # no baseline yet
        accepted = self.tool("gate", "accept", "-c", "config.json")
        self.assertEqual(accepted.code, 0, accepted.stderr)
        self.assertEqual(self.tool("gate", "-c", "config.json").code, 0)
        self.write(TRAIN.read_text().replace("default=1e-8", "default=1e-7"))
        told = self.tool("gate", "-c", "config.json")
        self.assertEqual(told.code, 1, told.stdout + told.stderr)
        self.assertIn(f"program.py:{STEP}", told.stdout)

    def test_bisect_names_the_variable(self):
        file = self.write("""
            import os, torch
            x = torch.arange(6.0) / float(os.environ.get("DIVISOR", "3"))
            print(x.exp().sum().item(), os.environ.get("UNUSED"))
            """)
        self.write_config({"program": {"command": [sys.executable, str(file)]},
                           "runs": [{"name": "a"}, {"name": "b", "env": {"DIVISOR": "7", "UNUSED": "1"}}]})
        found = self.tool("bisect", "-c", "config.json")
        self.assertEqual(found.code, 1, found.stdout + found.stderr)
        self.assertIn("REDUCED to 1 of 2 changes: /env/DIVISOR", found.stdout)

    def test_calibrate(self):
        self.write_config({"program": {"command": EPOCH}})
        done = self.tool("calibrate", "-c", "config.json", "-n", "3", "-o", "floors.json")
        self.assertEqual(done.code, 0, done.stdout + done.stderr)

    def test_the_observer_changes_nothing(self):
        self.write_config({"program": {"command": EPOCH}})
        done = self.tool("run", "-c", "config.json", "--check-observer", "--format", "json")
        self.assertEqual(done.code, 0, done.stdout + done.stderr)
        checked = json.loads(done.stdout)["observer"][0]
        self.assertEqual(checked["outcome"], "unchanged")
        # Four steps: their losses, batches, parameters, gradients and what AdamW keeps.
        self.assertGreater(checked["outputs"], 4 * 32)

    def test_replay_and_extract(self):
        self.write_config({"program": {"command": EPOCH}})
        done = self.tool("record", "-c", "config.json", "-o", "dump")
        self.assertEqual(done.code, 0, done.stderr)
        listed = json.loads(self.tool("inspect", "dump", "--list", "--format", "json").stdout)["ops"]
        linear = next(op["index"] for op in listed if op["operator"] == "aten::linear")
        self.assertEqual(self.tool("replay", "dump", "--op", linear).code, 0)
        self.assertEqual(self.tool("extract", "dump", "--op", linear, "-o", "repro.py").code, 0)

    def test_replay_and_extract_under_autocast(self):
        file = self.write("""
            import torch
            torch.manual_seed(0)
            x, w = torch.randn(4, 8), torch.randn(3, 8)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                torch.nn.functional.linear(x, w)
            torch.set_default_dtype(torch.float64)
            torch.arange(3).div(torch.tensor(3))
            """)
        done = self.tool("exec", "--level", "tensor", "-o", "dump", "--", sys.executable, file)
        self.assertEqual(done.code, 0, done.stderr)
        listed = json.loads(self.tool("inspect", "dump", "--list", "--format", "json").stdout)["ops"]
        for operator, modes in (("aten::linear", ["autocast.cpu=bfloat16"]), ("aten::div.Tensor", ["default_dtype=float64"])):
            with self.subTest(operator):
                index = next(op["index"] for op in listed if op["operator"] == operator)
                shown = json.loads(self.tool("inspect", "dump", "--op", index, "--format", "json").stdout)
                self.assertEqual(shown["op"]["modes"], modes)
                replayed = self.tool("replay", "dump", "--op", index)
                self.assertEqual(replayed.code, 0, replayed.stdout + replayed.stderr)
                script = f"repro_{index}.py"
                self.assertEqual(self.tool("extract", "dump", "--op", index, "-o", script).code, 0)
                again = subprocess.run([sys.executable, script], cwd=self.folder, capture_output=True, text=True)
                self.assertEqual(again.returncode, 0, again.stdout + again.stderr)


class FirstDay(Program):
    """What one types who has read nothing."""

    def setUp(self):
        super().setUp()
        self.write("""
            import sys
            import time
            import torch
            torch.manual_seed(0)
            x = torch.ones(3)
            y = x * 2
            y = y.add(time.time_ns() % 9973 if len(sys.argv) > 1 else 0.0)
            print(y.sum())
            """, "train.py")

    def test_a_program_in_place_of_a_configuration(self):
        done = self.tool("run", "--", sys.executable, "train.py")
        self.assertEqual(done.code, 0, done.stdout + done.stderr)
        self.assertIn("will run 2 times, 4 if it diverges", done.stderr)
        (folder,) = (self.folder / "repro-check-out").iterdir()
        self.assertRegex(folder.name, r"^train-[0-9a-f]{4}$")
        self.assertEqual(self.tool("run", "--", sys.executable, "train.py").code, 0)  # replaces its own
        parted = self.tool("run", "--", sys.executable, "train.py", "1")
        self.assertEqual(parted.code, 1, parted.stdout + parted.stderr)
        lines = parted.stdout.splitlines()
        code = next(line for line in lines if line.startswith("  code "))
        self.assertIn("train.py:8: y = y.add(", code)
        self.assertLess(lines.index(code), 6)
        self.assertLess(next(i for i, line in enumerate(lines) if line.startswith("  fix ")), 8)
        again = [line for line in lines if line.startswith("next: repro-check run")]
        for line in again:
            self.assertTrue(line.endswith(f"-- {sys.executable} train.py 1"), line)
        source = (self.folder / "train.py").read_text()
        (self.folder / "train.py").write_text("# another file\n" + source)
        shown = self.tool("diff", folder / "baseline", folder / "candidate")
        self.assertNotIn("  code ", shown.stdout)

    def test_recordings_that_nobody_named(self):
        self.assertEqual(self.tool("diff").code, 2)
        self.assertEqual(self.tool("exec", "--", sys.executable, "train.py").code, 0)
        self.assertEqual(self.tool("exec", "--", sys.executable, "train.py", "1").code, 0)
        refused = self.tool("diff")
        self.assertEqual(refused.code, 2)
        self.assertIn("repro-check-out/exec-1  " + sys.executable + " train.py", refused.stderr)
        self.assertEqual(self.tool("exec", "--", sys.executable, "train.py").code, 0)
        agreed = self.tool("diff")
        self.assertEqual(agreed.code, 0, agreed.stdout + agreed.stderr)
        self.assertIn("exec-3", agreed.stderr)
        self.assertIn("exec-1", agreed.stderr)

    def test_a_script_that_was_changed(self):
        self.assertEqual(self.tool("exec", "--", sys.executable, "train.py").code, 0)
        source = (self.folder / "train.py").read_text()
        (self.folder / "train.py").write_text(source.replace("else 0.0", "else 0.5"))
        self.assertEqual(self.tool("exec", "--", sys.executable, "train.py").code, 0)
        parted = self.tool("diff")
        self.assertEqual(parted.code, 1, parted.stdout + parted.stderr)
        self.assertIn(f"{self.folder / 'train.py'} was changed", " ".join(parted.stdout.split()))

    def test_neither_or_both(self):
        self.write_config({"program": {"command": ["true"]}})
        for words in (["run"], ["run", "config.json", "--", "true"], ["run", "config.json", "true"]):
            self.assertEqual(self.tool(*words).code, 2, words)


class Refused(Program):
    def test_what_only_a_model_has(self):
        self.write_config({"program": {"command": ["true"]}, "inputs": [], "device": "cpu",
                           "runs": [{"name": "a"}, {"name": "b", "grad": "enabled"}]})
        said = self.tool("validate", "-c", "config.json")
        self.assertEqual(said.code, 2)
        for key in ("/inputs", "/device", "/runs/1/grad"):
            self.assertIn(f"{key}: is for TorchScript models", said.stderr)

    def test_without_a_command(self):
        self.write_config({"program": {}})
        said = self.tool("validate", "-c", "config.json")
        self.assertEqual(said.code, 2)
        self.assertIn('"command" is missing', said.stderr)
        self.write_config({"program": {"command": ["no-such-program"]}})
        said = self.tool("run", "-c", "config.json")
        self.assertEqual(said.code, 2)
        self.assertIn("cannot start no-such-program", said.stderr)
        self.assertIn("/program/cwd", said.stderr)

    def test_nothing_recorded(self):
        self.write_config({"program": {"command": ["true"]}})
        said = self.tool("run", "-c", "config.json")
        self.assertEqual(said.code, 4)
        self.assertIn("nothing was recorded", said.stderr)


class Failures(Program):
    def program_that(self, ends, **more):
        file = self.write(f"""
            import os, signal, sys, time, torch
            x = torch.ones(3)
            for _ in range(5): x = torch.sin(x)
            {ends}
            """)
        self.write_config({"program": {"command": [sys.executable, str(file)]}, "dump": {"depth": "top"}, **more})
        return self.tool("run", "-c", "config.json")

    def test_of_blocks_nobody_knows_the_operator(self):
        failed = self.program_that("os.kill(os.getpid(), signal.SIGSEGV)", dump={})
        self.assertEqual(failed.code, 5)
        self.assertIn("killed by SIGSEGV", failed.stdout.splitlines()[0])
        self.assertNotIn("before the first operator", failed.stdout)
        self.assertIn("--set /dump/depth=top", failed.stdout)

    def test_its_exit_code(self):
        failed = self.program_that("sys.exit('not today')")
        self.assertEqual(failed.code, 5)
        self.assertIn("RUN FAILED: baseline: the program ended with exit code 1", failed.stdout)
        self.assertIn("not today", failed.stdout)
        # What it recorded is where that of a model would be.
        listed = self.tool("inspect", "repro-check-out/baseline.recording", "--partial", "--list")
        self.assertEqual(listed.code, 0, listed.stderr)
        self.assertEqual(listed.stdout.count("aten::sin"), 5)

    def test_killed(self):
        failed = self.program_that("os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertEqual(failed.code, 5)
        self.assertIn("killed by SIGSEGV", failed.stdout)
        self.assertIn("aten::sin", failed.stdout)

    def test_too_slow(self):
        failed = self.program_that("time.sleep(1000)", timeout=20)
        self.assertEqual(failed.code, 5)
        self.assertIn("20 s", failed.stdout)
        self.assertIn("aten::sin", failed.stdout)

    def test_the_second_alone(self):
        failed = self.program_that("sys.exit(3 if 'BAD' in os.environ else 0)", runs=[
            {"name": "good"}, {"name": "bad", "env": {"BAD": "1"}}])
        self.assertEqual(failed.code, 5)
        self.assertIn("bad: the program ended with exit code 3", failed.stdout)
        self.assertIn("the dump of the failed run is reproducible up to op 5", failed.stdout)
        left = sorted(path.name for path in (self.folder / "repro-check-out").iterdir()
                      if not path.name.startswith("."))
        self.assertEqual(left, ["bad.recording", "good"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
