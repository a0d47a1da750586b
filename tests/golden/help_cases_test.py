# SPDX-License-Identifier: Apache-2.0
"""Every verb of the tool, and every verb below a verb, has a golden case for its `--help`.

usage: help_cases_test.py REPRO_CHECK
"""

import json
import pathlib
import re
import subprocess
import sys

CASES = pathlib.Path(__file__).resolve().parent / "cases"


def verbs_of(tool, *above):
    """By --help: (), ("diff",), ("gate", "accept")."""
    yield above
    text = subprocess.run([tool, *above, "--help"], capture_output=True, text=True, check=True).stdout
    for section in re.findall(r"^Commands[^\n]*:\n((?:  .*\n)+)", text, re.M):
        for name in re.findall(r"^  ([a-z][a-z-]*) ", section, re.M):
            yield from verbs_of(tool, *above, name)


def main():
    wanted = {"_".join(("help", *verb)): [*verb, "--help"] for verb in verbs_of(sys.argv[1])}
    found = {path.name: json.loads((path / "case.json").read_text())["argv"]
             for path in CASES.glob("help*")}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            print(f"{name}: the tool has {wanted.get(name)}, the case runs {found.get(name)}")
    print(f"{len(wanted)} helps, {len(found)} cases")
    return int(wanted != found or len(wanted) < 2)


if __name__ == "__main__":
    sys.exit(main())
