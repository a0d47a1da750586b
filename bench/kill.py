#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the recorder of a real model with SIGKILL at random instants, and asks what is left of each
recording: `kill.py TOOL RECORDER MODEL SCRATCH [kills [calls [seed]]]`. Exits 1 where a reader crashed,
a cut recording passed, or an operator that was complete in the journal was not recovered."""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

RECORD, FINISHED = 7, 10  # kinds of journal entries: EntryKind of dumpers/journal/entry.h
CRASHES = 70
INPUT = {"generate": "randint", "low": 0, "high": 100, "shape": [2, 16], "dtype": "int64"}


def cpu_seconds(pid):
    """What a process has used so far; none of one that has ended. Unlike the clock on the wall it goes
    on where the recording does, however busy the machine is."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


def kill_at(process, seconds):
    while process.poll() is None:
        used = cpu_seconds(process.pid)
        if used is None or used >= seconds:
            break
        time.sleep(0.0005)
    process.kill()


class Bench:
    def __init__(self, tool, recorder, model, scratch, calls):
        self.tool, self.recorder = os.path.abspath(tool), os.path.abspath(recorder)
        self.scratch = Path(scratch).resolve()
        inputs = [{"inputs": [{**INPUT, "seed": seed}]} for seed in range(calls)]
        config = {"model": {"path": os.path.abspath(model)}, "calls": inputs, "threads": 2,
                  "dump": {"browse": "never"}}
        (self.scratch / "config.json").write_text(json.dumps(config))
        self.whole = self.scratch / "whole"
        self.request = self.ask_request()

    def ask_request(self):
        """The request that the tool writes for its recorder, caught while the whole dump is made."""
        caught, catcher = self.scratch / "request.json", self.scratch / "catcher"
        catcher.write_text(f'#!/bin/sh\n[ "$1" != record ] || cp "$2" "{caught}"\n'
                           f'exec "{self.recorder}" "$@"\n')
        catcher.chmod(0o755)
        subprocess.run([self.tool, "record", "-c", "config.json", "-o", str(self.whole), "-q"],
                       cwd=self.scratch, check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, REPRO_CHECK_RECORDER=str(catcher)))
        return json.loads(caught.read_text())

    def start(self, dump):
        file = self.scratch / f"{dump.name}.json"
        file.write_text(json.dumps(dict(self.request, dump_directory=str(dump))))
        read, write = os.pipe()
        process = subprocess.Popen([self.recorder, "record", str(file), "--status-fd", str(write)],
                                   pass_fds=[write], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL,
                                   # A thread that spins while it waits would make the clock of the
                                   # processor one of the machine's load.
                                   env=dict(os.environ, OMP_WAIT_POLICY="passive"))
        os.close(write)
        return process, os.fdopen(read)

    def span(self):
        """CPU seconds that the recorder has used when its recording begins, and when it ends."""
        process, status = self.start(self.scratch / "timed")
        begun = used = None
        for line in status:
            used = cpu_seconds(process.pid) or used
            if begun is None and json.loads(line).get("name") == "recording":
                begun = used
        status.close()
        if process.wait() != 0 or begun is None:
            sys.exit("the recorder does not record")
        shutil.rmtree(self.scratch / "timed")
        return begun, used

    def kill(self, dump, at):
        """@return the operators that the recorder had told of, and whether it came to its end"""
        process, status = self.start(dump)
        # From the start of the process on: on a busy machine what it says is read long after it was said.
        killer, told = threading.Thread(target=kill_at, args=(process, at)), 0
        killer.start()
        for line in status:
            try:
                message = json.loads(line)
            except ValueError:  # cut by the kill
                break
            told = max(told, message.get("operators", 0))
        status.close()
        killer.join()
        code = process.wait()
        if code not in (0, -signal.SIGKILL):
            sys.exit(f"the recorder ended with {code}")
        return told, code == 0

    def ask(self, *words):
        done = subprocess.run([self.tool, *map(str, words)], capture_output=True, text=True,
                              timeout=300)
        return done.returncode, done.stdout, done.stderr


def complete_entries(journal):
    """What lies in the file in its whole length, counted without the tool: the entries of kind `record`,
    and whether the one that ends a recording is there. After that one nothing can be cut off any more: what
    a kill leaves to be done is to make `trace.h5` of it, which `recover` does."""
    if not journal.exists():
        return 0, False
    data = journal.read_bytes()
    position, records, finished = 16, 0, False
    while position + 16 <= len(data):
        checksum, length, kind = struct.unpack_from("<QII", data, position)
        end = position + 16 + length
        if (length == 0 and kind == 0) or checksum == 0 or end > len(data):
            break
        records += kind == RECORD
        finished = finished or kind == FINISHED
        position = (end + 7) // 8 * 8
    return records, finished


