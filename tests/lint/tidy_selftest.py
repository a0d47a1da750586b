#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy sees a breach planted in a header of the house, and is silent about others' headers:
`tidy_selftest.py ROOT`. Without clang-tidy it ends with the code that ctest counts as skipped."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
BREACH = "#pragma once\ninline int {name}(int value) {{ return value + 1; }}\n"


def main() -> int:
    root = Path(sys.argv[1])
    if shutil.which("clang-tidy") is None:
        print("skipped: no clang-tidy; scripts/lint installs it")
        return SKIPPED
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        for folder, name in (("comparators", "PlantedHere"), ("elsewhere", "PlantedThere")):
            (tree / folder).mkdir()
            (tree / folder / "planted.h").write_text(BREACH.format(name=name))
        unit = tree / "comparators" / "unit.cpp"
        unit.write_text('#include "comparators/planted.h"\n#include "elsewhere/planted.h"\n')
        result = subprocess.run(
            ["clang-tidy", "--quiet", f"--config-file={root / '.clang-tidy'}", str(unit), "--",
             "-std=c++20", f"-I{tree}"], capture_output=True, text=True)
    said = result.stdout + result.stderr
    print(said)
    seen = result.returncode != 0 and "readability-identifier-naming" in said
    return 0 if seen and "PlantedHere" in said and "PlantedThere" not in said else 1


if __name__ == "__main__":
    sys.exit(main())
