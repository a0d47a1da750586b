#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a module of the hooks in Python imports one that does not stand above it in the table of the
architecture, so that none import each other in a circle: `hook_layers.py ROOT`."""
import ast
import re
import sys
from pathlib import Path

ARCHITECTURE = "docs/ARCHITECTURE.md"
FOLDER, PACKAGE = "dumpers/python", "repro_check_hooks"
# Beside the modules that are files here: a library in C, and a module of the Python package that is lent.
ELSEWHERE = {"calls": f"{FOLDER}/{PACKAGE}/calls.c", "ownership": "python/repro_check/ownership.py"}
# All that may lie at the top level of a program's path.
TOP_LEVEL = {"sitecustomize.py", PACKAGE}


def listed(root: Path):
    """Modules as the page lists them, the lowest first."""
    names, inside = [], False
    for line in (root / ARCHITECTURE).read_text(encoding="utf-8").split("\n"):
        if line.startswith("## "):
            inside = f"`{FOLDER}/`" in line
        elif inside and (row := re.match(r"\| `(\w+)` \|", line)):
            names.append(row.group(1))
    return names


def imports(tree: ast.AST, own: set):
    """(line, module of the package) of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".")
            if node.level == 0 and base[0] == PACKAGE:
                base = base[1:] or [""]
            elif node.level == 0 and base[0] not in own:
                continue
            yield from ((node.lineno, name) for name in ([base[0]] if base[0] else [each.name for each in node.names]))
        elif isinstance(node, ast.Import):
            for name in (each.name.split(".") for each in node.names):
                if name[0] == PACKAGE and len(name) > 1:
                    yield node.lineno, name[1]
                elif name[0] in own:
                    yield node.lineno, name[0]


def late(tree: ast.AST):
    """(line, module, function) of the table of what is imported by name once a module of PyTorch is there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for value in node.value.values:
                if isinstance(value, ast.Tuple) and all(isinstance(each, ast.Constant) for each in value.elts):
                    yield (value.lineno, *(each.value for each in value.elts))


def check_module(order, trees, name: str):
    path = f"{FOLDER}/{PACKAGE}/{name}.py"
    for line, other in imports(trees[name], set(order)):
        if other not in order:
            yield f"{path}:{line}: {other} is no module of {ARCHITECTURE}"
        elif order.index(other) >= order.index(name):
            yield f"{path}:{line}: {ARCHITECTURE} does not have {other} above {name}"
    if name == "attach":
        for line, room, function in late(trees[name]):
            known = {node.name for node in trees[room].body if isinstance(node, ast.FunctionDef)} if room in trees else ()
            if function not in known:
                yield f"{path}:{line}: {room} has no {function}"


def check(root: Path):
    order, package = listed(root), root / FOLDER / PACKAGE
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.glob("*.py"))}
    problems = []
    for name in {*trees, *ELSEWHERE} ^ {*order, "__init__"}:
        problems.append(f"{ARCHITECTURE} and {FOLDER}/{PACKAGE} do not both have {name}")
    build = (root / FOLDER / "CMakeLists.txt").read_text(encoding="utf-8")
    for name in set(re.search(r"foreach\(name ([^)]*)\)", build).group(1).split()) ^ set(trees):
        problems.append(f"{FOLDER}/CMakeLists.txt and {FOLDER}/{PACKAGE} do not both have {name}")
    problems += [f"{path} is not there" for path in ELSEWHERE.values() if not (root / path).exists()]
    if trees["__init__"].body[1:]:
        problems.append(f"{FOLDER}/{PACKAGE}/__init__.py is loaded with each module: it holds no code")
    # Run as a program, kit has the folder before the standard library.
    for name in set(order) & getattr(sys, "stdlib_module_names", set()):
        problems.append(f"{FOLDER}/{PACKAGE}/{name}.py hides the module {name} of Python")
    for path in sorted((root / FOLDER).iterdir()):
        if path.name not in {*TOP_LEVEL, "CMakeLists.txt", "__pycache__"}:
            problems.append(f"{FOLDER}/{path.name}: a further name at the top level of a program's path")
    for name in trees:
        if name in order:
            problems += check_module(order, trees, name)
    return problems, len(trees)


def main() -> int:
    problems, seen = check(Path(sys.argv[1]))
    print("\n".join(problems))
    print(f"{seen} modules, {len(problems)} problems")
    return 1 if problems or seen < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
