# SPDX-License-Identifier: Apache-2.0
"""`audit` of real programs, and what the commands that record one tell of it."""
import datetime
import json
import subprocess
import sys
import textwrap
from pathlib import Path

from harness import ToolTest, main, need, with_torchrun

need("torch")

# A checkpointed block draws another mask in the backward pass.
CHECKPOINTED = """
    import sys
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(self.linear(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = Block(), nn.Linear(8, 1)

        def forward(self, x):
            return self.head(checkpoint(self.block, x, use_reentrant=True, preserve_rng_state=sys.argv[1] == "right"))

    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 8, requires_grad=True)).sum().backward()
        optimizer.step()
"""


class Audited(ToolTest):
    def program(self, text):
        (self.folder / "program.py").write_text(textwrap.dedent(text), encoding="utf-8")

    def command(self, *arguments):
        return [sys.executable, "program.py", *arguments]

    def check(self, code, *words, **options):
        result = self.tool(*words, **options)
        self.assertEqual(result.code, code, result.stdout[-3000:] + result.stderr[-3000:])
        return result


class Line(Audited):
    """What `run`, `exec` and `gate` tell in one line of what they recorded."""

    def setUp(self):
        super().setUp()
        self.program(CHECKPOINTED)

    def configure(self, name, **keys):
        document = {"program": {"command": self.command("wrong")}, "seed": 0, **keys}
        (self.folder / name).write_text(json.dumps(document), encoding="utf-8")

    def test_exec(self):
        told = self.check(0, "exec", "-o", "dump", "--", *self.command("wrong"))
        self.assertIn("audit: 1 proof: repro-check audit dump", told.stderr)
        told = self.check(1, "exec", "-o", "dump", "--force", "--audit-fail-on", "proof", "--", *self.command("wrong"))
        self.assertIn("audit: 1 proof", told.stderr)
        told = self.check(0, "exec", "-o", "right", "--audit-fail-on", "proof", "--", *self.command("right"))
        self.assertNotIn("audit:", told.stderr)
        told = self.check(4, "exec", "-o", "blocks", "--depth", "blocks", "--audit-fail-on", "proof", "--",
                          *self.command("wrong"))
        self.assertIn("audit: not made (blocks)", told.stderr)

    def test_run_of_blocks(self):
        told = self.check(0, "run", "--seed", "0", "--", *self.command("right"))
        words = f"audit: not made (blocks): repro-check audit --seed 0 -- {sys.executable} program.py right"
        self.assertIn(words, told.stderr)
        self.configure("config.json", audit={"fail_on": "proof"})
        told = self.check(4, "run", "-c", "config.json")
        self.assertIn("audit: not made (blocks): repro-check audit -c config.json", told.stderr)

    def test_run_and_gate_of_operators(self):
        day = (datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=9)).isoformat()
        known = {"id": "recomputed-otherwise", "reason": "issue 7", "expires": day}
        for code, audit in ((0, {}), (1, {"fail_on": "proof"}), (0, {"fail_on": "proof", "expected": [known]}),
                            (1, {"fail_on": "proof", "expected": [{**known, "module": "head"}]})):
            self.configure("config.json", dump={"depth": "top", "level": "digest"}, audit=audit)
            told = self.check(code, "run", "-c", "config.json")
            self.assertEqual("audit: 1 proof: " in told.stderr, code == 1 or not audit, told.stderr)
        told = self.check(1, "gate", "-c", "config.json", "--against", "repro-check-out")  # 4 without the audit
        self.assertIn("audit: 1 proof: ", told.stderr)


class Recorded(Audited):
    """`audit -- COMMAND` and `audit -c`."""

    def test_a_known_finding(self):
        self.program(CHECKPOINTED)
        told = self.check(1, "audit", "--out", "out", "--", *self.command("wrong"))
        self.assertTrue(told.stdout.startswith("PROOF recomputed-otherwise at step 0 (block.drop"), told.stdout)
        self.check(0, "audit", "--out", "right", "--", *self.command("right"))
        day = (datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=9)).isoformat()
        known = {"id": "recomputed-otherwise", "reason": "issue 7", "expires": day}
        document = {"program": {"command": self.command("wrong")}, "audit": {"expected": [known]}}
        (self.folder / "config.json").write_text(json.dumps(document), encoding="utf-8")
        told = self.check(0, "audit", "-c", "config.json")
        self.assertIn("1 expected", told.stdout)
        self.check(0, "audit", "out/audit", "-c", "config.json", "--report", "sarif=audit.sarif")
        sarif = json.loads((self.folder / "audit.sarif").read_text(encoding="utf-8"))
        results = sarif["runs"][0]["results"]
        self.assertEqual([each["suppressions"][0]["justification"] for each in results], ["issue 7"])


