#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules that a compiler does not know: `house_rules.py ROOT`. Exit 1 with one line a violation."""
import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import source_tree

MAX_FUNCTION_LINES = 60
CODE = {".h", ".cpp", ".py", ".cmake", ".sh"}
TEXT = CODE | {".md", ".json", ".txt", ".xml", ".npy.txt", ""}

# Written in two halves, so that this file does not break its own rule.
LEFTOVERS = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|X" + "XX|HA" + "CK)\\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(" + "wo" + r"rk/main|wo" + r"rk/shared|ro" + "ot)/")


def is_script(root: Path, path: Path) -> bool:
    with open(root / path, "rb") as file:
        return file.read(2) == b"#!"


def is_code(root: Path, path: Path) -> bool:
    return path.suffix in CODE or path.name == "CMakeLists.txt" or is_script(root, path)


def cpp_functions(text: str):
    """(first line, length) of every function of a file that clang-format has laid out: it starts on
    a line that closes a parameter list and opens a brace, and ends at the brace below its start."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        opened = re.match(r"^( *)\S.*\).*\{$", line) or re.match(r"^( *)\S.*\) ?:.*\{$", line)
        if not opened or re.match(r"^ *(if|for|while|switch|else|\}|struct|class|namespace)\b", line):
            continue
        if re.search(r"\[[^\]]*\] ?\(", line):  # a lambda belongs to the function around it
            continue
        start = number
        while start > 0 and lines[start - 1].strip() and not lines[start - 1].rstrip().endswith(
                (";", "}", "{", ":")) and not lines[start - 1].lstrip().startswith("//"):
            start -= 1
        indent = len(lines[start]) - len(lines[start].lstrip())
        for end in range(number + 1, len(lines)):
            if lines[end].startswith(" " * indent + "}"):
                yield start + 1, end - start + 1
                break


def python_functions(text: str):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def check_sizes(root: Path, path: Path, text: str):
    functions = {".h": cpp_functions, ".cpp": cpp_functions, ".py": python_functions}
    for first, length in functions.get(path.suffix, lambda _: ())(text):
        if length > MAX_FUNCTION_LINES:
            yield f"{path}:{first}: a function of {length} lines, {MAX_FUNCTION_LINES} are the limit"


def check_words(path: Path, text: str):
    for pattern, why in ((LEFTOVERS, "unfinished business"), (MACHINE_PATHS, "a path of a machine")):
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: '{match.group(0)}' is {why}"


def check_header(path: Path, text: str):
    first = "\n".join(text.split("\n", 3)[:3])
    if "SPDX-License-Identifier: Apache-2.0" not in first:
        yield f"{path}:1: no SPDX-License-Identifier line"
    if path.suffix == ".h" and "#pragma once" not in text:
        yield f"{path}:1: no #pragma once"
    in_house = path.suffix in (".h", ".cpp") and path.parts[0] != "tests"
    if in_house and re.search(r"^\s*using namespace ", text, re.MULTILINE):
        yield f"{path}: using namespace"


def check_script(root: Path, path: Path):
    with open(root / path, encoding="utf-8") as file:
        shell = "bash" in file.readline() or path.suffix == ".sh"
    if shell:
        result = subprocess.run(["bash", "-n", root / path], capture_output=True, text=True)
        if result.returncode != 0:
            yield f"{path}: bash -n: {result.stderr.strip()}"


def check_archive(root: Path, path: Path):
    """A model keeps the paths of the machine that made it, unless somebody took care."""
    contents = {"the file": (root / path).read_bytes()}
    if zipfile.is_zipfile(root / path):
        with zipfile.ZipFile(root / path) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
    for name, content in contents.items():
        if MACHINE_PATHS.search(content.decode("latin-1")):
            yield f"{path}: {name} holds a path of the machine that made it"


def check_file(root: Path, path: Path):
    if path.suffix == ".pt":
        yield from check_archive(root, path)
        return
    if path.suffix not in TEXT or path.as_posix().startswith("tests/fixtures/"):
        return
    try:
        text = source_tree.read(root, path)
    except UnicodeDecodeError:
        return
    yield from check_words(path, text)
    if is_code(root, path):
        yield from check_sizes(root, path, text)
        yield from check_header(path, text)
        yield from check_script(root, path)


def main() -> int:
    root = Path(sys.argv[1])
    problems = []
    for path in source_tree.files(root):
        problems += check_file(root, path)
    print("\n".join(problems))
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
