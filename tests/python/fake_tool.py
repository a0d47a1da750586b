#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for repro-check in the tests of what calls it: does what FAKE_* says, and writes its
arguments to FAKE_LOG."""
import json
import os
import pathlib
import sys
import time

code = int(os.environ.get("FAKE_EXIT", "0"))
with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:
    log.write(json.dumps(sys.argv[1:]) + "\n")
time.sleep(float(os.environ.get("FAKE_SLEEP", "0")))
if "--out" in sys.argv:
    out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    report = os.environ.get("FAKE_REPORT", json.dumps({"verdict": {"exit_code": code}}))
    if report:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.json").write_text(report)
for place, word in enumerate(sys.argv):
    if word == "--report":
        kind, destination = sys.argv[place + 1].split("=", 1)
        append = destination.startswith("+")
        with open(destination.lstrip("+"), "a" if append else "w", encoding="utf-8") as file:
            file.write(f"report as {kind}\n")
if code in (0, 1, 3, 4, 5):
    print(os.environ.get("FAKE_STDOUT", f"VERDICT of the fake, exit {code}"))
if code not in (0, 1):
    print(f"repro-check: error: the fake was told to end with {code}", file=sys.stderr)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
