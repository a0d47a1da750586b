#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every cause that the comparator can name (its table) has its section in docs/CAUSES.md, and none is there that it
cannot: `causes.py ROOT`. Also: what recorded reports of the tests name, and what the part on training says that the tool
says, which must be in its source."""
import json
import re
import sys
from pathlib import Path

TABLE = "cmd/words/catalogue.json"
REPORTED = re.compile(r"\"cause\":\s*\{\s*\"id\":\s*\"[a-z-]+\",\s*\"name\":\s*\"([^\"]+)\"")
PARTS = ("**Recognised**", "**Why", "fix")
TRAINING = "\n# Of a program that trains\n"
JOINT = re.compile(r'"\s*"')  # of a literal that goes on in the next line
QUOTED = re.compile(r"`([^`]*)`")


def problems(sections, causes, reported, text):
    yield from (f"docs/CAUSES.md has no section for '{name}'" for name in sorted(causes - sections))
    yield from (f"docs/CAUSES.md has '{name}', which is no cause" for name in sorted(sections - causes))
    yield from (f"a report names '{name}', which the table has not" for name in sorted(reported - causes))
    for name in sorted(sections):
        body = text.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
        yield from (f"'{name}' does not say {p}" for p in PARTS if p.lower() not in body.lower())
        if f"(#{name.replace(' ', '-')})" not in text:
            yield f"'{name}' is not in the list at the top"


def not_said(training, source):
    for section in training.split("\n### ")[1:]:
        name = section.partition("\n")[0]
        said, means, rest = section.partition("**Means")
        yield from (f"'{name}' has no {part}" for part, has in (
            ("**Says**", "**Says**" in said), ("**Means**", means), ("fix", "fix" in rest.lower())) if not has)
        for phrase in QUOTED.findall(" ".join(said.split())):
            if " " in phrase and phrase.strip() not in source:
                yield f"'{name}': the tool does not say '{phrase}'"


def texts_of(node):
    """All texts of a document of JSON."""
    if isinstance(node, str):
        yield node
    for each in node.values() if isinstance(node, dict) else ():
        yield from texts_of(each)


def source_of(root):
    files = sorted(path for room in ("comparators", "cmd") for path in (root / room).rglob("*.cpp"))
    return JOINT.sub("", "\n".join(path.read_text(encoding="utf-8") for path in files))


def main() -> int:
    root = Path(sys.argv[1])
    text, _, training = (root / "docs/CAUSES.md").read_text(encoding="utf-8").partition(TRAINING)
    sections = set(re.findall(r"^## (.+)$", text, re.MULTILINE))
    catalogue = json.loads((root / TABLE).read_text(encoding="utf-8"))
    causes = {row["title"] for row in catalogue["causes"].values()}
    reported = set()
    for path in (root / "tests/golden").rglob("*.txt"):
        reported.update(REPORTED.findall(path.read_text(encoding="utf-8", errors="replace")))
    found = list(problems(sections, causes, reported, text)) + list(not_said(training, source_of(root) + "\n".join(texts_of(catalogue))))
    print("\n".join(found))
    print(f"{len(causes)} causes, {len(sections)} sections, {len(reported)} in reports")
    return 1 if found or len(causes) < 20 or not reported or not training else 0


if __name__ == "__main__":
    sys.exit(main())
