#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a group of the fault corpus: whole commands on two small dumps, first line and exit code.

`corpus_test.py --tool T --make-dump M GROUP.json...`; -v prints a line for each check.

A group is a list of rows; a row is an object with

    row        number in the corpus, and what it is about
    baseline, candidate
               either a tensor (then the dump is one operator that returns it), or a list of
               operators, or a whole recording as tests/support/dump_fixture.h describes it
    fp64       a third dump in the same form, `fp64`, where needed
    manifest   {side: members of the manifest}, where needed; `both` for the two
    checks     [options of `diff`, exit code, text of the first line, more texts of the report...];
               an option list is one string
    case       instead of dumps: the golden case of ../cases that shows it, with its exit code

A tensor is {dtype, shape, values or bits, ...}, or [dtype, values], or [dtype, "hex", "hex"].
An operator is a word, `aten::relu`, or `aten::relu@module`, optionally with ` * n` for n in a row
and `=tensor` for what it returns, by name of `tensors` in the row (else it returns a constant and
reads nothing); or an object as a recording has it. Lists nest, and `{repeat, ops}` repeats.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def tensor_of(description):
    if isinstance(description, dict):
        return description
    dtype, *content = description
    if content and isinstance(content[0], str) and dtype != "text":
        return {"dtype": dtype, "shape": [len(content)], "bits": content}
    values = content[0] if content else []
    return {"dtype": dtype, "shape": [len(values)], "values": values}


def is_tensor(description):
    if isinstance(description, dict):
        return "dtype" in description or "state" in description
    return (isinstance(description, list) and description and isinstance(description[0], str)
            and "::" not in description[0])


def operators(items):
    """Flat list of operator objects."""
    flat = []
    for item in items:
        if isinstance(item, list):
            flat += operators(item)
        elif isinstance(item, dict) and "repeat" in item:
            flat += operators(item["ops"]) * item["repeat"]
        elif isinstance(item, dict):
            flat.append(item)
        else:
            word, _, count = item.partition(" * ")
            word, _, output = word.partition("=")
            name, _, module = word.partition("@")
            flat += [{"operator": name, "module": module or "m",
                      "outputs": [output or "constant"]}] * int(count or 1)
    return flat


def recording(row, side):
    description = row[side]
    if is_tensor(description):
        dump = {"tensors": {"x": {"dtype": "float32", "shape": [2], "values": [1, 2]},
                            "y": tensor_of(description)},
                "ops": [{"operator": "aten::linear", "module": "head", "source": "model.py:7",
                         "inputs": {"input": "x"}, "outputs": ["y"]}]}
    elif isinstance(description, list):
        dump = {"tensors": {"constant": {"dtype": "float32", "shape": [3], "values": [7, 8, 9]}},
                "ops": operators(description)}
        for name, tensor in row.get("tensors", {}).items():
            dump["tensors"][name] = tensor_of(tensor)
    else:
        dump = json.loads(json.dumps(description))
        dump["tensors"] = {name: tensor_of(tensor) for name, tensor in dump["tensors"].items()}
        dump["ops"] = operators(dump["ops"])
    dump["run"] = side
    for who in ("both", side):
        dump.setdefault("manifest", {}).update(row.get("manifest", {}).get(who, {}))
    return dump


class Corpus:
    def __init__(self, arguments):
        self.arguments = arguments
        self.failures = []

    def say(self, row, options, code, line):
        if self.arguments.verbose:
            print(f"{row['row'].split(':')[0]:>6}  {options or '(bitwise)':<40} {code}  {line}")

    def fail(self, row, text):
        self.failures.append(f"row {row['row']}: {text}")

    def run_case(self, row):
        """A golden test of its own shows the row: it must be there, with this exit code."""
        name, code, text = row["case"]
        case = HERE / "cases" / name
        spec = json.loads((case / "case.json").read_text())
        line = (case / "stdout.txt").read_text().split("\n")[0] if (case / "stdout.txt").exists() \
            else (case / "stderr.txt").read_text().split("\n")[0]
        if spec["exit"] != code:
            self.fail(row, f"case {name} expects exit {spec['exit']}, not {code}")
        if text not in line:
            self.fail(row, f"case {name} says {line!r}, without {text!r}")
        self.say(row, f"cases/{name}", spec["exit"], line)

    def run_row(self, row):
        if "case" in row:
            self.run_case(row)
            return
        with tempfile.TemporaryDirectory(prefix="repro-check-") as name:
            tmp = pathlib.Path(name)
            for side in ("baseline", "candidate", "fp64"):
                if side not in row:
                    continue
                fixture = tmp / "fixture.json"
                fixture.write_text(json.dumps(recording(row, side)))
                subprocess.run([self.arguments.make_dump, fixture, tmp / side], check=True)
            for check in row["checks"]:
                self.run_check(row, tmp, check)

    def run_check(self, row, tmp, check):
        options, code, *texts = check
        sides = ["baseline", "candidate"]
        words = shlex.split(options)
        if "swapped" in words:
            words.remove("swapped")
            sides.reverse()
        done = subprocess.run([self.arguments.tool, "diff", *sides, *words], cwd=tmp,
                              capture_output=True, text=True, timeout=200, check=False)
        line = done.stdout.split("\n")[0]
        self.say(row, options, done.returncode, line or done.stderr.split("\n")[0])
        if done.returncode != code:
            self.fail(row, f"{options or 'bitwise'}: exit {done.returncode}, expected {code}\n"
                           f"{done.stdout}{done.stderr}")
        if texts and texts[0] not in line:
            self.fail(row, f"{options or 'bitwise'}: no {texts[0]!r} in the first line\n"
                           f"{done.stdout}{done.stderr}")
        flat = " ".join(done.stdout.split())
        for text in texts[1:]:
            if text not in flat:
                self.fail(row, f"{options or 'bitwise'}: no {text!r}\n{done.stdout}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("group", nargs="+")
    parser.add_argument("--tool", required=True)
    parser.add_argument("--make-dump", required=True)
    parser.add_argument("-v", "--verbose", action="store_true")
    corpus = Corpus(parser.parse_args())
    for group in corpus.arguments.group:
        for row in json.loads(pathlib.Path(group).read_text()):
            corpus.run_row(row)
    print("\n".join(corpus.failures), file=sys.stderr)
    return 1 if corpus.failures else 0


if __name__ == "__main__":
    sys.exit(main())
