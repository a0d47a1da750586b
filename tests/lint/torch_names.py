#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the table of private names that the hooks lean on against their code, and against each PyTorch at hand:
`torch_names.py ROOT [PYTHON ...]`. A PyTorch is that of an interpreter: of this one, of the system's, of those named,
and of those in REPRO_CHECK_OTHER_PYTHONS, with colons between."""
import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

FOLDERS = ("dumpers/python/repro_check_hooks", "python/repro_check")
TABLE = "dumpers/python/repro_check_hooks/torch_names.py"
# Documented; and a mark that is put on hooks, which compilers look for.
KNOWN = {"_exit", "_asdict", "_fields", "_torchdynamo_disable"}
PRIVATE = re.compile(r"_[A-Za-z]\w*")


def table_of(root: Path):
    """The module, by its file: its package is not on the path."""
    spec = importlib.util.spec_from_file_location("torch_names_of_hooks", root / TABLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parts(name: str):
    return [part for part in re.split(r"\W+", name) if part]


def defined(trees):
    """Names that are ours: of functions, classes, variables and attributes that our objects give themselves."""
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
            elif (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                  and isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield node.attr


def used(tree: ast.AST):
    """(line, name) of each name that code asks others for: as an attribute, by a string, or of an import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
            yield from ((node.lineno, part) for part in parts(node.value))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            for name in [module, *(each.name for each in node.names)]:
                yield from ((node.lineno, part) for part in parts(name))


def check_code(root: Path):
    table = table_of(root)
    trees = {path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
             for folder in FOLDERS for path in sorted((root / folder).glob("*.py"))}
    del trees[TABLE]
    ours, found, problems = set(defined(trees)) | KNOWN, set(), []
    listed = {part for module, names in table.NAMES.items() for name in (module, *names) for part in parts(name)}
    for path, tree in trees.items():
        for line, name in used(tree):
            found.add(name)
            is_theirs = PRIVATE.fullmatch(name) and name not in ours and not name.startswith("_repro_check")
            if is_theirs and name not in listed:
                problems.append(f"{path}:{line}: {name} is private to others, and not in {TABLE}")
    for module, names in table.NAMES.items():
        for name, (_, _, lost) in names.items():
            if parts(name)[-1] not in found:
                problems.append(f"{TABLE}: {module}.{name} is used nowhere")
            if not lost or lost != lost.strip(" .") or lost[0].isupper():
                problems.append(f"{TABLE}: {module}.{name}: '{lost}' does not go on after 'so'")
    return problems, sum(map(len, table.NAMES.values()))


def check_release(root: Path):
    """Of this interpreter: names that should be there, and names that should not."""
    table, problems, seen = table_of(root), [], 0
    for module, names in table.NAMES.items():
        try:
            loaded = importlib.import_module(module)
        except Exception as error:  # not of this release, or without what it needs
            if importlib.util.find_spec(module.partition(".")[0]):
                print(f"  {module}: cannot be looked at: {type(error).__name__}: {str(error)[:80]}")
            continue
        release = table.release_of(module)
        for name, row in names.items():
            seen += 1
            if table.is_expected(row, release) != table.is_there(loaded, name):
                there = "is there" if table.is_there(loaded, name) else "is not there"
                problems.append(f"{module}.{name} {there} in {release}, and {TABLE} has {row[:2]}")
    torch = sys.modules.get("torch")
    print(f"PyTorch {getattr(torch, '__version__', 'none')}, Python {sys.version.split()[0]}: {seen} names looked at")
    return problems


def others():
    """An interpreter of an environment is a link, and has packages of its own."""
    named = [*sys.argv[2:], *os.environ.get("REPRO_CHECK_OTHER_PYTHONS", "").split(":"), "/usr/bin/python3"]
    return dict.fromkeys([sys.executable, *filter(os.path.exists, named)])


def main() -> int:
    root = Path(sys.argv[1])
    if sys.argv[2:] == ["--release"]:
        problems = check_release(root)
        print("\n".join(problems))
        return 1 if problems else 0
    problems, seen = check_code(root)
    print("\n".join(problems))
    print(f"{seen} names, {len(problems)} problems")
    failed = [python for python in others()
              if subprocess.run([python, "-W", "ignore", "-B", __file__, root, "--release"]).returncode != 0]
    return 1 if problems or seen == 0 or failed else 0


if __name__ == "__main__":
    sys.exit(main())
