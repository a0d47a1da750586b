#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one golden case of the tool and compares what it says, byte for byte.

A case is a directory with case.json and, where they are not empty, stdout.txt and stderr.txt:

    argv    arguments of the tool; `{tmp}` is the case's own temporary directory, its working one
    exit    expected exit code
    setup   steps, in order (see SETUP below)
    env     variables to set
    terminal      stdout is a terminal of so many columns, not a pipe
    stdin   text for it
    recorder      what the stand-in for a recorder does, a run each (see fake_recorder.py)
    real_recorder the recorder that was built is used
    tries         a race of threads is asked for, which does not show in every run: so many times at most
    stdout_matches, stderr_matches
                  patterns that must be found, in place of a comparison of the whole
    no_document   an exit code other than 0 may leave stdout empty
    files, absent, present
                  files that must be left as expected, not at all, or in some way

Every case is run twice, each time in a fresh directory; both must say the same.
"""

import argparse
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading

import made_dumps
from made_dumps import set_pointer

HERE = pathlib.Path(__file__).resolve().parent
SCHEMAS = {"report", "replay"}
SILENT_EXITS = {2, 70, 130}
INHERITED = {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "MADE_DUMPS"}


class Failure(Exception):
    """A case that did not come out as it should."""


def make_dump(tools, tmp, step):
    description = (HERE / "fixtures" / step["fixture"]).read_text()
    if "change" in step:
        changed = json.loads(description)
        for pointer, value in step["change"].items():
            set_pointer(changed, pointer, value)
        description = json.dumps(changed)
    target = tmp / step["dump"]
    target.parent.mkdir(parents=True, exist_ok=True)
    words = [f"reference={tmp / step['reference']}"] if "reference" in step else []
    words += [f"{word}={step[word]}" for word in ("slice", "max_bytes") if word in step]
    made_dumps.make(tools.make_unfinished_dump if step.get("unfinished") else tools.make_dump, description,
                    str(target), *words)


def write_file(_tools, tmp, step):
    target = tmp / step["write"]
    target.parent.mkdir(parents=True, exist_ok=True)
    text = step["text"] if "text" in step else json.dumps(step["json"])
    target.write_text(text)


def flip_content(_tools, tmp, step):
    """Flips one bit inside the stored bytes of a tensor, found by their pattern."""
    target = tmp / step["flip"]
    data = bytearray(target.read_bytes())
    pattern = bytes.fromhex(step["pattern"])
    count = data.count(pattern)
    if count < 1:
        raise Failure(f"{target.name} holds no {step['pattern']}")
    data[data.index(pattern)] ^= 1
    target.write_bytes(bytes(data))


def truncate_file(_tools, tmp, step):
    target = tmp / step["truncate"]
    os.truncate(target, int(target.stat().st_size * step.get("keep", 0.5)))


def change_json(_tools, tmp, step):
    target = tmp / step["edit"]
    document = json.loads(target.read_text())
    for pointer, value in step["change"].items():
        set_pointer(document, pointer, value)
    target.write_text(json.dumps(document))


def remove_path(_tools, tmp, step):
    target = tmp / step["remove"]
    shutil.rmtree(target) if target.is_dir() else target.unlink()


def make_directory(_tools, tmp, step):
    (tmp / step["mkdir"]).mkdir(parents=True)


def copy_file(_tools, tmp, step):
    target = tmp / step["copy"]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE.parent.parent / step["from"], target)


def run_tool(tools, tmp, step):
    words = [word.replace("{tmp}", str(tmp)) for word in step["tool"]]
    subprocess.run([tools.tool, *words], cwd=tmp, stdout=subprocess.DEVNULL, check=True)


# A step is known by the key that names what it makes.
SETUP = {
    "dump": make_dump,
    "write": write_file,
    "flip": flip_content,
    "truncate": truncate_file,
    "edit": change_json,
    "remove": remove_path,
    "mkdir": make_directory,
    "copy": copy_file,
    "tool": run_tool,
}

# What differs from run to run, from machine to machine, and from one HDF5 to another.
NORMALISE = [
    (re.compile(r'"(compare_seconds|seconds|load_seconds)": ?[0-9.e+-]+'), r'"\1":0'),
    (re.compile(r'"hdf5": ?"[^"]*"'), '"hdf5":"*"'),
    (re.compile(r' time="\d+\.\d{3}"'), ' time="*"'),
    (re.compile(r"^HDF5 .*$", re.M), "HDF5 *"),
    (re.compile(r"eof = \d+"), "eof = N"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "N s"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
]


def normalise(text, tmp):
    text = text.replace(str(tmp), "<TMP>")
    for pattern, replacement in NORMALISE:
        text = pattern.sub(replacement, text)
    return text


def one_json_document(text):
    def refuse(value):
        raise Failure(f"stdout holds {value}, which is no JSON")

    def no_duplicates(pairs):
        keys = [key for key, _ in pairs]
        if len(keys) != len(set(keys)):
            raise Failure(f"duplicate keys in {keys}")
        return dict(pairs)

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=no_duplicates)
    except json.JSONDecodeError as error:
        raise Failure(f"stdout is not one JSON document: {error}") from error


@functools.cache
def validator(kind):
    """What holds documents against a schema; None where no jsonschema is installed."""
    try:
        import jsonschema
    except ImportError:
        return None
    schema = json.loads((HERE.parent.parent / "docs" / f"{kind}.schema.json").read_text())
    kind_of = jsonschema.validators.validator_for(schema)
    kind_of.check_schema(schema)
    return kind_of(schema)


def check_schema(document):
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return
    kind = first.get("format", "").removeprefix("repro-check-")
    if kind in SCHEMAS and validator(kind):
        validator(kind).validate(document)


def run_in_terminal(words, columns, settings):
    """subprocess.run() with a stdout that is a terminal, which holds all of it until the end."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    pieces = []

    def read_all():
        with contextlib.suppress(OSError):  # what Linux says at the end of a terminal
            while piece := os.read(reader, 65536):
                pieces.append(piece)

    thread = threading.Thread(target=read_all)
    thread.start()
    try:
        done = subprocess.run(words, stdout=writer, **settings)
    finally:
        os.close(writer)
        thread.join()
        os.close(reader)
    done.stdout = b"".join(pieces).replace(b"\r\n", b"\n")
    return done


