#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for a recorder: speaks its protocol, makes dumps of fixtures, fails on demand.

FAKE_RECORDER is a JSON object, an entry a run name (`*` for any), and `NAME#values` for what `run`
records in a second round under level auto; each with
    fixture     the dump to leave, from FIXTURES, at the level that is asked for
    change      {pointer: value} in the fixture
    unfinished  the fixture whose recording is left incomplete
    outputs     what --check-observer is told: {bare, bare_again, digest, tensor: [[name, what,
                digest]]}, each by default as `bare`
    print       text for stdout, which is the run's log
    error       {kind, message, hint}: the last line of the status channel
    signal      the number of the signal to die by
    exit        the exit status
    variables   environment variables to print, to see what was pinned
    when        [{if: {pointer: value}, and any of these}]: the first whose values the run has
                stands in place of all else; null is for what the run does not have
    hang        seconds to wait after recording began
    silent      it does not name its dump
    until       the file whose coming ends that wait
    emptied     the file whose coming lets it take away the dump that it replaced, which lies in
                DUMP.recording meanwhile, as after an exchange of names
and, for the other verbs, `describe`, `environment`, `version` and `replay`: the answers, or {error,
exit}, or {hang}. A list of answers to `replay` is one by instruction set, the variable's value in front of each.
"""

import json
import os
import shutil
import sys
import time

import made_dumps


def say(descriptor, **message):
    os.write(descriptor, (json.dumps(message) + "\n").encode())


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def make(tool, fixture, request, change):
    description = read(os.environ["FIXTURES"], fixture)
    asked = request["run"]["dump"]
    manifest = description.setdefault("manifest", {})
    manifest.update(level=asked["level"], keep_ops=asked.get("keep_ops", []))
    for pointer, value in change.items():
        made_dumps.set_pointer(description, pointer, value)
    directory = request["dump_directory"]
    os.makedirs(os.path.dirname(os.path.abspath(directory)), exist_ok=True)
    refers = asked["level"] == "tensor" and "reference" in asked
    words = [f"reference={asked['reference']}"] if refers else []
    if asked["level"] == "tensor" and "slice" in asked:
        words.append("slice={elements}:{stride}".format(**asked["slice"]))
    if asked["level"] == "tensor" and "max_bytes" in asked:
        words.append(f"max_bytes={asked['max_bytes']}")
    made_dumps.make(os.environ[tool], json.dumps(description), directory, *words)


def say_outputs(request, answers, status):
    """A run is asked twice without recording; what is left of the first time tells the second."""
    asked = request["dump_directory"] + ".asked"
    way = request["run"]["dump"]["level"]
    if request.get("bare"):
        way = "bare_again" if os.path.exists(asked) else "bare"
        open(asked, "a", encoding="utf-8").close()
    for name, what, digest in answers.get(way, answers["bare"]):
        say(status, type="output", name=name, what=what, digest=digest)


def is_so(run, values):
    for pointer, expected in values.items():
        found = run
        for key in pointer.lstrip("/").split("/"):
            found = found.get(key) if isinstance(found, dict) else None
        if found != expected:
            return False
    return True


def record(plan, request_file, status):
    request = read(request_file)
    name = request["run"]["name"]
    orders = plan.get(name, plan.get("*", {}))
    if "keep_ops" in request["run"]["dump"]:
        orders = plan.get(name + "#values", plan.get("*#values", orders))
    orders = next((each for each in orders.get("when", []) if is_so(request["run"], each["if"])),
                  orders)
    directory = request["dump_directory"]
    for line in ("loading", "recording"):
        say(status, type="phase", name=line)
    for variable in orders.get("variables", []):
        print(f"{variable}={os.environ.get(variable, '(unset)')}", flush=True)
    if "print" in orders:
        print(orders["print"], flush=True)
    if "pid_file" in orders:
        with open(orders["pid_file"], "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    time.sleep(orders.get("hang", 0))
    while "until" in orders and not os.path.exists(orders["until"]):
        time.sleep(0.01)
    if request.get("report_outputs") and "outputs" in orders:
        say_outputs(request, orders["outputs"], status)
    if request.get("bare") and "signal" not in orders and "error" not in orders:
        say(status, type="done", operators=0, tensors=0, bytes=0, seconds=4.5)
        return orders.get("exit", 0)
    # An older dump lies there until the new one is whole.
    if "emptied" in orders:
        os.rename(directory, directory + ".recording")
    elif request["replace_existing"] and {"unfinished", "fixture"} & orders.keys():
        shutil.rmtree(directory, ignore_errors=True)
    if "unfinished" in orders:
        make("MAKE_UNFINISHED_DUMP", orders["unfinished"], request, orders.get("change", {}))
    if "signal" in orders:
        import signal

        os.kill(os.getpid(), signal.Signals[orders["signal"]])
    if "error" in orders:
        say(status, type="error", **orders["error"])
    if "fixture" in orders:
        make("MAKE_DUMP", orders["fixture"], request, orders.get("change", {}))
        if "emptied" in orders:
            while not os.path.exists(orders["emptied"]):
                time.sleep(0.01)
            shutil.rmtree(directory + ".recording")
        say(status, type="phase", name="finishing")
        made = read(directory, "manifest.json")
        say(status, type="done", operators=3, tensors=7, bytes=1500, seconds=4.5,
            dump=None if "silent" in orders else made["manifest_digest"])
    return orders.get("exit", 0)


def main():
    plan = json.loads(os.environ["FAKE_RECORDER"])
    verb = sys.argv[1]
    if verb == "record":
        return record(plan, sys.argv[2], int(sys.argv[sys.argv.index("--status-fd") + 1]))
    answer = plan[verb]
    if verb == "replay" and isinstance(answer, list):
        isa = os.environ.get("ATEN_CPU_CAPABILITY")
        answer = next(given for name, given in answer if name == isa)
    if "hang" in answer:
        time.sleep(answer["hang"])
    if "error" in answer:
        print(answer["error"], file=sys.stderr)
        return answer["exit"]
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
