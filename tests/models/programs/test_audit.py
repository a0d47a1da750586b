# SPDX-License-Identifier: Apache-2.0
"""`audit` of real programs, and what the commands that record one tell of it."""
import datetime
import json
import sys
import textwrap

from harness import ToolTest, main, need

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


if __name__ == "__main__":
    main()
