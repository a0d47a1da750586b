# SPDX-License-Identifier: Apache-2.0
"""What the lints look at: the files of the project, without what is built or downloaded."""
import os
from pathlib import Path

# In a second working tree of git, .git is a file that names the first.
SKIPPED = {".git", ".venv", "build", "repro-check-out", "__pycache__"}
HOUSE = ("core", "configs", "dumpers/capture", "dumpers/replay", "dumpers/model_file", "dumpers/exported",
         "dumpers/torchscript", "dumpers/imports",
         "dumpers/journal", "dumpers/store", "dumpers/stub", "dumpers/probe", "dumpers/arrays", "comparators", "baselines",
         "cmd")


def files(root: Path):
    """Every file under `root`, as paths relative to it, in a fixed order."""
    found = []
    for folder, names, leaves in os.walk(root):
        names[:] = [n for n in names if n not in SKIPPED and not n.startswith("build")]
        found += [(Path(folder) / leaf).relative_to(root) for leaf in leaves
                  if leaf not in SKIPPED]
    return sorted(found)


def sources(root: Path, suffixes=(".h", ".cpp")):
    """C++ files of the product, by the folder of the house that they live in."""
    for path in files(root):
        if path.suffix in suffixes:
            for folder in HOUSE:
                if path.as_posix().startswith(folder + "/"):
                    yield folder, path


def read(root: Path, path: Path) -> str:
    return (root / path).read_text(encoding="utf-8")
