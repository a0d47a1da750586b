#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone: `headers_compile.py ROOT COMPILER FLAG ...`. Headers that
include LibTorch are left out when --no-torch stands among the flags."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import include_firewall
import source_tree


def compile_alone(root: Path, command, header: Path):
    unit = f'#include "{header.as_posix()}"\n#include "{header.as_posix()}"\n'
    result = subprocess.run([*command, "-I", str(root), "-fsyntax-only", "-x", "c++", "-"],
                            input=unit, capture_output=True, text=True)
    return (header, result.stderr.strip()) if result.returncode != 0 else None


def main() -> int:
    root, compiler, flags = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with_torch = "--no-torch" not in flags
    command = [compiler, *(f for f in flags if f != "--no-torch")]
    torch = set() if with_torch else include_firewall.reached_by(
        list(include_firewall.includes(root)), "LibTorch")
    headers = [path for _, path in source_tree.sources(root, (".h",))
               if path.as_posix() not in torch]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        failed = [f for f in pool.map(lambda h: compile_alone(root, command, h), headers) if f]
    for header, message in failed:
        print(f"{header} does not compile alone:\n{message}\n")
    print(f"{len(headers)} headers, {len(failed)} do not compile alone")
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
