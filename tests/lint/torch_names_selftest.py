#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants private names in a copy of the hooks, and rows in their table, and demands that each is seen; and what is
said of a hook that fails since a name is missing: `torch_names_selftest.py ROOT`."""
import shutil
import sys
import tempfile
from pathlib import Path

import torch_names

HOOKS = torch_names.FOLDERS[0]
PLANTS = [
    ("ranks.py", "def late(torch):\n    return torch._C._attic()", "_attic is private to others"),
    ("seeds.py", 'def late(module):\n    return getattr(module, "_attic", None)', "_attic is private to others"),
    ("seeds.py", '_LATE = "torch._attic.callback"', "_attic is private to others"),
    ("lanes.py", "from torch._attic import anything", "_attic is private to others"),
    ("torch_names.py", 'NAMES["torch"]["_attic"] = ("any", "", "nothing is recorded")', "torch._attic is used nowhere"),
    ("torch_names.py", 'NAMES["torch"]["_ops"] = ("any", "", "Nothing is recorded.")', "does not go on after 'so'"),
]
LOST = [
    (AttributeError("type object 'Optimizer' has no attribute '_patch_step_function'"), "steps of optimizers"),
    (ImportError("cannot import name 'compute_local_shape_and_global_offset' from 'torch.distributed'"), "the position"),
    (AttributeError("'Mine' object has no attribute 'mine'"), ""),
    (ValueError("'_patch_step_function'"), ""),
]


class Given:
    kept: int

    def __init__(self):
        self.made = 1
        setattr(self, "named", 2)

    @property
    def found(self):
        return 3


def main() -> int:
    root = Path(sys.argv[1])
    unseen = 0
    for victim, line, expected in PLANTS:
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch)
            for folder in torch_names.FOLDERS:
                shutil.copytree(root / folder, copy / folder)
            with open(copy / HOOKS / victim, "a", encoding="utf-8") as out:
                out.write(f"\n{line}\n")
            problems, _ = torch_names.check_code(copy)
        seen = len(problems) == 1 and expected in problems[0]
        print(f"{'seen  ' if seen else 'UNSEEN'} {victim}: {line} -> {problems}")
        unseen += not seen
    table = torch_names.table_of(root)
    for error, expected in LOST:
        said = table.lost(error)
        unseen += not said.startswith(expected) or bool(said) != bool(expected)
    here = sys.modules[__name__]
    for name in ("kept", "made", "named", "found"):
        unseen += not table.is_there(here, f"Given().{name}")
    for name in ("Given().other", "Given.made", "Other", "Other().made"):
        unseen += table.is_there(here, name)
    for release, expected in (((1, 13), False), ((2, 0), True), ((2, 6), True), ((2, 7), False)):
        unseen += table.is_expected(("2.0", "2.7", ""), release) != expected
    print(f"{unseen} unseen or invented")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
