#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what users are told when something is wrong against transcripts that people have read:
`errors_test.py [--update] --tool TOOL --make-dump TOOL [--recorder TOOL] TRANSCRIPT...`

A transcript is a session in an empty directory: `$ ` before a command, then what it says on stdout and
stderr together, then its exit code in brackets unless that is 0. Lines that begin with `#` are remarks.
Beside the shell's own there are the commands
    repro-check             the tool; what it says with exit code 2 must be on stderr
    make-dump FIXTURE DIR   a dump of a fixture of this folder
    validate MEMBERS        `repro-check validate` of a configuration with these members
    unprivileged COMMAND    runs it so that permissions of files hold for root too
Transcripts called torch_* use the recorder; the others have none."""
import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIP = 77

# What differs from one machine, and from one LibTorch, to another.
NORMALISE = [
    (re.compile(r"\b\d+(\.\d+)? s\b"), "N s"),
    (re.compile(r"eof = \d+"), "eof = N"),
    (re.compile(r"(is not available: |is not a device: ).*"), r"\1..."),
    (re.compile(r"^\[\d/\d\] .*\n", re.M), ""),
]

UNPRIVILEGED = """#!/bin/sh
if [ "$(id -u)" -ne 0 ]; then exec "$@"; fi
exec setpriv --bounding-set=-dac_override,-dac_read_search -- "$@"
"""

VALIDATE = """#!/bin/sh
echo "{ \\"model\\": \\"model.pt\\", \\"inputs\\": [], $1 }" >c.json
exec repro-check validate -c c.json
"""

# Exit code 2 leaves stdout empty: what is wrong must not end up in a report.
TOOL = """#!/bin/sh
"{tool}" "$@" >"{tmp}/.stdout" 2>"{tmp}/.stderr" </dev/null
status=$?
if [ "$status" -eq 2 ] && [ -s "{tmp}/.stdout" ]; then echo "(something is on stdout)"; fi
cat "{tmp}/.stdout" "{tmp}/.stderr"
exit "$status"
"""


def commands_of(text: str):
    """(what stands before the first command, [(remarks, command, what it said)])"""
    head, blocks, remarks = [], [], []
    for line in text.splitlines():
        if line.startswith("$ "):
            blocks.append((remarks, line[2:], []))
            remarks = []
        elif line.startswith("#") or (not line and remarks):
            remarks.append(line)
        elif blocks:
            blocks[-1][2].append(line)
        else:
            head.append(line)
    return head, blocks


class Session:
    def __init__(self, folder: Path, tools, with_recorder: bool):
        self.folder = folder
        programs = folder.parent / "bin"
        programs.mkdir()
        scripts = {
            "repro-check": TOOL.format(tool=tools.tool, tmp=folder.parent),
            "make-dump": f'#!/bin/sh\nexec "{tools.make_dump}" "{HERE}/fixtures/$1" "$2"\n',
            "unprivileged": UNPRIVILEGED,
            "validate": VALIDATE,
        }
        for name, text in scripts.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        recorder = tools.recorder if with_recorder else str(folder / "no-recorder")
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8",
            "TMPDIR": str(folder.parent), "REPRO_CHECK_RECORDER": recorder,
            "EXAMPLES": str(HERE.parent.parent / "examples")}

    def run(self, command: str):
        done = subprocess.run(["sh", "-c", command], cwd=self.folder, env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                              check=False)
        text = done.stdout.decode("utf-8").replace(str(self.folder), "<TMP>")
        for pattern, replacement in NORMALISE:
            text = pattern.sub(replacement, text)
        lines = text.splitlines()
        return lines + [f"[{done.returncode}]"] if done.returncode else lines


def played(text: str, tools, with_recorder: bool) -> str:
    head, blocks = commands_of(text)
    out = list(head)
    with tempfile.TemporaryDirectory(prefix="repro-check-") as name:
        folder = Path(os.path.realpath(name)) / "here"
        folder.mkdir()
        session = Session(folder, tools, with_recorder)
        for remarks, command, _ in blocks:
            out += [*remarks, f"$ {command}", *session.run(command)]
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
    return "\n".join(out) + "\n"


def can_drop_privileges() -> bool:
    if os.geteuid() != 0:
        return True
    return shutil.which("setpriv") is not None and subprocess.run(
        ["setpriv", "--bounding-set=-dac_override", "--", "true"], capture_output=True,
        check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transcript", nargs="+", type=Path)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--make-dump", required=True)
    parser.add_argument("--recorder", default="")
    parser.add_argument("--update", action="store_true", help="write what is said now")
    tools = parser.parse_args()
    failed = 0
    for path in tools.transcript:
        text = path.read_text(encoding="utf-8")
        if "unprivileged " in text and not can_drop_privileges():
            print(f"{path.name}: skipped: permissions do not hold for this user")
            return SKIP
        now = played(text, tools, path.stem.startswith("torch_"))
        if tools.update:
            path.write_text(now, encoding="utf-8")
        elif now != text:
            failed += 1
            print("".join(difflib.unified_diff(text.splitlines(True), now.splitlines(True),
                                               f"expected {path.name}", f"actual {path.name}")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
