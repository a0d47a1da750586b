#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills one of two ranks of a data parallel training with SIGKILL at random instants, and asks what is left
of what both recorded: `kill_ranks.py TOOL PROGRAM [kills [seed]]`. Exits 1 where a reader crashed, a cut
recording passed, or an operator that was complete in a journal is lost, and 77 where this Python has no torch."""
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kill import CRASHES, complete_entries, cpu_seconds, partial_operators

RANKS = 2


def journal_of(rank, dump):
    """The journal of a rank of this recording, once it is there: other programs here have ranks as well.
    Its folder has the name of the process."""
    for journal in dump.parent.glob(f"{dump.name}.processes-*/*/journal.bin"):
        try:
            variables = Path("/proc", journal.parent.name, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"RANK={rank}".encode() in variables:
            return journal
    return None


def size_of(journal):
    try:
        return journal.stat().st_size
    except OSError:
        return None


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Bench:
    def __init__(self, tool, program, scratch):
        self.tool, self.program, self.scratch = os.path.abspath(tool), os.path.abspath(program), Path(scratch).resolve()
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "STEPS": "100"}

    def start(self, dump):
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        command = [self.tool, "exec", "--timeout", "120", "-o", str(dump), "--", *launcher, self.program]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def follow(self, running, dump, rank, after=None):
        """Until a rank has recorded all; with `after`, it is killed so many CPU seconds after it began to record.
        @return the CPU seconds that it recorded, and the operators that were whole in its journal when it was killed"""
        journal, begun, used, size = None, None, 0.0, 0
        while running.poll() is None:
            journal = journal or journal_of(rank, dump)
            if journal:
                pid = int(journal.parent.name)
                now, before, size = cpu_seconds(pid), size, size_of(journal)
                if now is None or size is None or (after is None and size < before):  # ended, or cut to its length: it is whole
                    break
                begun, used = begun or now, now
                if after is not None and used - begun >= after:
                    return used - begun, self.kill(pid, journal)
            time.sleep(0.002 if journal else 0.02)
        return used - (begun or used), None

    def kill(self, pid, journal):
        try:
            os.kill(pid, 9)
        except OSError:
            return None
        while is_alive(pid):
            time.sleep(0.001)
        # Its launcher has not ended yet, hence nobody has made a dump of it.
        return complete_entries(journal)[0]

    def ask(self, *words):
        done = subprocess.run([self.tool, *map(str, words)], capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout


def trial(bench, number, whole, rank, after):
    dump = bench.scratch / f"k{number}"
    running = bench.start(dump)
    _, journal = bench.follow(running, dump, rank, after)
    row = {"rank": rank, "after": after, "exec": running.wait(), "journal": journal, "kept": 0}
    cut = dump / f"rank-{rank}"
    row["end"] = "none" if not cut.exists() else "cut"
    codes = row["codes"] = {}
    for name, words in (("ranks", [dump]), ("verify", [dump]), ("diff", [whole, dump])):
        codes[name], _ = bench.ask(name, *words)
    codes["inspect"], said = bench.ask("inspect", "--partial", cut, "--format", "json")
    row["kept"] = partial_operators(said)
    if '"partial"' not in said and codes["inspect"] == 0:
        row["end"] = "whole"
    other = dump / f"rank-{1 - rank}"
    codes["other"], said = bench.ask("inspect", "--partial", other, "--format", "json")
    row["other"] = partial_operators(said)
    shutil.rmtree(dump, ignore_errors=True)
    return row


def faults(row):
    found = [f"{name} ended with {code}" for name, code in row["codes"].items() if code < 0 or code >= CRASHES]
    if row["end"] == "whole":
        return found
    found += [f"{name} passed a cut recording" for name in ("ranks", "diff") if row["codes"][name] == 0]
    # The entry that was being written when the kill came is whole in its length and not in its bytes.
    if row["kept"] + 1 < (row["journal"] or 0):
        found.append(f"{row['kept']} of {row['journal']} operators were kept")
    if row["end"] == "cut" and row["kept"] and not row["other"]:
        found.append("nothing is left of the other rank")
    return found


def main(scratch):
    bench = Bench(*sys.argv[1:3], scratch)
    kills, seed = (int(text) for text in (sys.argv[3:] + ["30", "0"][len(sys.argv) - 3:]))
    seed = seed or random.SystemRandom().randrange(1, 2**32)
    for attempt in range(3):  # on a busy machine gloo's threads abort a program now and then, recorded or not
        whole = bench.scratch / f"whole-{attempt}"
        running = bench.start(whole)
        seconds, _ = bench.follow(running, whole, 1)
        if running.wait() == 0 and seconds > 0:
            break
    else:
        sys.exit(f"the program is not recorded: exit code {running.returncode}, {seconds:.2f} s")
    print(f"{kills} kills of one of {RANKS} ranks within {seconds:.2f} CPU s of recording, seed {seed}")
    print(" kill rank  ms CPU    end whole in journal     kept    other  exec ranks verify diff inspect")
    chance = random.Random(seed)
    wrong, rows = [], []
    for number in range(kills):
        after = (number + chance.random()) * seconds / kills
        row = trial(bench, number, whole, number % RANKS, after)
        codes = [row["codes"][name] for name in ("ranks", "verify", "diff", "inspect")]
        journal = "-" if row["journal"] is None else row["journal"]
        print(f"{number:5} {row['rank']:4} {1000 * row['after']:7.0f} {row['end']:>6} {journal:>16} {row['kept']:8} "
              f"{row['other']:8} {row['exec']:5} " + " ".join(f"{code:5}" for code in codes), flush=True)
        rows.append(row)
        wrong += [f"kill {number}: {fault}" for fault in faults(row)]
    cut = [row for row in rows if row["end"] == "cut" and row["journal"] is not None]
    print(f"{len(cut)} of {kills} cut a recording; {sum(row['journal'] for row in cut)} operators were whole in their "
          f"journals, {sum(row['kept'] for row in cut)} were kept")
    if not cut:
        wrong.append("no recording was cut: nothing was measured")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="repro-check-kill-") as place:
        sys.exit(main(place))
