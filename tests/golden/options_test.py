#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every option of every verb, given wrong: `options_test.py REPRO_CHECK`.

Without its value, with another option in the place of its value, twice, with a word or number that it does not
take, and beside an option that there is not. Each time the tool ends with 2, prints nothing on stdout, and
says which option it is about, what that takes, what was given and how to mend it, in words of its own."""
import re
import subprocess
import sys
import tempfile

from help_cases_test import verbs_of

# What CLI11 says by itself.
PARSER = re.compile(r"REQUIRED|At Most|At Least|\d required|is required|:(?:UINT|INT|FLOAT|TEXT)| in \[|"
                    r"Excludes|Could not|w(?:as|ere) not expected|\{\}|A subcommand")
OPTION = re.compile(r"^  ((?:-\w,)?--[a-z0-9-]+|-\w)(?: (\S+))?( \.\.\.)?(?:  |$)", re.M)
NUMBERS = ("N", "X", "INDEX", "SECONDS", "N,...")
SAYS = re.compile(r"repro-check: error: (?P<what>.*)\n(?P<mend>  .+\n)+")


def options_of(text):
    """(name, how its value is called or "", whether it takes several)"""
    for names, value, several in OPTION.findall(text):
        yield names.split(",")[-1], value, bool(several)


class Checks:
    def __init__(self, tool, folder):
        self.tool = tool
        self.folder = folder
        self.said = self.failures = 0

    def help_of(self, verb):
        return subprocess.run([self.tool, *verb, "--help"], capture_output=True, text=True, check=True).stdout

    def refused(self, words, expected):
        """@param expected  a pattern for the first line"""
        done = subprocess.run([self.tool, *words], capture_output=True, text=True, check=False, timeout=60,
                              cwd=self.folder, stdin=subprocess.DEVNULL)
        self.said += 1
        says = SAYS.fullmatch(done.stderr)
        if (done.returncode != 2 or done.stdout or not says or not re.fullmatch(expected, says["what"])
                or PARSER.search(done.stderr)):
            self.failures += 1
            print(f"{' '.join(words)}: exit {done.returncode}, expected {expected}\n{done.stderr}{done.stdout}")

    def check(self, verb):
        self.refused([*verb, "--frobnicate"], "unknown option --frobnicate")
        own = self.help_of(verb)
        if self.said > 500:  # what every verb takes has been seen
            own = own.split("Everywhere:\n")[0]
        for name, value, several in options_of(own):
            if name == "--numbers":  # which may be given words
                continue
            if not value:
                if name != "--values":  # which may be given a number
                    self.refused([*verb, name + "=x"], f'{name}: expected no value, got "x"')
                continue
            self.refused([*verb, name], f"{name}: expected .+, got nothing")
            self.refused([*verb, name + "="], f"{name}: expected .+, got nothing")
            self.refused([*verb, name, "--quiet"], f"{name}: expected .+, got nothing")
            self.refused([*verb, "--frobnicate", name], "unknown option --frobnicate")
            if "|" in value and "." not in value:
                known = ", ".join(value.split("|"))
                self.refused([*verb, name, "frob"], f'{name}: expected one of {known}, got "frob"')
                self.refused([*verb, name, ""], f"{name}: expected one of {known}, got nothing")
            elif value in NUMBERS:
                self.refused([*verb, name, "many"], f'{name}: expected a (whole )?number.*, got "many"')
            if not several:
                right = value.split("|")[0] if "|" in value else "3"
                self.refused([*verb, name, right, name, right], f"{name} was given 2 times")


def main():
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(sys.argv[1], folder)
        verbs = [verb for verb in verbs_of(sys.argv[1]) if verb]
        for verb in verbs:
            checks.check(verb)
        checks.refused([], "no command was given")
        checks.refused(["--frobnicate", "diff"], "unknown option --frobnicate")
        checks.refused(["--color", "blue"], '--color: expected one of auto, always, never, got "blue"')
    print(f"{len(verbs)} verbs, {checks.said} mistakes, {checks.failures} failures")
    return int(checks.failures > 0 or checks.said < 1000)


if __name__ == "__main__":
    sys.exit(main())
