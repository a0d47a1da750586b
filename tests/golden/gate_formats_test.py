#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A year of a gate as every CI format tells it:
`gate_formats_test.py REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import json
import unittest

from gate_formats import WORDS, Formats, problems
from gate_harness import INPUT, PLATFORM, RELU, WEIGHT, GateCase, day, expected

CONFIG = "gate.json"
OTHER = {"/manifest/environment": {**PLATFORM["/manifest/environment"],
                                   "cpu.capability": "avx512", "probe.matmul": "b2"}}
RELU_CASE = ("act", "aten::relu.default#0 forward")
ADDMM_CASE = ("linear1", "aten::addmm.default#0 forward")


class GateFormatsTest(GateCase):
    def formats(self, change=None, candidate=None, code=0, words=(), **orders):
        both = {**PLATFORM, **(change or {})}
        runs = {"*": {"fixture": "three_ops.json", "change": both, **orders}}
        if candidate is not None:
            runs["candidate"] = {"fixture": "three_ops.json", "change": {**both, **candidate}}
        done = self.tool("gate", "-c", CONFIG, *WORDS, *words, runs=runs)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(problems(self.tmp), [])
        formats = Formats(self.tmp)
        bad = formats.cases("failure") + formats.cases("error")
        self.assertEqual(bool(bad), code != 0)
        self.assertEqual(len(set(formats.case_names())), len(formats.case_names()))
        self.assertEqual(formats.sarif["invocations"][0]["exitCode"], code)
        self.assertEqual(len(set(formats.prints())), len(formats.prints()))
        self.assertIn(formats.json["verdict"]["headline"], formats.markdown)
        return formats

    def only(self, entries):
        self.assertEqual(len(entries), 1, entries)
        return entries[0]

    def assert_passes(self, formats):
        self.assertEqual(formats.cases("failure") + formats.cases("error"), [])
        self.assertIn(("repro_check.gate", "baseline"), formats.case_names())
        self.assertEqual(formats.codequality, [])
        self.assertEqual(formats.annotations("error"), [])
        self.assertIn("### REPRODUCIBLE `gate`", formats.markdown)
        self.assertIn('<span class="word">REPRODUCIBLE</span>', formats.html)

    def assert_no_judgement(self, formats, rule, kind, subject):
        """Exits 3, 4 and 5: no result, one error on the case of `subject`, at the configuration."""
        self.assertEqual(formats.results(), [])
        self.assertEqual(formats.cases("failure"), [])
        found = self.only(formats.cases("error"))
        self.assertEqual(found[:3], ("", subject, f"repro_check.{kind}"))
        self.assertEqual(formats.notifications(), [(rule, CONFIG)])
        self.assertFalse(formats.sarif["invocations"][0]["executionSuccessful"])
        self.assertEqual(formats.issues(), [(rule, CONFIG)])
        self.assertEqual(self.only(formats.annotations("error"))[:2], (CONFIG, 1))

    def test_a_year_of_a_gate(self):
        first = self.formats(code=4)
        self.assert_no_judgement(first, "RC2004", "stale_baseline", "baseline")
        self.assertIn("NO BASELINE", first.html)
        self.accept()
        passed = self.formats()
        self.assert_passes(passed)
        self.assertEqual(passed.results(), [])
        self.assertEqual(passed.cases("skipped"), [])

        changed = self.formats(WEIGHT, code=1)
        self.assert_weight(changed)
        self.accept()
        self.assert_passes(self.formats(WEIGHT))

        stale = self.formats({**WEIGHT, **INPUT}, code=4)
        self.assert_no_judgement(stale, "RC2004", "stale_baseline", "baseline")
        self.assertIn("input x", self.only(stale.annotations("error"))[3])
        self.assertIn("STALE BASELINE", stale.markdown)
        self.assertIn("STALE BASELINE", stale.html)

        foreign = self.formats({**WEIGHT, **OTHER}, code=4)
        self.assert_no_judgement(foreign, "RC2004", "stale_baseline", "baseline")
        self.assertIn("cpu.capability", self.only(foreign.annotations("error"))[3])
        self.assertIn("NO BASELINE", foreign.markdown)

        torn = self.formats(WEIGHT, candidate={"/tensors/r/values": [9, 3.5, 1, 1]}, code=1)
        self.assert_relu(torn, "RC1001", "origin")
        self.assertEqual([case[:2] for case in torn.cases("skipped")
                          if case[1] == "baseline"], [("", "baseline")])

    def assert_weight(self, formats):
        """The tensor that differs and the operator it first reached, and no word of determinism."""
        failures = formats.cases("failure")
        self.assertEqual([case[:3] for case in failures],
                         [("", "weights", "repro_check.inputs"),
                          ("", "baseline", "repro_check.inputs"),
                          (*ADDMM_CASE, "repro_check.inputs")])
        self.assertEqual(failures[1][3], formats.json["verdict"]["headline"])
        self.assertEqual(failures[2][4], "model.py")
        self.assertIn("linear1.weight", failures[0][3])
        self.assertEqual({result for result in formats.results()},
                         {("RC1002", "error", "model.py", 12)})
        texts = [result["message"]["text"] for result in formats.sarif["results"]]
        self.assertTrue(any("linear1.weight" in text for text in texts))
        self.assertTrue(any(text.startswith("aten::addmm") for text in texts))
        for place in formats.annotations("error"):
            self.assertEqual(place[:3], ("model.py", 12, "The runs were given different numbers"))
        self.assertEqual(len(formats.annotations("error")), 2)
        self.assertEqual(formats.issues(), [("RC1002", "model.py")] * 2)
        self.assertIn("| 0 | `aten::addmm` | `linear1` | `model.py:12` |", formats.markdown)
        self.assertIn("aten::addmm", formats.html)
        everything = "".join(texts) + "".join(formats.github) + formats.markdown
        self.assertNotIn("not reproducible", everything)
        self.assertNotIn("determinism", everything)
        self.assertNotIn(", origin`", formats.markdown)

    def assert_relu(self, formats, rule, kind):
        found = self.only(formats.cases("failure"))
        self.assertEqual(found[:3], (*RELU_CASE, f"repro_check.{kind}"))
        self.assertEqual(found[4], "model.py")
        self.assertEqual(formats.results(), [(rule, "error", "model.py", 13)])
        self.assertIn("aten::relu", formats.sarif["results"][0]["message"]["text"])
        place = self.only(formats.annotations("error"))
        self.assertEqual(place[:2], ("model.py", 13))
        self.assertIn("aten::relu", place[3])
        self.assertEqual(formats.issues(), [(rule, "model.py")])
        self.assertIn("| 1 | `aten::relu` | `act` | `model.py:13` |", formats.markdown)
        self.assertIn("aten::relu", formats.html)

    def test_inputs_that_differ_between_the_runs(self):
        formats = self.formats(candidate=INPUT, code=1)
        self.assertEqual([case[:3] for case in formats.cases("failure")],
                         [("", "inputs", "repro_check.inputs"), (*ADDMM_CASE, "repro_check.inputs")])
        self.assertEqual(set(formats.results()), {("RC1002", "error", "model.py", 12)})

    def test_an_expected_divergence_in_force(self):
        self.accepted()
        self.configure(expected=[expected(issue="PROJ-12")], min_judged=1)
        formats = self.formats(candidate=RELU)
        self.assert_passes(formats)
        self.assertEqual(formats.json["verdict"]["headline"].split(" (")[0],
                         "REPRODUCIBLE: 1 of 3 operators bit-identical, 2 not judged")
        skipped = {case[:2]: case[3] for case in formats.cases("skipped")}
        self.assertIn("a race; until " + day(30) + ", ann, PROJ-12", skipped[RELU_CASE])
        self.assertEqual(skipped["act", "module"], "no operator was judged")
        self.assertEqual(skipped["head", "module"], "no operator was judged")
        self.assertNotIn(("linear1", "module"), skipped)
        self.assertEqual(formats.results(), [("RC2001", "note", "model.py", 13)])
        suppression = self.only(formats.sarif["results"][0]["suppressions"])
        self.assertEqual((suppression["kind"], suppression["status"]), ("external", "accepted"))
        self.assertIn("PROJ-12", suppression["justification"])
        notices = formats.annotations("notice")
        self.assertEqual(notices[0][2], "passed")
        self.assertEqual(notices[1][:3], ("model.py", 13, "A divergence that was accepted"))
        self.assertIn("0 missing, 0 skipped, 2 not judged.", formats.markdown)
        self.assertIn("| `operator aten::relu` | `excused` | `aten::relu (act, model.py:13)` |",
                      formats.markdown)
        self.assertIn("operator aten::relu: excused", formats.html)
        again = self.tool("report", "r.json", "--report", "sarif=again.sarif",
                          "--report", "markdown=again.md")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual((self.tmp / "again.md").read_text(), formats.markdown)
        self.assertEqual(json.loads((self.tmp / "again.sarif").read_text())["runs"][0], formats.sarif)

    def test_an_expired_exception(self):
        self.accepted()
        self.configure(expected=[expected(expires=day(-1))], min_judged=1)
        shows = self.formats(candidate=RELU, code=1)
        self.assert_relu(shows, "RC2003", "expired")
        self.assertIn("`expired`", shows.markdown)
        agrees = self.formats(code=1)
        self.assert_entry(agrees, "RC2003", "expired")
        self.assertNotEqual(shows.prints(), agrees.prints())

    def test_an_exception_that_does_not_happen_any_more(self):
        self.accepted()
        self.configure(expected=[expected()], min_judged=1)
        gone = self.formats(code=1)
        self.assert_entry(gone, "RC2002", "unexpected_pass")
        self.configure(expected=[expected(expires=day(-1))], min_judged=1)
        expired = self.formats(code=1)
        self.assertNotEqual(gone.prints(), expired.prints())
        self.assertNotEqual(gone.codequality[0]["fingerprint"], expired.codequality[0]["fingerprint"])

    def assert_entry(self, formats, rule, kind):
        """An entry that fails while what it names agrees: shown where the operator is called."""
        found = self.only(formats.cases("failure"))
        self.assertEqual(found[:3], ("", "expected operator aten::relu", f"repro_check.{kind}"))
        self.assertEqual(found[4], "model.py")
        self.assertEqual(formats.results(), [(rule, "error", "model.py", 13)])
        self.assertEqual(self.only(formats.annotations("error"))[:2], ("model.py", 13))
        self.assertIn("aten::relu", self.only(formats.annotations("error"))[3])
        self.assertEqual(formats.issues(), [(rule, "model.py")])
        self.assertIn(f"`{formats.json['expected'][0]['outcome']}`", formats.markdown)
        self.assertIn("aten::relu", formats.html)

    def test_nobody_can_tell_whether_an_exception_is_gone(self):
        self.accepted()
        self.configure(expected=[expected()], min_judged=1)
        formats = self.formats(WEIGHT, code=1)
        self.assertEqual(formats.json["expected"][0]["outcome"], "not_judged")
        self.assertEqual({rule for rule, _ in formats.issues()}, {"RC1002"})

    def test_what_cannot_be_read_or_run(self):
        self.accepted()
        failed = self.formats(code=5, signal="SIGSEGV")
        self.assertEqual({case[2] for case in failed.cases("error")}, {"repro_check.run_failed"})
        self.assertEqual({place[:2] for place in failed.annotations("error")}, {(CONFIG, 1)})
        self.assertEqual(set(failed.issues()), {("RC5001", CONFIG)})
        self.assertEqual(set(failed.notifications()), {("RC5001", CONFIG)})
        file = self.tmp / "baselines" / self.baselines()[0]
        file.write_text(file.read_text().replace("aten::relu", "aten::gelu"))
        self.assert_no_judgement(self.formats(code=3), "RC3001", "damaged", "baseline")

    def test_gates_on_files_of_one_name_stay_apart(self):
        self.accepted()
        key = self.baselines()[0].split("-")[1].split(".")[0]
        formats = self.formats()
        self.assertEqual(formats.suite.get("name"), f"gate {key}")
        self.assertEqual(formats.sarif["automationDetails"]["id"], f"repro-check/gate/{key}/")
        self.assertTrue(formats.markdown.startswith(f"<!-- repro-check:gate:{key} -->\n"))
        other = self.formats(code=4, words=("--name", "other"))
        self.assertEqual(other.suite.get("name"), f"other {key}")
        self.assertTrue(other.markdown.startswith(f"<!-- repro-check:other:{key} -->\n"))
        self.assertTrue(all(name.startswith("repro_check.other") for name, _ in other.case_names()))


if __name__ == "__main__":
    unittest.main()
