#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules for what is built into HTML reports: `page_sources.py ROOT`. A name from a report is text and
nothing else, and what others wrote is what it is said to be. Exit 1 with one line a violation."""
import hashlib
import re
import sys
from pathlib import Path

FORBIDDEN = {
    r"\b(inner|outer)HTML\b|\binsertAdjacentHTML\b|\bdocument\.write|\bDOMParser\b": "makes markup of text",
    r"\beval\s*\(|\bnew Function\b|\bset(Timeout|Interval)\(\s*[\"'`]": "makes code of text",
    r"\bstyle\s*=\s*[\"']|\son[a-z]+\s*=\s*[\"']|\bcssText\b": "is what the page's policy forbids",
    r"\bfetch\s*\(|\bXMLHttpRequest\b|\bWebSocket\b|\bimport\s*\(|@import|\burl\(": "loads something",
    r"\bhttps?://(?!www\.w3\.org/)": "is an address",
}


def check_text(name: str, text: str):
    for pattern, why in FORBIDDEN.items():
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: '{match.group(0)}' {why}"
    for number, line in enumerate(text.split("\n"), 1):
        if "`" in line and line.count("`") % 2:
            yield f"{name}:{number}: a string over several lines would lose its indentation"


def check_vendored(folder: Path):
    said = dict(re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$",
                           (folder / "VENDOR.md").read_text(encoding="utf-8"), re.MULTILINE))
    for file in sorted(folder.iterdir()):
        if file.name == "VENDOR.md":
            continue
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if said.pop(file.name, None) != digest:
            yield f"{file}: VENDOR.md does not say {digest}"
    yield from (f"{folder / name}: VENDOR.md names it, and it is not there" for name in said)


def main() -> int:
    folder = Path(sys.argv[1]) / "cmd/render/html"
    planted = "node.innerHTML = name;"
    assert list(check_text("planted", planted)), "the rule does not find what it is for"
    problems = list(check_vendored(folder / "vendor"))
    for file in sorted(folder.glob("*.*")):
        problems += check_text(file.name, file.read_text(encoding="utf-8"))
    print("\n".join(problems))
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
