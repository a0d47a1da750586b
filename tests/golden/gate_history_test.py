#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The history of a gate, and reports that are rendered again:
`gate_history_test.py REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import json
import re
import unittest

from gate_harness import RELU, GateCase

CI = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT")


class HistoryTest(GateCase):
    def lines(self):
        return [json.loads(line) for line in (self.tmp / "h.jsonl").read_text().splitlines()]

    def judge(self, *words, code=0, env=None, **more):
        """Appends to the history; the job says nothing unless a test wants it."""
        quiet = {name: "" for name in CI}
        return self.gate(code=code, words=("--history", "h.jsonl", *words),
                         env={**quiet, **(env or {})}, **more)

    def trend(self, *words, code=0):
        done = self.tool("report", "--history", "h.jsonl", "--format", "json", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def test_a_line_for_every_verdict(self):
        self.judge(code=4)
        self.accept()
        self.commit("accept")
        head = self.git("rev-parse", "HEAD").strip()
        self.judge()
        self.judge(change=RELU, code=1,
                   env={"GITHUB_SHA": "f" * 40, "GITHUB_RUN_ATTEMPT": "2"})
        self.judge(code=5, signal="SIGSEGV")
        lines = self.lines()
        self.assertEqual([line["exit_code"] for line in lines], [4, 0, 1, 5])
        self.assertEqual([line["status"] for line in lines],
                         ["no_baseline", "reproducible", "diverged", "run_failed"])
        self.assertEqual(lines[1]["commit"], head)
        self.assertEqual(lines[1]["compared"], 3)
        self.assertIsNone(lines[1]["first"])
        self.assertEqual((lines[2]["commit"], lines[2]["attempt"]),
                         ("f" * 40, "GITHUB_RUN_ATTEMPT=2"))
        self.assertEqual(lines[2]["first"]["operator"], "aten::relu")
        self.assertEqual(lines[2]["origins"], 1)
        self.assertEqual({line["gate"] for line in lines}, {"gate"})

        gates = self.trend()["gates"]
        self.assertEqual(sum(gate["runs"] for gate in gates), 4)
        watched = gates[0]
        self.assertEqual((watched["runs"], watched["passed"], watched["diverged"]), (3, 1, 1))
        self.assertEqual(watched["first_divergences"][0]["operator"], "aten::relu")

    def test_the_verdict_is_the_same_with_a_history(self):
        self.accepted()
        plain = self.tool("gate", "-c", "gate.json", "--against", "repro-check-out")
        kept = self.tool("gate", "-c", "gate.json", "--against", "repro-check-out",
                         "--history", "h.jsonl")
        self.assertEqual((plain.returncode, plain.stdout), (kept.returncode, kept.stdout))
        self.assertEqual(len(self.lines()), 1)

    def test_the_directory_of_a_history_is_made(self):
        self.accepted()
        self.gate(words=["--history", "kept/here/h.jsonl"])
        self.assertEqual(len((self.tmp / "kept/here/h.jsonl").read_text().splitlines()), 1)

    def test_a_history_that_cannot_be_written_is_an_error(self):
        done = self.tool("gate", "-c", "gate.json", "--history", "m.pt/h.jsonl")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("there is no directory m.pt", done.stderr)
        self.assertFalse((self.tmp / "repro-check-out").exists())
        done = self.tool("gate", "-c", "gate.json", "--history", "/dev/full",
                         runs={"*": {"fixture": "three_ops.json"}})
        self.assertNotIn(done.returncode, (0, 1))
        self.assertEqual(done.stdout, "")
        self.assertIn("cannot write /dev/full: No space left on device", done.stderr)

    def test_a_damaged_line_is_named_and_left_out(self):
        self.judge(code=4)
        with open(self.tmp / "h.jsonl", "a", encoding="utf-8") as file:
            file.write("half a li")
        self.judge(code=4)
        done = self.tool("report", "--history", "h.jsonl")
        self.assertEqual(done.returncode, 0)
        self.assertIn("h.jsonl, line 2: it is no JSON", done.stderr)
        self.assertIn("line 2: it is no JSON", done.stdout)
        self.assertIn("of 2 gate runs passed", done.stdout)
        self.assertEqual(self.trend()["unreadable"][0]["line"], 2)
        (self.tmp / "h.jsonl").write_text("nothing\n")
        self.trend(code=3)
        (self.tmp / "h.jsonl").write_text("")
        self.trend(code=4)

    def test_selection(self):
        for name in ("one", "two", "two"):
            self.judge("--name", name, code=4)
        self.assertEqual([gate["gate"] for gate in self.trend()["gates"]], ["one", "two"])
        self.assertEqual(self.trend("--gate", "two")["gates"][0]["runs"], 2)
        self.assertEqual(len(self.trend("--gate", "two", "--last", "1")["gates"][0]["last"]), 1)
        self.assertIn("holds no run of gate three", self.trend("--gate", "three", code=4))

    def test_usage_of_report(self):
        for words in ([], ["a.json", "--history", "h.jsonl"], ["none.json"], ["m.pt", "--last", "3"],
                      ["--history", "none.jsonl"], ["m.pt"], ["--history", "m.pt", "--report", "junit=-"]):
            done = self.tool("report", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)

    @staticmethod
    def without_digests(document):
        """What the digests of a run were made of is not in its report."""
        return re.sub(r'"(inputs_digest|weights_digest|platform_key)":(null|"[0-9a-f]*")', "", document)

    def test_a_report_is_rendered_again(self):
        self.accepted()
        formats = {"text": "txt", "markdown": "md", "sarif": "sarif", "github": "log",
                   "codequality": "cq", "jsonl": "lines", "json": "json"}
        def asked(suffix):
            return [word for name, end in formats.items()
                    for word in ("--report", f"{name}={suffix}.{end}")]
        made = self.gate(RELU, code=1, words=["--source-root", ".", *asked("made")])
        done = self.tool("report", "made.json", "--source-root", ".", *asked("again"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(done.stdout.startswith(made["verdict"]["headline"][:20]), done.stdout)
        for name, end in formats.items():
            before, after = ((self.tmp / f"{suffix}.{end}").read_text() for suffix in ("made", "again"))
            if name in ("text", "markdown"):  # whether the dump holds values is not in the report
                before = before.replace(" --tensor out:0 --values", "")
            elif name.startswith("json"):
                before, after = self.without_digests(before), self.without_digests(after)
            self.assertEqual(after, before, name)
        for name in ("junit", "html"):
            done = self.tool("report", "made.json", "--report", f"{name}=x")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("a JSON report does not hold", done.stderr)
        report = json.loads((self.tmp / "made.json").read_text())
        report["verdict"].update(status="reproducible", exit_code=0)
        (self.tmp / "forged.json").write_text(json.dumps(report))
        done = self.tool("report", "forged.json")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("does not agree with the rest of the report", done.stderr)


if __name__ == "__main__":
    unittest.main()
