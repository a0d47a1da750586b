#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `audit`, `ranks`, `relate` and `diff` say of small dumps that no program made: `programs_test.py REPRO_CHECK MAKE_DUMP`.

A case of programs/*_cases.py makes dumps; programs/expected/CASE.txt holds what is said of them: the text, and the
findings of the JSON document. Every id of the catalogue stands in one of these files, but for those that
`precision` and `relate` find by executing operators (models_precision, models_relate_outputs, models_relate_ranks, models_rungs). `--only PART` runs the cases with
that in their name, `--update` writes what the tool says now.
"""

import argparse
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPECTED = HERE / "programs" / "expected"
sys.path[:0] = [str(HERE / "programs"), str(ROOT / "python")]

try:
    import h5py  # noqa: F401
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import audit_cases  # noqa: E402
import diff_cases  # noqa: E402
import model_cases  # noqa: E402
import rank_cases  # noqa: E402
import recording  # noqa: E402
import relate_cases  # noqa: E402
import resume_cases  # noqa: E402

CASES = {
    **audit_cases.CASES,
    **rank_cases.CASES,
    **relate_cases.CASES,
    **resume_cases.CASES,
    **diff_cases.CASES,
    **model_cases.CASES,
}
# The dumps are read by the next process and thrown away: none has to reach a disk.
os.fsync = lambda descriptor: None


def findings_of(document):
    """Those that stand in the JSON document."""
    members = [
        document.get("cause"),
        document.get("why_not"),
        *(each["cause"] for each in document.get("independent", [])),
    ]
    return [*filter(None, members), *document.get("findings", [])]


def rendered_again(tool, document):
    """What `report` makes of the document of a comparison: its exit code and first line."""
    done = subprocess.run([tool, "report", document], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, (done.stdout or done.stderr).splitlines()[0]


def run(tool, words):
    document = pathlib.Path("document.json")
    document.unlink(missing_ok=True)
    reports = [] if "--format" in words else ["--report", f"json={document}"]
    done = subprocess.run([tool, *words, *reports], capture_output=True, text=True, timeout=120, check=False)
    errors = done.stderr.replace(f"repro-check: info: report written to {document}\n", "")
    said = f"{done.stdout}{errors}".replace(audit_cases.SOON, "SOON")
    text = f"$ repro-check {' '.join(words)}\n{said}exit {done.returncode}\n"
    if document.exists() and json.loads(document.read_text())["format"] == "repro-check-report":
        again = rendered_again(tool, document)
        assert again == (done.returncode, done.stdout.splitlines()[0]), (words, again)
    for finding in findings_of(json.loads(document.read_text())) if document.exists() else []:
        text += f"[{finding['id']}] {finding['weight']}\n"
        text += "".join(f"  {member}: {json.dumps(finding[member])}\n" for member in ("where", "fields"))
        text += "".join(f"  {member}: {finding[member]}\n" for member in ("text", "fix"))
    return text


def said(tool, function):
    """@return what stands in the case's file"""
    with tempfile.TemporaryDirectory(prefix="repro-check-") as folder:
        os.chdir(folder)
        commands = function()
        text = f"# {function.__doc__.splitlines()[0]}\n" + "\n".join(run(tool, words) for words in commands)
        os.chdir(HERE)
    return text


def unsaid(catalogue, texts):
    """Ids of findings that stand in no text."""
    executed = ("precision", "relate", "training", "compiled", "sweep")
    expected = {name for name, row in catalogue["findings"].items() if row.get("table") not in executed}
    return sorted(expected - set(re.findall(r"^\[([a-z-]+)\]", texts, re.M)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", type=os.path.abspath)
    parser.add_argument("make_dump", type=os.path.abspath)
    parser.add_argument("--only", metavar="PART", default="")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    recording.MAKE_DUMP = arguments.make_dump
    failed = []
    for name, function in CASES.items():
        if arguments.only not in name:
            continue
        path = EXPECTED / f"{name}.txt"
        text = said(arguments.tool, function)
        expected = path.read_text() if path.exists() else ""
        if arguments.update:
            path.write_text(text)
        elif text != expected:
            failed.append(name)
            print(
                "".join(difflib.unified_diff(expected.splitlines(True), text.splitlines(True), path.name, "said now"))
            )
    catalogue = json.loads((ROOT / "cmd" / "words" / "catalogue.json").read_text())
    assert unsaid({"findings": {"a-b": {}}}, "[a-c] note") == ["a-b"]
    missing = unsaid(catalogue, "".join(path.read_text() for path in sorted(EXPECTED.glob("*.txt"))))
    stale = sorted(path.stem for path in EXPECTED.glob("*.txt") if path.stem not in CASES)
    for what, names in (("is not as expected", failed), ("is said in no case", missing), ("is of no case", stale)):
        print("".join(f"{name}: {what}\n" for name in names), end="")
    return 1 if failed or missing or stale else 0


if __name__ == "__main__":
    sys.exit(main())
