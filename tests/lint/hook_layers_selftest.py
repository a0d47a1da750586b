#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants violations in a copy of the hooks and demands that each is seen: `hook_layers_selftest.py ROOT`."""
import shutil
import sys
import tempfile
from pathlib import Path

import hook_layers

PACKAGE = f"{hook_layers.FOLDER}/{hook_layers.PACKAGE}"
PLANTS = [
    ("hooks.py", "from .seeds import watched", "does not have seeds above hooks"),
    ("seeds.py", "def late():\n    from . import recording", "does not have recording above seeds"),
    ("values.py", "import repro_check_hooks.values", "does not have values above values"),
    ("ranks.py", "from repro_check_hooks import attach", "does not have attach above ranks"),
    ("kit.py", "from . import calls", "does not have calls above kit"),
    ("kit.py", "import seeds", "does not have seeds above kit"),
    ("ends.py", "from .attic import anything", "attic is no module of"),
    ("attach.py", "_MORE = {'torch.nn': ('ranks', 'on_nothing')}", "ranks has no on_nothing"),
    ("__init__.py", "from . import calls", "it holds no code"),
    ("attic.py", "", "docs/ARCHITECTURE.md and dumpers/python/repro_check_hooks do not both have attic"),
    ("attic.py", "", "dumpers/python/CMakeLists.txt and dumpers/python/repro_check_hooks do not both have attic"),
    ("../repro_check_attic.py", "", "a further name at the top level"),
]


def main() -> int:
    root = Path(sys.argv[1])
    unseen = 0
    before, _ = hook_layers.check(root)
    for victim, line, expected in PLANTS:
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch)
            shutil.copytree(root / hook_layers.FOLDER, copy / hook_layers.FOLDER)
            for path in (hook_layers.ARCHITECTURE, hook_layers.ELSEWHERE["ownership"]):
                (copy / path).parent.mkdir(parents=True)
                shutil.copy(root / path, copy / path)
            with open(copy / PACKAGE / victim, "a", encoding="utf-8") as out:
                out.write(f"\n{line}\n")
            news = [problem for problem in hook_layers.check(copy)[0] if problem not in before]
        seen = any(expected in problem for problem in news)
        print(f"{'seen  ' if seen else 'UNSEEN'} {victim}: {line} -> {news}")
        unseen += not seen
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
