#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for a recorder: speaks its protocol, makes dumps of fixtures, fails on demand.

FAKE_RECORDER is a JSON object, an entry a run name (`*` for any), each with
    fixture     the dump to leave, from FIXTURES
    unfinished  the fixture whose recording is left incomplete
    print       text for stdout, which is the run's log
    error       {kind, message, hint}: the last line of the status channel
    signal      the number of the signal to die by
    exit        the exit status
    variables   environment variables to print, to see what was pinned
    hang        seconds to wait after recording began
and, for the other verbs, `describe`, `environment` and `version`: the answers, or {error, exit}.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time


def say(descriptor, **message):
    os.write(descriptor, (json.dumps(message) + "\n").encode())


def make(tool, fixture, directory):
    source = pathlib.Path(os.environ["FIXTURES"]) / fixture
    pathlib.Path(directory).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([os.environ[tool], str(source), directory], check=True)


def record(plan, request_file, status):
    request = json.loads(pathlib.Path(request_file).read_text())
    name = request["run"]["name"]
    todo = plan.get(name, plan.get("*", {}))
    directory = request["dump_directory"]
    if request["replace_existing"] and os.path.exists(directory):
        subprocess.run(["rm", "-rf", directory], check=True)
    for line in ("loading", "recording"):
        say(status, type="phase", name=line)
    for variable in todo.get("variables", []):
        print(f"{variable}={os.environ.get(variable, '(unset)')}", flush=True)
    if "print" in todo:
        print(todo["print"], flush=True)
    if "pid_file" in todo:
        pathlib.Path(todo["pid_file"]).write_text(str(os.getpid()))
    time.sleep(todo.get("hang", 0))
    if "unfinished" in todo:
        make("MAKE_UNFINISHED_DUMP", todo["unfinished"], directory)
    if "signal" in todo:
        os.kill(os.getpid(), signal.Signals[todo["signal"]])
    if "error" in todo:
        say(status, type="error", **todo["error"])
    if "fixture" in todo:
        make("MAKE_DUMP", todo["fixture"], directory)
        say(status, type="phase", name="finishing")
        say(status, type="done", operators=3, tensors=7, bytes=1500, seconds=4.5)
    return todo.get("exit", 0)


def main():
    plan = json.loads(os.environ["FAKE_RECORDER"])
    verb = sys.argv[1]
    if verb == "record":
        return record(plan, sys.argv[2], int(sys.argv[sys.argv.index("--status-fd") + 1]))
    answer = plan[verb]
    if "error" in answer:
        print(answer["error"], file=sys.stderr)
        return answer["exit"]
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
