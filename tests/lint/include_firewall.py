#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when an include breaks the table of folders, or the order of the rooms inside one:
`include_firewall.py ROOT`."""
import re
import sys
from pathlib import Path

import source_tree

# Which folders of the house a folder may include; always its own.
ALLOWED = {
    "core": {"core"},
    "configs": {"core"},
    "dumpers/capture": {"core"},
    "dumpers/replay": {"core", "dumpers/capture"},
    "dumpers/model_file": {"core"},
    "dumpers/exported": {"core", "dumpers/capture", "dumpers/model_file"},
    "dumpers/torchscript": {"core", "configs", "dumpers/capture", "dumpers/exported", "dumpers/model_file"},
    "dumpers/imports": {"core", "dumpers/store", "dumpers/model_file"},
    "dumpers/journal": {"core"},
    "dumpers/store": {"core", "dumpers/journal"},
    "dumpers/stub": set(),
    "dumpers/probe": {"core", "dumpers/capture", "dumpers/journal", "dumpers/stub"},
    "dumpers/arrays": {"core", "dumpers/journal"},
    "comparators": {"core", "configs"},
    "baselines": {"core"},
    "cmd": set(source_tree.HOUSE),
}

# Libraries: what their headers look like, and which folders may include them where.
LIBRARIES = {
    "LibTorch": (r"(ATen|c10|torch|caffe2)/", {"dumpers/capture", "dumpers/replay", "dumpers/exported",
                                                   "dumpers/torchscript", "dumpers/probe"}),
    "HDF5": (r"(hdf5|H5\w+)\.h$", {"dumpers/store"}),
    "libarchive": (r"archive(_entry)?\.h$", {"dumpers/store", "dumpers/model_file"}),
    "RE2": (r"re2/.*\.h$", {"configs", "dumpers/imports"}),
    "zstd": (r"zstd\w*\.h$", {"dumpers/store"}),
    "CLI11": (r"CLI/", {"cmd"}),
    "spdlog": (r"spdlog/", {"cmd"}),
    "xxHash": (r"xxhash\.h$", {"core", "dumpers/journal", "dumpers/capture"}),
    # Names alone are no library.
    "json": (r"nlohmann/(?!json_fwd)", set(source_tree.HOUSE)),
    "fmt": (r"fmt/", set(source_tree.HOUSE)),
}

# A comparison is a function of what it is handed: it opens nothing.
FILE_ACCESS = re.compile(r"^(fstream|filesystem|cstdio|fcntl\.h|unistd\.h|sys/.*)$")

ARCHITECTURE = "docs/ARCHITECTURE.md"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def house_folder(header: str):
    for folder in source_tree.HOUSE:
        if header.startswith(folder + "/"):
            return folder
    return None


def room_of(folder: str, path: str) -> str:
    """`index` of `dumpers/store/index/table_reader.h`; `.` for what stands in the folder itself."""
    return Path(path).parent.relative_to(folder).as_posix()


def rooms(root: Path):
    """The rooms of each folder as the page of the architecture lists them, the lowest first."""
    listed, folder = {}, None
    for line in (root / ARCHITECTURE).read_text(encoding="utf-8").split("\n"):
        if heading := re.match(r"#+ .*`([^`]+)/`", line):
            folder = heading.group(1) if heading.group(1) in source_tree.HOUSE else None
        elif folder and (row := re.match(r"\| `([^`]+?)/?` \|", line)):
            listed.setdefault(folder, []).append(row.group(1))
    return listed


def includes(root: Path):
    """(folder, path, line, quote, header) of every include of the house."""
    for folder, path in source_tree.sources(root):
        text = source_tree.read(root, path)
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start(1)) + 1
            yield folder, path, line, match.group(1), match.group(2)


def public_headers(found, among=()):
    """Headers that another folder of the house includes, and what these include. What the folders
    `among` include of each other does not count."""
    inner, todo = {}, []
    for folder, path, _, _, header in found:
        target = house_folder(header)
        if target is not None:
            inner.setdefault(path.as_posix(), []).append(header)
        if target not in (None, folder, "cmd") and folder not in among:
            todo.append(header)
    public = set()
    while todo:
        header = todo.pop()
        if header not in public:
            public.add(header)
            todo += inner.get(header, [])
    return public


def reached_by(found, library: str):
    """Headers of the house that include a library, or another header that does."""
    pattern, users = LIBRARIES[library][0], {}
    for _, path, _, _, header in found:
        users.setdefault(header, []).append(path.as_posix())
    todo = [path for header, paths in users.items() if re.match(pattern, header) for path in paths]
    reached = set()
    while todo:
        header = todo.pop()
        if header not in reached:
            reached.add(header)
            todo += users.get(header, [])
    return reached


def judge_room(order, folder: str, path: Path, header: str):
    """A room may use those that stand above it in the table of its folder."""
    if folder not in order:
        return None
    own, other = room_of(folder, path.as_posix()), room_of(folder, header)
    for room in (own, other):
        if room not in order[folder]:
            return f"{folder}/{room} is no room of {ARCHITECTURE}"
    if order[folder].index(other) > order[folder].index(own):
        return f"{ARCHITECTURE} has {folder}/{other} below {folder}/{own}"
    return None


def judge(order, public, folder: str, path: Path, quote: str, header: str):
    """What is wrong with one include, or None."""
    target = house_folder(header)
    if target is not None:
        if target == folder:
            return judge_room(order, folder, path, header)
        if target not in ALLOWED[folder]:
            return f"{folder} may not include {target}"
        if "/detail/" in header:
            return f"{header} is private to {target}"
        return None
    for name, (pattern, folders) in LIBRARIES.items():
        if re.match(pattern, header):
            if folder not in folders:
                return f"{folder} may not include {name}"
            if path.as_posix() in public[name]:
                return f"a public header may not include {name}"
            return None
    if quote == '"':
        return "own headers are included by their path from the top, others with <>"
    if folder == "comparators" and FILE_ACCESS.match(header):
        return "comparators may not touch files"
    return None


def check(root: Path):
    order, found = rooms(root), list(includes(root))
    public = dict.fromkeys(LIBRARIES, public_headers(found))
    # A front end of the engine may look at LibTorch through the engine's headers.
    public["LibTorch"] = public_headers(found, LIBRARIES["LibTorch"][1])
    problems = []
    for folder, path, line, quote, header in found:
        if problem := judge(order, public, folder, path, quote, header):
            problems.append(f"{path}:{line}: {header}: {problem}")
    for folder, listed in order.items():
        problems += [f"{ARCHITECTURE}: {folder}/{room} is not there" for room in listed
                     if not list((root / folder / room).glob("*.cpp"))]
    return problems, len(found)


def main() -> int:
    problems, seen = check(Path(sys.argv[1]))
    print("\n".join(problems))
    print(f"{seen} includes, {len(problems)} problems")
    return 1 if problems or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