# What the epoch is set of, and an attention that drops values in evaluation mode.
TOLD = """
    import sys
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset

    class Shuffled(Dataset):
        def __init__(self):
            self.epoch = 0

        def __len__(self):
            return 8

        def __getitem__(self, at):
            return torch.full((4,), float(at + 10 * self.epoch))

    class Attention(nn.Module):
        def __init__(self, told):
            super().__init__()
            self.linear, self.told = nn.Linear(4, 4), told

        def forward(self, x):
            p = 0.5 if self.training or not self.told else 0.0
            x = self.linear(x)[:, None]
            return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=p)

    if __name__ == "__main__":
        torch.manual_seed(0)
        wrong = sys.argv[1] == "wrong"
        data = Shuffled()
        loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=wrong)
        model = Attention(told=not wrong)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            data.epoch = epoch
            for x in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
        model.eval()
        model(torch.ones(4, 4))
"""


class Rules(Audited):
    """What takes more than the operators of a program."""

    def findings(self, code, *command, check):
        told = self.check(code, "audit", "--force", "--check", check, "--format", "json", "--", *command)
        document = json.loads(told.stdout)
        return {each["id"]: each for each in document["findings"]}

    def test_the_mode_of_modules_and_what_is_set_of_a_dataset(self):
        self.program(TOLD)
        checks = "epoch-never-arrives,dropout-in-eval"
        found = self.findings(1, *self.command("wrong"), check=checks)
        self.assertEqual(found["epoch-never-arrives"]["fields"]["names"], "epoch")
        self.assertEqual(found["dropout-in-eval"]["weight"], "proof")
        self.assertEqual(self.findings(0, *self.command("right"), check=checks), {})

    def test_a_number_in_a_sum_over_ranks(self):
        self.program("""
            import os, sys
            import torch
            import torch.distributed as dist
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor import Replicate, Shard, distribute_tensor
            mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
            x = distribute_tensor(torch.randn(4, 16), mesh, [Shard(0)])
            count = (x * 0 + 1).sum()
            if sys.argv[1] == "right":
                count = count.redistribute(mesh, [Replicate()])
            count.fill_(0.0 if sys.argv[1] == "zero" else 5.0)
            (x.square().sum() / count).full_tensor()
            dist.destroy_process_group()
        """)
        for variant, code in (("wrong", 1), ("right", 0), ("zero", 0)):
            command = with_torchrun(2, "program.py", variant)
            found = self.findings(code, *command, check="filled-on-partial")
            self.assertEqual(list(found), ["filled-on-partial"] if code else [])


class Exported(Audited):
    """`audit` of files of models: nothing of them is executed."""

    def test_constants_that_numpy_drew(self):
        self.program("""
            import numpy, torch
            from torch import nn
            numpy.random.seed(0)

            class Noisy(nn.Module):
                def __init__(self, draws):
                    super().__init__()
                    self.linear, self.draws = nn.Linear(16, 16), draws
                    self.register_buffer("table", torch.sin(torch.arange(128.0) / 9).view(8, 16))

                def forward(self, x):
                    x = nn.functional.dropout(self.linear(x) + self.table, training=self.training)
                    if self.draws:
                        x = x * torch.tensor((numpy.random.rand(8, 16) > 0.5).astype("float32"))
                    return x

            x = torch.ones(8, 16)
            for draws in (True, False):
                name = "wrong" if draws else "right"
                model = Noisy(draws)
                torch.jit.trace(model, x, check_trace=False).save(f"{name}.pt")
                torch.jit.freeze(torch.jit.trace(model.eval(), x, check_trace=False)).save(f"{name}-frozen.pt")
                if hasattr(torch, "export"):
                    torch.export.save(torch.export.export(model, (x,)), f"{name}.pt2")
        """)
        self.assertEqual(subprocess.run(self.command(), cwd=self.folder, check=False).returncode, 0)
        files = sorted(each.name for each in self.folder.glob("*.pt*"))
        self.assertGreaterEqual(len(files), 4)
        for file in files:
            found = json.loads(self.check(0, "audit", file, "--format", "json").stdout)["findings"]
            looks = [each["fields"]["look"] for each in found]
            self.assertEqual(looks, ["mask"] if file.startswith("wrong") else [], file)
            if file == "wrong.pt2":
                self.assertEqual(found[0]["where"]["line"], "program.py:15")
        self.check(1, "audit", "wrong.pt", "--check", "constants", "--fail-on", "suspicion")

    def test_the_shipped_examples(self):
        for file in sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.pt")):
            self.assertIn("NO PROOF: 1 of 1 rule audited\n", self.check(0, "audit", file).stdout)


