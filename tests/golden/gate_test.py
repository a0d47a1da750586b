#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gate in a git repository, from the first baseline to the exits it can end with:
`gate_test.py REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import json
import unittest

from gate_harness import HERE, INPUT, PLATFORM, RELU, WEIGHT, GateCase, day, expected


class GateTest(GateCase):
    def test_a_year_of_a_gate(self):
        first = self.gate(code=4)
        self.assertEqual(self.status(first), "no_baseline")
        self.assertTrue(first["gate"]["runs_agree"])
        self.assertIn("new, 3 operators", self.accept())
        self.assertEqual(len(self.baselines()), 1)
        self.assertEqual(self.pending(), [])
        self.commit("accept")
        self.assertEqual(self.gate()["gate"]["baseline"]["state"], "same")
        self.assertEqual(self.git("status", "--porcelain"), "")

        (self.tmp / "m.pt").write_text("a small model")
        changed = self.gate(WEIGHT, code=1)
        self.assertEqual(self.status(changed), "diverged")
        self.assertTrue(changed["gate"]["runs_agree"])
        self.assertEqual(changed["gate"]["baseline"]["state"], "differs")
        self.assertEqual(changed["verdict"]["kind"], "weights")
        self.assertIn("linear1.weight", changed["verdict"]["headline"])
        op = changed["first_divergence"]["key"]
        self.assertEqual((op["operator"], op["module"]), ("aten::addmm", "linear1"))
        self.assertIn("3 of 3 operators change, first aten::addmm (linear1)", self.accept())
        diff = self.git("diff", "--stat")
        self.assertIn("1 file changed", diff)
        self.assertEqual(self.gate(WEIGHT)["gate"]["baseline"]["state"], "same")
        self.commit("accept another weight")

        stale = self.gate({**WEIGHT, **INPUT}, code=4)
        self.assertEqual(self.status(stale), "stale_baseline")
        self.assertEqual([c["name"] for c in stale["gate"]["baseline"]["changes"]], ["input x"])
        self.assertIn("the results changed as well", stale["verdict"]["headline"])

        other = {"/manifest/environment": {**PLATFORM["/manifest/environment"],
                                           "cpu.capability": "avx512", "probe.matmul": "b2"}}
        foreign = self.gate({**WEIGHT, **other}, code=4)
        self.assertEqual(self.status(foreign), "no_baseline")
        nearest = foreign["gate"]["baseline"]["nearest_changes"]
        self.assertEqual([c["name"] for c in nearest], ["cpu.capability", "probe.matmul"])
        self.assertIn(self.baselines()[0], foreign["gate"]["baseline"]["nearest"])
        key = self.baselines()[0].split("-")[1].split(".")[0]
        self.configure(baselines={"any_of": [key]})
        self.assertEqual(self.gate({**WEIGHT, **other})["gate"]["baseline"]["state"], "same")
        self.configure()

        torn = self.gate(WEIGHT, candidate={"/tensors/r/values": [9, 3.5, 1, 1]}, code=1)
        self.assertFalse(torn["gate"]["runs_agree"])
        self.assertEqual(torn["gate"]["baseline"]["state"], "not_asked")
        self.assertIn("do not agree with each other", self.accept(code=2))

    def test_one_operator_is_named_with_its_source(self):
        self.accepted()
        report = self.gate(RELU, code=1)
        first = report["first_divergence"]
        self.assertEqual(first["key"]["operator"], "aten::relu")
        self.assertEqual(first["relation"], "origin")
        self.assertEqual(first["source"]["file"], "model.py")
        self.assertEqual(report["coverage"]["origins"], 1)
        self.assertEqual(report["coverage"]["propagated"], 1)
        self.assertTrue(report["verdict"]["headline"].startswith("DIVERGED from the baseline at op 1"))

    def test_a_change_without_another_result_is_a_note(self):
        self.accepted()
        report = self.gate({"/tensors/x/values": [1, 2, 3, 5]})
        self.assertEqual(report["gate"]["baseline"]["state"], "refresh")
        self.assertEqual(self.status(report), "reproducible")

    def test_a_weight_that_no_result_depends_on_is_named(self):
        self.accepted()
        report = self.gate({"/tensors/w/values": [9, 9, 9, 9]})
        self.assertEqual(self.status(report), "reproducible")
        self.assertEqual(report["gate"]["baseline"]["state"], "refresh")
        (change,) = report["gate"]["baseline"]["changes"]
        self.assertEqual(change["name"], "parameter linear1.weight")
        self.assertNotEqual(change["accepted"], change["now"])
        self.assertIn("no operator changes; parameter linear1.weight", self.accept())
        self.assertEqual(self.gate({"/tensors/w/values": [9, 9, 9, 9]})["gate"]["baseline"]["state"], "same")

    def test_a_baseline_from_before_what_is_returned_was_recorded_stays_valid(self):
        self.accepted()
        fixture = json.loads((HERE / "fixtures" / "three_ops.json").read_text())
        with_returned = {"/ops": [*fixture["ops"], {"returned": {"out": "p"}}]}
        report = self.gate(with_returned)
        self.assertEqual(self.status(report), "reproducible")
        self.assertEqual(report["gate"]["baseline"]["state"], "same")
        self.assertIn("the baseline has no results of the model",
                      report["gate"]["notes"][0])
        divergent = self.gate({**with_returned, **RELU}, code=1)
        self.assertEqual(divergent["first_divergence"]["key"]["operator"], "aten::relu")
        self.gate(with_returned)
        self.assertIn("no operator changes, but what the model returns does", self.accept())
        self.assertIn("3 operators on", self.tool("gate", "status", "-c", "gate.json").stdout)
        self.assertEqual(self.gate(with_returned)["gate"]["notes"], [])

    def test_another_configuration_is_stale(self):
        seed = {"/manifest/configuration": json.dumps({"seed": 1})}
        self.accepted(seed)
        report = self.gate({**RELU, "/manifest/configuration": json.dumps({"seed": 2})}, code=4)
        self.assertEqual(self.status(report), "stale_baseline")
        self.assertEqual(report["gate"]["baseline"]["changes"],
                         [{"name": "config /seed", "accepted": "1", "now": "2"}])

    def test_nothing_is_said_to_be_equal_that_a_baseline_does_not_hold(self):
        self.accepted()
        cause = self.gate(RELU, code=1)["first_divergence"]["cause"]
        self.assertEqual(cause["name"], "unexplained")
        self.assertIn("checked and equal: configuration; not in a baseline: arguments", cause["evidence"])
        for what in ("arguments", "memory layout", "settings", "environment"):
            self.assertIn(what, cause["not_recorded"])
        self.assertIn("repro-check diff", cause["advice"])
        self.assertIn("repro-check-out/baseline", cause["advice"])

    def test_five_runs(self):
        runs = {"*": {"fixture": "three_ops.json", "change": PLATFORM},
                "run-4": {"fixture": "three_ops.json", "change": {**PLATFORM, **RELU}}}
        words = ["gate", "-c", "gate.json", "-n", "5", "--format", "json"]
        done = self.tool(*words, runs=runs)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(done.stdout)["gate"]["runs"], 5)
        done = self.tool(*words, runs={"*": runs["*"]})
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertTrue(json.loads(done.stdout)["gate"]["runs_agree"])

    def test_damage_leaves_nothing_pending(self):
        self.accepted()
        file = self.tmp / "baselines" / self.baselines()[0]
        file.write_text(file.read_text().replace("aten::relu", "aten::gelu"))
        report = self.gate(code=3)
        self.assertEqual(self.status(report), "damaged")
        self.assertIn("checksum", report["verdict"]["headline"])
        self.assertEqual(self.pending(), [])

    def test_a_run_that_fails_leaves_nothing_pending(self):
        report = self.gate(code=5, signal="SIGSEGV")
        self.assertEqual(self.status(report), "run_failed")
        self.assertEqual(self.pending(), [])

    def test_without_a_probe_there_is_no_key(self):
        report = self.gate({"/manifest/environment": {"os.machine": "x86_64"}}, code=4)
        self.assertEqual(self.status(report), "no_baseline")
        self.assertEqual(report["gate"]["baseline"]["state"], "no_key")
        self.assertEqual(self.pending(), [])

    def test_accept_in_ci(self):
        self.gate(code=4)
        self.assertIn("--yes-in-ci", self.accept(code=2, env={"CI": "true"}))
        self.accept("--yes-in-ci", env={"CI": "true"})

    def test_accept_refuses_a_model_that_has_changed_since(self):
        self.gate(code=4)
        (self.tmp / "m.pt").write_text("another model")
        self.assertIn("the model has changed", self.accept(code=2))
        self.assertFalse((self.tmp / "baselines").exists())

    def test_accept_refuses_other_weights_than_those_of_the_runs(self):
        (self.tmp / "w.pt").write_text("other weights")
        taken = {"model": {"path": "m.pt", "weights_from": "w.pt"}}
        facts = {"/manifest/environment": {**PLATFORM["/manifest/environment"],
                                           "model.weights_path": "w.pt",
                                           "model.weights_digest": "0" * 32}}
        self.configure(**taken)
        self.gate(facts, code=4)
        self.assertIn("w.pt has changed since the runs", self.accept(code=2))
        self.configure()
        self.assertIn("no longer takes weights from another file", self.accept(code=2))
        self.gate(code=4)
        self.configure(**taken)
        self.assertIn("now takes weights from another file", self.accept(code=2))
        self.assertFalse((self.tmp / "baselines").exists())

    def test_accept_takes_the_files_of_another_machine(self):
        self.gate(code=4)
        away = self.tmp / "artifacts"
        (self.tmp / "repro-check-out").rename(away)
        self.accept("--from-dir", "artifacts")
        self.assertEqual(len(self.baselines()), 1)
        self.assertIn("no pending baseline", self.accept(code=2))

    def test_accept_refuses_an_edited_file(self):
        report = self.gate(candidate=RELU, code=1)
        file = self.tmp / report["gate"]["pending"]
        file.write_text(file.read_text().replace("runs disagreed", "runs agreed"))
        self.accept(code=3)

    def test_dumps_are_judged_without_a_recorder(self):
        self.accepted()
        self.gate()
        away = self.tmp / "artifacts"
        (self.tmp / "repro-check-out").rename(away)
        (self.tmp / "recorder").unlink()
        done = self.tool("gate", "-c", "gate.json", "--against", "artifacts")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.tool("gate", "--against", "artifacts")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.tool("gate", "--against", "artifacts/baseline")
        self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_status_and_prune(self):
        self.accepted()
        (self.tmp / "baselines" / "gone-0123456789ab.repro").write_text("repro-baseline 1\n")
        listed = self.tool("gate", "status", "-c", "gate.json").stdout
        self.assertIn("3 operators on x86_64 avx2 libtorch-2.13.0 cpu threads-2", listed)
        self.assertIn("gone-0123456789ab.repro: no configuration has this name", listed)
        self.assertEqual(self.status(self.gate(code=4)), "stale_baseline")
        self.assertIn("would remove", self.tool("gate", "prune", "-c", "gate.json", "--dry-run").stdout)
        self.assertIn("removed", self.tool("gate", "prune", "-c", "gate.json").stdout)
        self.assertEqual(len(self.baselines()), 1)
        self.gate()

    def test_usage(self):
        for words in (["gate"], ["gate", "status"], ["gate", "accept"], ["gate", "--retries", "2"]):
            done = self.tool(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)

    def test_expected_divergences(self):
        self.accepted()
        self.configure(expected=[expected()], min_judged=1)
        report = self.gate(candidate=RELU)
        self.assertEqual(report["expected"][0]["outcome"], "excused")
        self.assertEqual(report["coverage"]["not_judged"], 2)
        self.assertEqual(report["coverage"]["compared"], 1)
        self.configure(expected=[expected()], min_judged=2)
        self.assertEqual(self.status(self.gate(candidate=RELU, code=4)), "not_comparable")

    def test_an_expired_exception_excuses_nothing(self):
        self.accepted()
        self.configure(expected=[expected(expires=day(-1))], min_judged=1)
        report = self.gate(candidate=RELU, code=1)
        self.assertEqual(report["expected"][0]["outcome"], "expired")
        self.assertEqual(report["first_divergence"]["key"]["operator"], "aten::relu")
        self.assertEqual(self.gate(code=1)["verdict"]["kind"], "expectation")

    def test_an_exception_that_does_not_happen_any_more(self):
        self.accepted()
        self.configure(expected=[expected()], min_judged=1)
        report = self.gate(code=1)
        self.assertEqual(report["expected"][0]["outcome"], "unexpected_pass")
        self.configure(expected=[expected(happens="sometimes")], min_judged=1)
        self.assertEqual(self.gate()["expected"][0]["outcome"], "agreed")

    def test_limits(self):
        self.accepted()
        near = {"/tensors/r/values": [1.3665841, 3.5, "nan", "inf"]}
        self.configure(expected=[expected(limit={"ulp": 4})], min_judged=1)
        report = self.gate(candidate=near)
        self.assertEqual(report["expected"][0]["outcome"], "excused")
        self.configure(expected=[expected(limit={"ulp": 0})], min_judged=1)
        report = self.gate(candidate=near, code=1)
        self.assertEqual(report["expected"][0]["outcome"], "beyond_limit")

    def test_a_cause_is_expected_by_its_id(self):
        self.accepted()
        entry = expected(id="unexplained")
        del entry["operator"]
        self.configure(expected=[entry], min_judged=1)
        report = self.gate(candidate=RELU)
        self.assertEqual((report["expected"][0]["outcome"], report["expected"][0]["match"]),
                         ("excused", "id unexplained"))
        self.configure(expected=[{**entry, "id": "rng-stream", "happens": "sometimes"}], min_judged=1)
        report = self.gate(candidate=RELU, code=1)
        self.assertEqual(report["findings"][0]["id"], "unexplained")
        self.assertEqual(report["findings"][0]["where"]["operator"], "aten::relu")

    def test_another_operator_is_not_excused(self):
        self.accepted()
        self.configure(expected=[expected(operator="aten::_log_softmax")], min_judged=1)
        report = self.gate(candidate=RELU, code=1)
        self.assertEqual(report["first_divergence"]["key"]["operator"], "aten::relu")

    def test_entries_that_cannot_be(self):
        for entry, words in ((expected(operator="aten::gelu"), "no operator of the run"),
                             (expected(expires=day(181)), "180"),
                             (expected(expires="2026-02-30"), "a date"),
                             (expected(limit={"ulp": 1, "atol": 1}), "one of"),
                             (expected(id="rng-streams"), 'no cause has the id "rng-streams"'),
                             ({"reason": "r", "owner": "o", "expires": day(1)}, "accept every divergence")):
            self.configure(expected=[entry], min_judged=1)
            runs = {"*": {"fixture": "three_ops.json", "change": PLATFORM}}
            done = self.tool("gate", "-c", "gate.json", runs=runs)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(words, done.stderr)
        self.configure(expected=[expected()])
        self.assertIn("min_judged", self.tool("gate", "-c", "gate.json").stderr)


if __name__ == "__main__":
    unittest.main()