def partial_operators(text):
    try:
        return json.loads(text)["manifest"]["trace"]["operators"]
    except (ValueError, KeyError):
        return 0


def trial(bench, number, at):
    dump, copy = bench.scratch / f"k{number}", bench.scratch / f"r{number}"
    told, ended = bench.kill(dump, at)
    records, finished = complete_entries(dump / "journal.bin")
    published = (dump / "manifest.json").exists()
    row = {"at": at, "told": told, "ended": ended, "journal": records,
           "end": "whole" if published else "written" if finished else "cut"}
    codes = {}
    codes["diff"], _, _ = bench.ask("diff", bench.whole, dump)
    codes["inspect"], said, _ = bench.ask("inspect", "--partial", dump, "--format", "json")
    row["inspected"] = partial_operators(said)
    codes["recover"], _, _ = bench.ask("recover", dump, "-o", copy)
    row["recovered"] = 0
    if copy.exists():
        _, said, _ = bench.ask("inspect", "--partial", copy, "--format", "json")
        row["recovered"] = partial_operators(said)
        codes["verify"], _, _ = bench.ask("verify", copy)
        codes["partial"], _, _ = bench.ask("diff", "--partial", bench.whole, copy)
        codes["recovered"], _, _ = bench.ask("diff", bench.whole, copy)
    row["codes"] = codes
    for left in (dump, copy):
        shutil.rmtree(left, ignore_errors=True)
    return row


def passing(row):
    """The commands that must not pass and did: of a recording that was written to its end, `diff` of what
    `recover` has made is right to pass, `diff` of what the kill has left is not."""
    refusing = {"whole": (), "written": ("diff",), "cut": ("diff", "partial", "recovered")}
    return [name for name in refusing[row["end"]] if row["codes"].get(name) == 0]


def faults(row):
    """What must not be: said in words."""
    found = [f"{name} ended with {code}" for name, code in row["codes"].items()
             if code < 0 or code >= CRASHES]
    if row["end"] == "whole":
        return found
    found += [f"{name} passed a cut recording" for name in passing(row)]
    # The entry that was being written when the kill came is whole in its length and not in its bytes.
    if row["recovered"] + 1 < row["journal"]:
        found.append(f"{row['recovered']} of {row['journal']} operators were recovered")
    if row["recovered"] and row["codes"].get("verify") != 0:
        found.append("what was recovered does not verify")
    return found


def show(number, row):
    codes = row["codes"]
    code = lambda name: str(codes[name]) if name in codes else "-"
    print(f"{number:5} {1000 * row['at']:8.0f} {row['end']:>7} {row['told']:7} {row['journal']:8} "
          f"{row['inspected']:9} {row['recovered']:9} {code('inspect'):>8} {code('recover'):>8} "
          f"{code('verify'):>7} {code('diff'):>5} {code('recovered'):>10} {code('partial'):>8}",
          flush=True)


def summary(rows):
    cut = [row for row in rows if row["end"] != "whole"]
    journal = sum(row["journal"] for row in cut)
    recovered = sum(row["recovered"] for row in cut)
    share = 100.0 * recovered / journal if journal else 100.0
    crashes = sum(code < 0 or code >= CRASHES for row in rows for code in row["codes"].values())
    passes = sum(len(passing(row)) for row in rows)
    print(f"{len(rows)} kills, {len(cut)} cut the recording; {journal} operators were complete in the "
          f"journals, {recovered} were recovered ({share:.3f} %)")
    print(f"{crashes} readers crashed; {passes} passed a cut recording")
    return cut


def main():
    tool, recorder, model, scratch = sys.argv[1:5]
    kills, calls, seed = (int(text) for text in (sys.argv[5:] + ["100", "200", "0"][len(sys.argv) - 5:]))
    seed = seed or random.SystemRandom().randrange(1, 2**32)
    bench = Bench(tool, recorder, model, scratch, calls)
    begin, end = bench.span()
    print(f"{kills} kills within {end - begin:.2f} CPU s of recording, {calls} calls of {Path(model).name}, "
          f"seed {seed}")
    print("              ms           said   whole in      seen                 exit codes")
    print(" kill   CPU at     end  so far  journal  --partial recovered  inspect  recover  verify"
          "  diff  recovered  --partial")
    chance = random.Random(seed)
    rows, wrong = [], []
    for number in range(kills):
        # One instant in each of as many equal parts, so that few kills too meet every stage.
        row = trial(bench, number, begin + (number + chance.random()) * (end - begin) / kills)
        show(number, row)
        rows.append(row)
        wrong += [f"kill {number}: {fault}" for fault in faults(row)]
    if not summary(rows):
        wrong.append("no recording was cut: nothing was measured")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