class Live(Audited):
    """Of an exported model, whether it draws anew in each call."""
    MODEL = """
        import sys, torch
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.lin, self.drop = torch.nn.Linear(16, 16), torch.nn.Dropout(0.5)
                self.register_buffer("kept", torch.zeros(0))
            def forward(self, x: torch.Tensor):
                HOW
        net = Net()
        torch.jit.save(EXPORT, "m.pt")
    """

    def exported(self, how, export="torch.jit.script(net)"):
        self.program(self.MODEL.replace("HOW", how).replace("EXPORT", export))
        subprocess.run(self.command(), cwd=self.folder, check=True)

    def check_live(self, code, *words):
        found = self.check(code, "audit", "m.pt", "--check", "liveness", "--force", "-o", "live", *words,
                           "--set", "/inputs/0/shape=[8,16]")
        return found.stdout

    def test_alive(self):
        self.exported("return self.drop(self.lin(x))")
        said = self.check_live(0)
        self.assertIn("4 calls, 4 different results: 1 operator drew random numbers, 1 of them anew in each call", said)
        self.assertIn("no operator drew random numbers", self.check_live(0, "--mode", "eval"))

    def test_seeded_in_every_call(self):
        self.exported("torch.manual_seed(0); return self.drop(self.lin(x))")
        self.assertTrue(self.check_live(1).startswith("PROOF draws-repeat at step 0"))

    def test_kept_of_the_first_call(self):
        self.exported("""
                if self.kept.numel() == 0:
                    self.kept = torch.bernoulli(torch.full_like(x, 0.5))
                return self.lin(x) * self.kept""")
        self.assertTrue(self.check_live(1).startswith("PROOF drawn-once at step 0"))

    def test_traced_in_training(self):
        self.exported("return self.drop(self.lin(x))", "torch.jit.trace(net, torch.ones(8, 16), check_trace=False)")
        self.assertTrue(self.check_live(1, "--mode", "eval").startswith("PROOF dropout-in-eval at step 0"))


