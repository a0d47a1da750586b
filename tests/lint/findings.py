#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every finding of comparators/report/finding.h is made by some comparator, every key of a phrase has a text and every text
a comparator that says it, every field that a text asks for is set by one, and no comparator whose judgements are in the
catalogue writes a sentence: `findings.py ROOT`."""
import re
import sys
from pathlib import Path

IDS = "comparators/report/finding.h"
CATALOGUE = "cmd/words/catalogue.cpp"
PHRASES = "cmd/words/phrases.cpp"
PLACE = {"rank", "step", "op", "line", "tensor"}
# Files whose judgements are findings, all of them.
MOVED = ("ranks/ranks", "ranks/exchange_match", "cause/cause", "cause/hunks", "cause/host_generators")
# Names of what a recording lacks, of generators, and lists of names of arguments and operators.
NAMES = {"the content of some of its inputs", "values (overflow, flush to zero)", "NumPy's global generator",
         "whether its value was changed by another thread while in use",
         "train training p dropout dropout_p cudnn_enabled"}
SENTENCE = re.compile(r'"[^"\n]*[a-z]+ [a-z]+ [a-z]+[^"\n]*"')
PREFIXES = ("", "other_")


def problems(ids, catalogue, phrases, sources, moved):
    used = set(re.findall(r"FindingId::(k\w+)", sources))
    keys = set(re.findall(r'^    \{"([a-z-]+)",', phrases, re.MULTILINE))
    said = set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', sources))
    yield from (f"nothing says the phrase {each}" for each in sorted(keys - said))
    told = re.findall(r'(?:Phrase|inherited_from|advise)\((?:\*?\w+, )?"([a-z-]+)"', sources)
    yield from (f"the phrase {each} has no text" for each in sorted(set(told) - keys))
    yield from (f"nothing makes {each}" for each in ids if each not in used)
    rows = re.findall(r"\{Id::(k\w+),", catalogue)
    yield from (f"{each} has no row" for each in ids if each not in rows)
    fields = set(re.findall(r'(?:(?:with|put)\(|\{)"([a-z_]+)",', sources))
    known = PLACE | {prefix + name for prefix in PREFIXES for name in fields}
    texts = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', (catalogue + phrases).replace("\\\n", "")))
    asked = set(re.findall(r"\{[?!]?([a-z_]+)[:}]", texts))
    yield from (f"a text asks for {{{name}}}, which no comparator sets" for name in sorted(asked - known))
    for name, text in moved.items():
        code = re.sub(r"//.*", "", text)
        yield from (f"{name} has a sentence: {each}" for each in SENTENCE.findall(code) if each.strip('"') not in NAMES)


def selftest():
    phrase = '    {"a-b", "{x}"},'
    says = 'FindingId::kA with("x", 1) Phrase("a-b")'
    assert not list(problems(["kA"], '{Id::kA, "{x}"}', phrase, says, {"f": 'f("one two")'}))
    for wrong in (problems(["kA"], "", phrase, says, {}), problems(["kA"], "{Id::kA,", phrase, 'Phrase("a-b")', {}),
                  problems([], '"{y} is"', phrase, says, {}), problems([], "", phrase, says, {"f": '"it was not so"'}),
                  problems([], "", phrase, 'with("x", 1)', {}), problems([], "", "", 'Phrase("a-b")', {})):
        assert list(wrong), "a planted fault was not found"


def main() -> int:
    root = Path(sys.argv[1])
    selftest()
    head = (root / IDS).read_text(encoding="utf-8")
    body = head.split("enum class FindingId", 1)[1].split("};", 1)[0]
    ids = re.findall(r"^  (k\w+),", body, re.MULTILINE)
    sources = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "comparators").rglob("*.[ch]*")))
    moved = {name: (root / f"comparators/{name}.cpp").read_text(encoding="utf-8") for name in MOVED}
    catalogue, phrases = ((root / page).read_text(encoding="utf-8") for page in (CATALOGUE, PHRASES))
    found = list(problems(ids, catalogue, phrases, sources, moved))
    print("\n".join(found))
    print(f"{len(ids)} findings")
    return 1 if found or not ids else 0


if __name__ == "__main__":
    sys.exit(main())