class Case:
    def __init__(self, directory, tools):
        self.directory = pathlib.Path(directory)
        self.tools = tools
        self.spec = json.loads((self.directory / "case.json").read_text())

    def environment(self, tmp):
        kept = {name: value for name, value in os.environ.items() if name in INHERITED}
        kept.update(LC_ALL="C.UTF-8", TMPDIR=str(tmp), REPRO_CHECK_RECORDER=str(tmp / "none"),
                    XDG_CACHE_HOME=str(tmp / "cache"))
        kept.update(MAKE_DUMP=self.tools.make_dump,
                    MAKE_UNFINISHED_DUMP=self.tools.make_unfinished_dump,
                    FIXTURES=str(HERE / "fixtures"))
        if "recorder" in self.spec:
            recorder = tmp / "recorder"
            recorder.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E '
                                f'"{HERE / "fake_recorder.py"}" "$@"\n')
            recorder.chmod(0o755)
            kept["REPRO_CHECK_RECORDER"] = str(recorder)
            kept["FAKE_RECORDER"] = json.dumps(self.spec["recorder"])
        if self.spec.get("real_recorder"):
            kept["REPRO_CHECK_RECORDER"] = self.tools.recorder
        kept.update(self.spec.get("env", {}))
        return kept

    def run(self):
        """Runs, again where a race did not show. @return (stdout, stderr, {file: content}), normalised"""
        for _ in range(self.spec.get("tries", 1) - 1):
            try:
                return self.run_once()
            except Failure as failure:
                print(f"{self.directory.name}: once more: {failure}", file=sys.stderr)
        return self.run_once()

    def run_once(self):
        """In a fresh directory."""
        with tempfile.TemporaryDirectory(prefix="repro-check-") as name:
            tmp = pathlib.Path(os.path.realpath(name))
            for step in self.spec.get("setup", []):
                SETUP[next(key for key in SETUP if key in step)](self.tools, tmp, step)
            work = tmp / self.spec.get("cwd", ".")
            words = [self.tools.tool] + [word.replace("{tmp}", str(tmp)) for word in self.spec["argv"]]
            settings = {"cwd": work, "env": self.environment(tmp), "timeout": 120,
                        "input": self.spec.get("stdin", "").encode(), "stderr": subprocess.PIPE,
                        "check": False}
            if "terminal" in self.spec:
                done = run_in_terminal(words, self.spec["terminal"], settings)
            else:
                done = subprocess.run(words, stdout=subprocess.PIPE, **settings)
            out = done.stdout.decode("utf-8")
            err = done.stderr.decode("utf-8")
            self.check(done.returncode, out, err)
            files = {}
            for file in self.spec.get("files", []):
                files[file] = normalise((tmp / file).read_text(), tmp)
            for file in self.spec.get("absent", []):
                if (tmp / file).exists():
                    raise Failure(f"{file} is there and should not be")
            for file in self.spec.get("present", []):
                if not (tmp / file).exists():
                    raise Failure(f"{file} is not there")
            return normalise(out, tmp), normalise(err, tmp), files

    def check(self, code, out, err):
        expected = self.spec["exit"]
        if code != expected:
            raise Failure(f"exit code {code}, expected {expected}\n--- stdout\n{out}"
                          f"--- stderr\n{err}")
        if "HDF5-DIAG" in out + err:
            raise Failure("HDF5 speaks for itself")
        if expected in SILENT_EXITS and out:
            raise Failure(f"exit code {code} and stdout is not empty:\n{out}")
        if expected not in SILENT_EXITS | {0} and not out and not self.spec.get("no_document"):
            raise Failure(f"exit code {code} and no document on stdout")
        for stream, text in (("stdout", out), ("stderr", err)):
            for pattern in self.spec.get(stream + "_matches", []):
                if not re.search(pattern, text, re.M):
                    raise Failure(f"{stream} does not match {pattern!r}:\n{text}")
        one_document = {"json", "json=-", "sarif=-", "codequality=-"}
        if out and one_document & set(self.spec["argv"]):
            check_schema(one_json_document(out))


