#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records of programs are what docs/EXEC.md lists: each that recorders write has a row there, each row is written, each
constant of core/trace/program_records.h is in use, and no other C++ spells the name of a record. `records.py ROOT`"""
import re
import sys
from pathlib import Path

import source_tree

HEADER, PAGE = "core/trace/program_records.h", "docs/EXEC.md"
NAME = re.compile(r"repro_check::([a-z_]+)")
ROW = re.compile(r"^\| ((?:`repro_check::[a-z_.]+`(?:, )?)+) \|", re.MULTILINE)
CONSTANT = re.compile(r'inline constexpr (?:std::string_view|char) (k\w+) = (?:"([^"]*)"|)')
# Operators of our own, which stand for calls: of a model what it returns, and marks in its graph.
OWN = {"returned", "at", "begin_fork", "end_fork", "leave_thread"}


def problems(header, page, python, sources):
    rows = {name for names in ROW.findall(page) for name in NAME.findall(names)}
    known = {value for _, value in CONSTANT.findall(header)}
    written = {name for text in python.values() for name in re.findall(r'"repro_check::([a-z_]+)', text)}
    code = "\n".join(sources.values())
    for constant, value in CONSTANT.findall(header):
        name = NAME.match(value)
        if not re.search(rf"\b{constant}\b", code):
            yield f"nothing uses {constant}"
        elif name and name.group(1):
            written.add(name.group(1))
    yield from (f"{PAGE} has no row of {name}" for name in sorted(written - rows))
    yield from (f"nothing records {name}" for name in sorted(rows - written))
    for path, text in sources.items():
        for name in re.findall(r'"repro_check::([a-z_]+)', text):
            if name not in OWN and path != HEADER:
                yield f"{path} spells {name}" + ("" if f"repro_check::{name}" in known else ", which no constant has")


def selftest():
    header, row = 'inline constexpr std::string_view kA = "repro_check::a";', "| `repro_check::a` | it |\n"
    use, write = {"x": "kA"}, {"y": 'record("repro_check::a", values)'}
    assert not list(problems(header, row, write, use))
    for wrong in (problems(header, "", write, use), problems(header, row, write, {"x": ""}),
                  problems(header, row, {"y": 'record("repro_check::b", values)'}, use),
                  problems(header, row + "| `repro_check::b` | it |\n", write, use),
                  problems(header, row, write, {"x": 'kA == "repro_check::a"'})):
        assert list(wrong), "a planted fault was not found"


def main() -> int:
    root = Path(sys.argv[1])
    selftest()
    sources = {path.as_posix(): re.sub(r"//.*", "", source_tree.read(root, path))
               for _, path in source_tree.sources(root)}
    header = sources.pop(HEADER)
    python = {path.name: path.read_text(encoding="utf-8") for path in (root / "dumpers/python").rglob("*.py")}
    uses = {**sources, HEADER: re.sub(CONSTANT, "", header)}
    found = list(problems(header, (root / PAGE).read_text(encoding="utf-8"), python, uses))
    print("\n".join(found))
    print(f"{len(CONSTANT.findall(header))} constants")
    return 1 if found or not header else 0


if __name__ == "__main__":
    sys.exit(main())
