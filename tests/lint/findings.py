#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every finding of comparators/report/finding.h is made by some comparator, every key of a phrase has a text and every text
a comparator that says it, every field that a text asks for is set by one, and no comparator whose judgements are in the
catalogue writes a sentence: `findings.py ROOT`."""
import json
import re
import sys
from pathlib import Path

IDS = "comparators/report/finding.h"
CATALOGUE = "cmd/words/catalogue.json"
PLACE = {"rank", "step", "op", "line", "tensor"}
# Files whose judgements are findings, all of them.
MOVED = ("ranks/ranks", "ranks/exchange_match", "cause/cause", "cause/hunks", "cause/host_generators")
# Names of what a recording lacks, of generators, and lists of names of arguments and operators.
NAMES = {"the content of some of its inputs", "values (overflow, flush to zero)", "NumPy's global generator",
         "whether its value was changed by another thread while in use",
         "train training p dropout dropout_p cudnn_enabled"}
SENTENCE = re.compile(r'"[^"\n]*[a-z]+ [a-z]+ [a-z]+[^"\n]*"')
PREFIXES = ("", "other_")


def unique(pairs):
    """An object of JSON, which may not have a key twice."""
    keys = [key for key, _ in pairs]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        sys.exit(f"{CATALOGUE} has twice: {', '.join(twice)}")
    return dict(pairs)


def problems(enumerators, catalogue, sources, moved):
    used = set(re.findall(r"FindingId::(k\w+)", sources))
    yield from (f"nothing makes {each}" for each in enumerators if each not in used)
    keys = set(catalogue["phrases"])
    said = set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', sources))
    yield from (f"nothing says the phrase {each}" for each in sorted(keys - said))
    told = re.findall(r'(?:Phrase|inherited_from|advise)\((?:\*?\w+, )?"([a-z-]+)"', sources)
    yield from (f"the phrase {each} has no text" for each in sorted(set(told) - keys))
    fields = set(re.findall(r'(?:(?:with|put)\(|\{)"([a-z_]+)",', sources))
    known = PLACE | {prefix + name for prefix in PREFIXES for name in fields}
    texts = json.dumps(catalogue)
    asked = set(re.findall(r"\{[?!]?([a-z_]+)[:}]", texts))
    yield from (f"a text asks for {{{name}}}, which no comparator sets" for name in sorted(asked - known))
    parts = set(re.findall(r"\{\+([a-z_]+)\}", texts))
    yield from (f"the part {each} is not used, or is not there" for each in sorted(parts ^ set(catalogue["parts"])))
    for name, text in moved.items():
        code = re.sub(r"//.*", "", text)
        yield from (f"{name} has a sentence: {each}" for each in SENTENCE.findall(code) if each.strip('"') not in NAMES)


def selftest():
    right = {"parts": {}, "phrases": {"a-b": "{x}"}}
    says = 'FindingId::kA with("x", 1) Phrase("a-b")'
    assert not list(problems(["kA"], right, says, {"f": 'f("one two")'}))
    for wrong in (problems(["kA", "kB"], right, says, {}), problems(["kA"], right, says + 'Phrase("c-d")', {}),
                  problems(["kA"], {**right, "findings": "{y} is"}, says, {}), problems(["kA"], right, says.replace("x", "z"), {}),
                  problems(["kA"], right, says, {"f": '"it was not so"'}), problems(["kA"], {**right, "parts": {"p": ""}}, says, {}),
                  problems(["kA"], right, says.replace("a-b", "c-d"), {})):
        assert list(wrong), "a planted fault was not found"


def main() -> int:
    root = Path(sys.argv[1])
    selftest()
    head = (root / IDS).read_text(encoding="utf-8")
    body = head.split("enum class FindingId", 1)[1].split("};", 1)[0]
    ids = re.findall(r"^  (k\w+),", body, re.MULTILINE)
    files = [path for room in ("comparators", "cmd") for path in sorted((root / room).rglob("*.[ch]*")) if path.parent.name != "words"]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in files if path.suffix in (".h", ".cpp"))
    moved = {name: (root / f"comparators/{name}.cpp").read_text(encoding="utf-8") for name in MOVED}
    catalogue = json.loads((root / CATALOGUE).read_text(encoding="utf-8"), object_pairs_hook=unique)
    found = list(problems(ids, catalogue, sources, moved))
    print("\n".join(found))
    print(f"{len(ids)} findings")
    return 1 if found or not ids else 0


if __name__ == "__main__":
    sys.exit(main())
