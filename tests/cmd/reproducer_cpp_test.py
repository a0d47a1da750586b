#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ program that `extract` writes, as its own first lines say, and runs it:
`reproducer_cpp_test.py TOOL MAKE_DUMP CMAKE LIBTORCH`."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# The module tries to get out of its comment and its string.
FIXTURE = {
    "run": "baseline",
    "manifest": {"seed": 7, "settings": {"threads.intra_op": "1"}},
    "tensors": {
        "n": {"dtype": "bfloat16", "shape": [2, 2], "values": [1.5, -2.0, 0.25, 4.0]},
        "s": {"dtype": "bfloat16", "shape": [2], "values": [-0.5, 4.25]},
    },
    "ops": [
        {"operator": "aten::sum.dim_IntList", "module": "a\"\n#error out of its string \\",
         "inputs": {"self": "n"}, "scalars": {"dim": [1], "keepdim": False}, "outputs": ["s"]},
    ],
}


def run(*argv, **options):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False,
                          **options)


def build(cmake, torch, directory):
    """The program, by the CMakeLists.txt that its own comment holds."""
    head = (directory / "repro.cpp").read_text().split("#include")[0]
    lines = re.findall(r"^//   (.*)$", head, re.MULTILINE)
    (directory / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
    for argv in ((cmake, "-S", directory, "-B", directory / "b", f"-DCMAKE_PREFIX_PATH={torch}"),
                 (cmake, "--build", directory / "b")):
        done = run(*argv)
        if done.returncode != 0:
            sys.exit(f"{argv}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return directory / "b" / "reproducer"


def expect(program, directory, code, part):
    done = run(program, "3", cwd=directory, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode != code or part not in done.stdout:
        sys.exit(f"exit code {done.returncode}, expected {code} and {part!r}\n"
                 f"{done.stdout}{done.stderr}")


def main():
    tool, make_dump, cmake, torch = sys.argv[1:5]
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        (directory / "fixture.json").write_text(json.dumps(FIXTURE))
        subprocess.run([make_dump, directory / "fixture.json", directory / "dump"], check=True)
        subprocess.run([tool, "extract", directory / "dump", "--op", "0", "-o",
                        directory / "repro.cpp"], check=True, stdout=subprocess.DEVNULL)
        program = build(cmake, torch, directory)
        expect(program, directory, 0, "3 calls; outputs that are not as recorded: 0")
        output = directory / "repro.data" / "output0.npy"
        data = bytearray(output.read_bytes())
        data[-1] ^= 1
        output.write_bytes(data)
        expect(program, directory, 1, "3 calls; outputs that are not as recorded: 3")


if __name__ == "__main__":
    main()
