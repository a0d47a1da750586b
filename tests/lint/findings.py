#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every finding of comparators/report/finding.h is made by some comparator, every field that a text of the catalogue asks
for is set by one, and no comparator of a family that has moved into the catalogue writes a sentence: `findings.py ROOT`."""
import re
import sys
from pathlib import Path

IDS = "comparators/report/finding.h"
CATALOGUE = "cmd/words/catalogue.cpp"
PLACE = {"rank", "step", "op", "line", "tensor"}
# Files whose judgements are findings, all of them.
MOVED = ("comparators/ranks/ranks.cpp", "comparators/ranks/exchange_match.cpp")
SENTENCE = re.compile(r'"[^"\n]*[a-z]+ [a-z]+ [a-z]+[^"\n]*"')
PREFIXES = ("", "other_")


def problems(ids, catalogue, sources, moved):
    used = set(re.findall(r"FindingId::(k\w+)", sources))
    yield from (f"nothing makes {each}" for each in ids if each not in used)
    rows = re.findall(r"\{Id::(k\w+),", catalogue)
    yield from (f"{each} has no row" for each in ids if each not in rows)
    fields = set(re.findall(r'(?:with|put)\("([a-z_]+)"', sources))
    known = PLACE | {prefix + name for prefix in PREFIXES for name in fields}
    texts = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', catalogue.replace("\\\n", "")))
    asked = set(re.findall(r"\{[?!]?([a-z_]+)[:}]", texts))
    yield from (f"a text asks for {{{name}}}, which no comparator sets" for name in sorted(asked - known))
    for name, text in moved.items():
        code = re.sub(r"//.*", "", text)
        yield from (f"{name} has a sentence: {each}" for each in SENTENCE.findall(code))


def selftest():
    clean = problems(["kA"], '{Id::kA, "{x}"}', 'FindingId::kA with("x", 1)', {"f": 'f("one two")'})
    assert not list(clean)
    for wrong in (problems(["kA"], "", "FindingId::kA", {}), problems(["kA"], "{Id::kA,", "", {}),
                  problems([], '"{y} is"', 'with("x", 1)', {}), problems([], "", "", {"f": '"it was not so"'})):
        assert list(wrong), "a planted fault was not found"


def main() -> int:
    root = Path(sys.argv[1])
    selftest()
    head = (root / IDS).read_text(encoding="utf-8")
    body = head.split("enum class FindingId", 1)[1].split("};", 1)[0]
    ids = re.findall(r"^  (k\w+),", body, re.MULTILINE)
    sources = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "comparators").rglob("*.cpp")))
    moved = {name: (root / name).read_text(encoding="utf-8") for name in MOVED}
    found = list(problems(ids, (root / CATALOGUE).read_text(encoding="utf-8"), sources, moved))
    print("\n".join(found))
    print(f"{len(ids)} findings")
    return 1 if found or not ids else 0


if __name__ == "__main__":
    sys.exit(main())
