#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents say what is so: links lead somewhere, JSON parses, commands that are shown exist:
`documents.py ROOT [REPRO_CHECK]`."""
import json
import re
import subprocess
import sys
from pathlib import Path

import source_tree

LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)")
MENTION = re.compile(r"(?<![\w/.*{}<>-])[\w/-]+\.md\b")
EXAMPLE = "summary.md"  # of what a report is written to
CODE = (".cpp", ".h", ".c", ".py", ".cmake", ".sh")
COMMAND = re.compile(r"(?<![\w/.-])(?<!set by )repro-check ([a-z]+)((?: --?[a-z-]+)?)")


def check_links(root: Path, path: Path, text: str):
    for match in LINK.finditer(text):
        if not (root / path.parent / match.group(1)).exists():
            yield f"{path}: link to {match.group(1)}, which is not there"


def check_json(path: Path, text: str):
    blocks = [text] if path.suffix == ".json" else re.findall(r"```json\n(.*?)```", text, re.S)
    for block in blocks:
        fragment = path.suffix == ".md" and not block.lstrip().startswith(("{", "["))
        try:
            json.loads("{" + block + "}" if fragment else block)
        except ValueError as error:
            yield f"{path}: JSON that does not parse: {error}"


def check_mentions(path: Path, text: str, known):
    """A comment must not send its reader to a document that is not here."""
    for match in MENTION.finditer(text):
        if match.group(0).rsplit("/", 1)[-1] not in known and match.group(0) != EXAMPLE:
            yield f"{path}: speaks of {match.group(0)}, which is not there"


def verbs_of(tool: str):
    text = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout
    sections = re.findall(r"^Commands[^\n]*:\n((?:  .*\n)+)", text, re.MULTILINE)
    return set(re.findall(r"^  ([a-z]+) ", "".join(sections), re.MULTILINE))


def check_commands(path: Path, text: str, verbs):
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.S))
    for match in COMMAND.finditer(code):
        if match.group(1) not in verbs:
            yield f"{path}: shows 'repro-check {match.group(1)}', which is no command"


def main() -> int:
    root = Path(sys.argv[1])
    verbs = verbs_of(sys.argv[2])
    problems, documents = [], 0
    files = [*source_tree.files(root)]
    known = {path.name for path in files if path.suffix == ".md"}
    for path in files:
        if path.suffix in CODE and path.parts[0] != "tests":
            problems += check_mentions(path, source_tree.read(root, path), known)
        if path.suffix not in (".md", ".json") or path.parts[0] == "tests":
            continue
        documents += 1
        text = source_tree.read(root, path)
        problems += check_json(path, text)
        if path.suffix == ".md":
            problems += [*check_links(root, path, text), *check_commands(path, text, verbs)]
    print("\n".join(problems))
    print(f"{documents} documents, {len(verbs)} commands, {len(problems)} problems")
    return 1 if problems or not documents or not verbs else 0


if __name__ == "__main__":
    sys.exit(main())