def compare(what, expected, actual):
    if expected == actual:
        return
    import difflib
    lines = difflib.unified_diff(expected.splitlines(True), actual.splitlines(True),
                                 f"expected {what}", f"actual {what}")
    raise Failure(f"{what} is not as expected:\n" + "".join(lines))


def golden_files(case, out, err, files):
    # What a real recorder says depends on its LibTorch: there a pattern stands for the whole.
    golden = {}
    if "stdout_matches" not in case.spec:
        golden["stdout.txt"] = out
    if "stderr_matches" not in case.spec:
        golden["stderr.txt"] = err
    for name, content in files.items():
        golden["file." + name.replace("/", ".")] = content
    return golden


def check(case, update):
    """@throws Failure where it is not as expected"""
    first = case.run()
    second = first if case.spec.get("real_recorder") else case.run()
    for what, one, other in zip(("stdout", "stderr", "files"), first, second):
        compare(f"{what} of the second run", str(one), str(other))
    for name, content in golden_files(case, *first).items():
        path = case.directory / name
        if update:
            path.write_text(content) if content else path.unlink(missing_ok=True)
        else:
            compare(name, path.read_text() if path.exists() else "", content)


def main():
    built = HERE.parent.parent / "build/release/bin"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="+", help="a directory, or the name of one in cases/")
    parser.add_argument("--tool", default=built / "repro-check")
    parser.add_argument("--make-dump", default=built / "make_dump")
    parser.add_argument("--make-unfinished-dump", default=built / "make_unfinished_dump")
    parser.add_argument("--recorder", default=built / "repro-check-recorder")
    parser.add_argument("--update", action="store_true", help="write what the tool says now")
    arguments = parser.parse_args()
    for tool in ("tool", "make_dump", "make_unfinished_dump", "recorder"):
        setattr(arguments, tool, str(getattr(arguments, tool)))
    failed = []
    with tempfile.TemporaryDirectory(prefix="repro-check-") as folder:
        made_dumps.share(folder)
        for name in arguments.case:
            case = Case(name if "/" in name else HERE / "cases" / name, arguments)
            try:
                check(case, arguments.update)
            except (Failure, subprocess.SubprocessError, UnicodeDecodeError) as error:
                print(f"{case.directory.name}: {error}", file=sys.stderr)
                failed.append(case.directory.name)
    print(f"{len(arguments.case) - len(failed)} of {len(arguments.case)} cases are as expected")
    if failed:
        print("failed:", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
