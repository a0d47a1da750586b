#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when an include breaks the table of folders: `include_firewall.py ROOT`."""
import re
import sys
from pathlib import Path

import source_tree

# Which folders of the house a folder may include; always its own.
ALLOWED = {
    "core": {"core"},
    "configs": {"core"},
    "dumpers/capture": {"core"},
    "dumpers/torchscript": {"core", "configs", "dumpers/capture"},
    "dumpers/journal": {"core"},
    "dumpers/store": {"core", "dumpers/journal"},
    "comparators": {"core", "configs"},
    "baselines": {"core"},
    "cmd": set(source_tree.HOUSE),
}

# Libraries: what their headers look like, and which folders may include them where.
LIBRARIES = {
    "LibTorch": (r"(ATen|c10|torch|caffe2)/", {"dumpers/capture", "dumpers/torchscript"}),
    "HDF5": (r"(hdf5|H5\w+)\.h$", {"dumpers/store"}),
    "libarchive": (r"archive(_entry)?\.h$", {"dumpers/store"}),
    "RE2": (r"re2/.*\.h$", {"configs"}),
    "zstd": (r"zstd\w*\.h$", {"dumpers/store"}),
    "CLI11": (r"CLI/", {"cmd"}),
    "spdlog": (r"spdlog/", {"cmd"}),
    "xxHash": (r"xxhash\.h$", {"core", "dumpers/journal", "dumpers/capture"}),
    "json": (r"nlohmann/", set(source_tree.HOUSE)),
    "fmt": (r"fmt/", set(source_tree.HOUSE)),
}

# A comparison is a function of what it is handed: it opens nothing.
FILE_ACCESS = re.compile(r"^(fstream|filesystem|cstdio|fcntl\.h|unistd\.h|sys/.*)$")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def house_folder(header: str):
    for folder in source_tree.HOUSE:
        if header.startswith(folder + "/"):
            return folder
    return None


def is_public_header(folder: str, path: Path) -> bool:
    return path.suffix == ".h" and folder != "cmd" and "detail" not in path.parts


def judge(folder: str, path: Path, quote: str, header: str):
    """What is wrong with one include, or None."""
    target = house_folder(header)
    if target is not None:
        if target != folder and target not in ALLOWED[folder]:
            return f"{folder} may not include {target}"
        if target != folder and "/detail/" in header:
            return f"{header} is private to {target}"
        return None
    for name, (pattern, folders) in LIBRARIES.items():
        if re.match(pattern, header):
            if folder not in folders:
                return f"{folder} may not include {name}"
            if is_public_header(folder, path):
                return f"a public header may not include {name}"
            return None
    if quote == '"':
        return "own headers are included by their path from the top, others with <>"
    if folder == "comparators" and FILE_ACCESS.match(header):
        return "comparators may not touch files"
    return None


def check(root: Path):
    problems, seen = [], 0
    for folder, path in source_tree.sources(root):
        text = source_tree.read(root, path)
        for match in INCLUDE.finditer(text):
            seen += 1
            problem = judge(folder, path, match.group(1), match.group(2))
            if problem:
                line = text.count("\n", 0, match.start(1)) + 1
                problems.append(f"{path}:{line}: {match.group(2)}: {problem}")
    return problems, seen


def main() -> int:
    problems, seen = check(Path(sys.argv[1]))
    print("\n".join(problems))
    print(f"{seen} includes, {len(problems)} problems")
    return 1 if problems or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