class Swept(Audited):
    """Of the operators of a program, the one that a setting changes."""
    SUMS = """
        import torch
        torch.manual_seed(0)
        x = torch.randn(1_000_000)
        y = (x * 2).relu()
        print(y.sum().item())
    """

    def test_threads(self):
        self.program(self.SUMS)
        found = self.check(1, "audit", "--sweep", "threads,alignment", "--force", "-o", "sums", "--", *self.command())
        self.assertRegex(found.stdout, r"(?m)^PROOF varies-with-threads at step 0 \(program.py:6\)")
        self.assertRegex(found.stdout, r"op \d+ aten::sum")
        self.assertIn("print(y.sum().item())", found.stdout)
        again = self.check(1, "audit", "sums/audit", "--sweep", "threads=1,8", "--format", "json")
        document = json.loads(again.stdout)
        self.assertEqual({(each["id"], each["code"].split(":")[1]) for each in document["findings"]},
                         {("varies-with-threads", "6")})
        self.assertEqual(document["sweep"]["unrepeated"], [])
        self.assertEqual(document["sweep"]["judged"], document["sweep"]["calls"])
        # A product of two numbers is the same on any of them.
        self.check(0, "audit", "sums/audit", "--sweep", "poison")

    def test_what_cannot_be_swept_is_no_pass(self):
        self.program(self.SUMS)
        self.check(0, "exec", "-o", "digests", "--", *self.command())
        nothing = self.check(4, "audit", "digests", "--sweep", "threads")
        self.assertIn("--level tensor", nothing.stdout)
        self.check(2, "audit", "digests", "--sweep", "thraeds")
        self.check(2, "audit", "digests", "--sweep", "threads=0")
        self.check(2, "audit", "digests", "--sweep", "threads", "--check", "untied")

    def test_a_variable_of_the_environment(self):
        self.program(self.SUMS)
        self.check(0, "exec", "--level", "tensor", "-o", "values", "--", *self.command())
        found = self.tool("audit", "values", "--sweep", "env:ATEN_CPU_CAPABILITY=default", "--format", "json")
        document = json.loads(found.stdout)
        self.assertEqual(document["sweep"]["settings"], ["ATEN_CPU_CAPABILITY=default"])
        self.assertEqual(found.code, 1 if document["findings"] else 0)
        for each in document["findings"]:
            self.assertEqual(each["id"], "varies-with-environment")

    def test_last_bits(self):
        self.program("""
            import torch
            torch.manual_seed(0)
            x = torch.randn(64, 64) + 1000
            (x * x).mean() - x.mean() * x.mean()
            torch.relu(x)
        """)
        found = self.check(0, "audit", "--sweep", "ulp", "--force", "-o", "bits", "--", *self.command())
        self.assertRegex(found.stdout, r"(?m)^NO PROOF: (\d+) of \1 calls judged under condition, decisions; 1 suspicion")
        self.assertRegex(found.stdout, r"suspicion +fragile: .*op \d+ aten::sub")
        self.assertIn("(x * x).mean() - x.mean()", found.stdout)
        self.check(1, "audit", "bits/audit", "--sweep", "ulp", "--fail-on", "suspicion")

    def test_an_item_alone_and_in_a_batch(self):
        self.program("""
            import sys, torch
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.BatchNorm2d(16),
                                      torch.nn.Flatten())
            x = torch.randn(int(sys.argv[1]), 3, 8, 8)
            net.train(len(sys.argv) > 2)(x * 1.5)
        """)
        found = self.tool("audit", "--sweep", "batch=5", "--force", "-o", "eval", "--", *self.command(), "{batch}")
        self.assertIn("audited    5 of 5 calls", found.stdout)
        self.assertIn("batch      5 items, told apart by 5 calls", found.stdout)
        # What kernels do is this processor's matter; the report says the same as the exit code.
        varies = found.stdout.startswith("PROOF varies-with-batch")
        self.assertEqual(found.code, 1 if varies else 0)
        self.assertTrue(varies or found.stdout.startswith("BATCH INVARIANT: 5 of 5 calls"), found.stdout)
        self.tool("audit", "--sweep", "batch=5", "--force", "-o", "train", "--", *self.command(), "{batch}", "train")
        document = json.loads(self.tool("audit", "train/audit", "--sweep", "batch", "--alone", "train/audit-alone",
                                        "--format", "json").stdout)
        self.assertEqual(document["sweep"]["batch"]["items"], 5)
        self.assertRegex(str(document["sweep"]["batch"]["mixing"]), "batch_norm")
        self.assertEqual(document["sweep"]["judged"], document["sweep"]["calls"])
        self.program("""
            import sys, torch
            x = torch.rand(int(sys.argv[1]), 4, requires_grad=True)
            torch.nn.functional.mse_loss(x * 2, torch.zeros_like(x)).backward()
        """)
        mean = self.check(0, "audit", "--sweep", "batch=5", "--force", "-o", "mean", "--", *self.command(), "{batch}")
        self.assertRegex(mean.stdout, r"^NO PROOF: .*; 1 suspicion")
        self.assertRegex(mean.stdout, r"suspicion +varies-with-batch: .*aten::mse_loss_backward.*more than rounding")
        alike = self.check(4, "audit", "eval/audit", "--sweep", "batch", "--alone", "eval/audit")
        self.assertIn("shows how many items there are", alike.stdout)
        for words in (["--sweep", "batch"], ["--sweep", "batch,threads", "--alone", "eval/audit-alone"],
                      ["--sweep", "threads", "--alone", "eval/audit-alone"]):
            self.check(2, "audit", "eval/audit", *words)
        self.check(2, "audit", "--sweep", "batch", "-o", "no", "--", *self.command(), "3")
        self.check(2, "audit", "--sweep", "batch=1", "-o", "no", "--", *self.command(), "{batch}")


if __name__ == "__main__":
    main()
