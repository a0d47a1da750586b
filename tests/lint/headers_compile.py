#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone: `headers_compile.py ROOT COMPILER FLAG ...`. Private headers of the
folders that need LibTorch are left out when --no-torch stands first among the flags."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import source_tree

NEEDS_TORCH = {"dumpers/capture", "dumpers/torchscript"}


def compile_alone(root: Path, command, header: Path):
    unit = f'#include "{header.as_posix()}"\n#include "{header.as_posix()}"\n'
    result = subprocess.run([*command, "-I", str(root), "-fsyntax-only", "-x", "c++", "-"],
                            input=unit, capture_output=True, text=True)
    return (header, result.stderr.strip()) if result.returncode != 0 else None


def main() -> int:
    root, compiler, flags = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with_torch = "--no-torch" not in flags
    command = [compiler, *(f for f in flags if f != "--no-torch")]
    headers = [path for folder, path in source_tree.sources(root, (".h",))
               if with_torch or folder not in NEEDS_TORCH or "detail" not in path.parts]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        failed = [f for f in pool.map(lambda h: compile_alone(root, command, h), headers) if f]
    for header, message in failed:
        print(f"{header} does not compile alone:\n{message}\n")
    print(f"{len(headers)} headers, {len(failed)} do not compile alone")
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
