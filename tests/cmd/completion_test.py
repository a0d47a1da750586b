# SPDX-License-Identifier: Apache-2.0
"""Completions and manual pages say what `--help` says, and shells and mandoc take them.

usage: completion_test.py REPRO_CHECK
A shell or mandoc that is missing is left out and said to be; exits 77 (skipped) without bash.
"""

import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77

BASH = r"""
source "$1"
# A command that completes its own words, as others have installed it.
_other() { COMPREPLY=("$COMP_CWORD:${COMP_WORDS[*]}:$COMP_LINE:$COMP_POINT:$1:$2:$3"); }
complete -F _other other
COMP_LINE="${*:2}" COMP_POINT=${#COMP_LINE}
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_repro_check
printf '%s\n' "${COMPREPLY[@]}"
"""

# Completion works only where a key has started it, so zsh gets a pseudo terminal of its own; what
# stands in the line afterwards is written to a file.
ZSH = r"""
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell "complete-and-tell() { zle complete-word; print -r -- \"\$BUFFER\" > $3 }"
zpty -w shell "zle -N complete-and-tell; bindkey '^I' complete-and-tell; print R''EADY"
zpty -r -m shell seen '*READY*'
zpty -w -n shell "$2"$'\t'
for ((i = 0; i < 100; i++)); do
  [[ -s $3 ]] && break
  sleep 0.1
  zpty -r -t shell seen
done
cat "$3"
zpty -d shell
"""


class Checks:
    def __init__(self, tool, folder):
        self.tool = tool
        self.folder = folder
        self.failures = 0
        self.left_out = []

    def run(self, *words, **options):
        environment = {**os.environ, "HOME": str(self.folder),
                       "PATH": f"{pathlib.Path(self.tool).parent}:{os.environ['PATH']}"}
        return subprocess.run(words, capture_output=True, text=True, check=False,
                              cwd=self.folder, env=environment, **options)

    def output(self, *words):
        done = self.run(self.tool, *words)
        assert done.returncode == 0, done
        return done.stdout

    def expect(self, holds, why):
        if not holds:
            self.failures += 1
            print(why)

    def file(self, name, *words):
        path = self.folder / name
        path.write_text(self.output(*words))
        return path

    def has(self, program):
        if shutil.which(program):
            return True
        self.left_out.append(program)
        return False


def verbs_of(checks, *above):
    """Every verb by --help, those below a verb too: ("diff",), ("gate", "accept")."""
    sections = re.findall(r"^Commands[^\n]*:\n((?:  .*\n)+)", checks.output(*above, "--help"), re.M)
    verbs = []
    for name in re.findall(r"^  ([a-z]+) ", "".join(sections), re.M):
        verb = (*above, name)
        verbs += [verb, *verbs_of(checks, *verb)]
    return verbs


def options_of(checks, *verb):
    """Long options by --help."""
    return set(re.findall(r"^  (?:-\w,)?(--[a-z0-9-]+)", checks.output(*verb, "--help"), re.M))


def check_bash(checks):
    script = checks.file("bash.sh", "completion", "bash")
    checks.expect(checks.run("bash", "-n", script).returncode == 0, "bash -n")

    def complete(*words):
        done = checks.run("bash", "--norc", "-c", BASH, "bash", str(script), "repro-check", *words)
        checks.expect(done.returncode == 0 and not done.stderr, f"bash {words}: {done}")
        return set(done.stdout.split())

    checks.expect("diff" in complete("di"), "bash: verbs")
    checks.expect(complete("diff", "--poli") == {"--policy"}, "bash: an option")
    policies = {"bitwise", "tolerance", "ulp", "cosine", "noise", "fp64", "msprobe"}
    checks.expect(complete("diff", "--policy", "") == policies, "bash: words of an option")
    checks.expect(complete("diff", "--policy", "=", "u") == {"ulp"}, "bash: words behind =")
    checks.expect("junit=" in complete("diff", "--report", "j"), "bash: report formats")
    checks.expect(complete("diff", "--report", "junit", "=", "a_d") == {"a_dump"}, "bash: files")
    checks.expect(complete("diff", "a_") == {"a_dump"}, "bash: dumps")
    checks.expect(complete("diff", "--rtol", "") == set(), "bash: a number")
    checks.expect(complete("completion", "") == {"bash", "zsh", "fish"}, "bash: positional words")
    checks.expect(complete("gate", "acc") == {"accept"}, "bash: a verb below a verb")
    checks.expect(complete("gate", "a_") == {"a_dump"}, "bash: a file beside verbs below a verb")
    checks.expect(complete("gate", "prune", "--d") == {"--device", "--dry-run"},
                  "bash: an option below a verb")
    checks.expect(complete("gate", "-c", "x", "accept", "--from-dir", "a_") == {"a_dump"},
                  "bash: the value of an option below a verb")
    checks.expect("accept" not in complete("gate", "accept", ""), "bash: a verb twice")
    checks.expect(complete("run", "a_") == {"a_dump"}, "bash: a configuration")
    checks.expect({"a_dump", "--"} <= complete("exec", ""), "bash: what a program stands behind")
    for verb in (("exec", "-o", "x"), ("run",), ("record", "-o=x"), ("init", "--program")):
        checks.expect("mkfifo" in complete(*verb, "--", "mkfif"), f"bash: a program of {verb}")
        checks.expect(complete(*verb, "--", "cat", "a_") == {"a_dump"}, f"bash: a file for {verb}")
        checks.expect(complete(*verb, "--", "cat", "--le") == set(), f"bash: an option behind {verb} --")
    told = "2:other a b:other a b:9:other:b:a".split()
    checks.expect(complete("exec", "--", "other", "a", "b") == set(told), "bash: completion of a program")
    checks.expect(complete("diff", "--", "a_") == {"a_dump"}, "bash: a dump behind --")
    for line, wanted in (("diff --poli", "diff --policy "), ("exec -- mkfif", "exec -- mkfifo "),
                         ("exec -- cat a_", "exec -- cat a_dump/")):
        found = typed_in_bash(checks, script, f"repro-check {line}")
        checks.expect(found == f"repro-check {wanted}", f"bash at a terminal: {line}: {found}")
    for verb in verbs_of(checks):
        missing = options_of(checks, *verb) ^ {
            name for name in complete(*verb, "-") if name.startswith("--")}
        checks.expect(not missing, f"bash: {verb} has or lacks {missing}")


def typed_in_bash(checks, script, line):
    """The line after the tabulator key, in a bash at a terminal."""
    told = checks.folder / "told"
    told.unlink(missing_ok=True)
    reader, writer = pty.openpty()
    keys = f"source {script}; bind 'set bell-style none'\n{line}\t\x01printf %s '\x05' >{told}\nexit\n"
    environment = {**os.environ, "HOME": str(checks.folder), "TERM": "dumb",
                   "PATH": f"{pathlib.Path(checks.tool).parent}:{os.environ['PATH']}"}
    with subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=writer, stdout=writer, stderr=writer,
                          cwd=checks.folder, env=environment, start_new_session=True) as shell:
        os.close(writer)
        os.write(reader, keys.encode())
        try:
            while os.read(reader, 65536):
                pass
        except OSError:  # what Linux says at the end of a terminal
            pass
        shell.wait(timeout=60)
    os.close(reader)
    return told.read_text() if told.exists() else ""


def check_fish(checks):
    script = checks.file("repro-check.fish", "completion", "fish")

    def complete(line):
        done = checks.run("fish", "--no-config", "-c", f'source "{script}"; complete -C "{line}"')
        checks.expect(done.returncode == 0 and not done.stderr, f"fish {line}: {done}")
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    checks.expect("diff" in complete("repro-check di"), "fish: verbs")
    checks.expect({"bitwise", "ulp"} <= complete("repro-check diff --policy "), "fish: words")
    checks.expect(complete("repro-check gate acc") == {"accept"}, "fish: a verb below a verb")
    checks.expect("accept" not in complete("repro-check gate accept "), "fish: a verb twice")
    checks.expect("mkfifo" in complete("repro-check exec -o x -- mkfif"), "fish: a program")
    checks.expect(complete("repro-check run -- cat a_") == {"a_dump/"}, "fish: a file for a program")
    for verb in verbs_of(checks):
        missing = options_of(checks, *verb) ^ complete(f"repro-check {' '.join(verb)} --")
        checks.expect(not missing, f"fish: {verb} has or lacks {missing}")


def check_zsh(checks):
    functions = checks.folder / "zsh"
    functions.mkdir()
    script = functions / "_repro-check"
    script.write_text(checks.output("completion", "zsh"))
    checks.expect(checks.run("zsh", "-n", script).returncode == 0, "zsh -n")
    for verb in verbs_of(checks):
        lines = checks.output("completion", "zsh", "--", *verb, "--").splitlines()
        names = {line.split("\t")[0].removesuffix("=") for line in lines}
        missing = options_of(checks, *verb) ^ names
        checks.expect(not missing, f"zsh: {verb} has or lacks {missing}")
    for line, wanted in (("dif", "diff "), ("diff --signed-zero sa", "diff --signed-zero same "),
                         ("diff --max-g", "diff --max-growth="),
                         ("diff --report juni", "diff --report junit="),
                         ("gate acc", "gate accept "), ("gate --agai", "gate --against="),
                         ("exec -o x -- mkfif", "exec -o x -- mkfifo "),
                         ("run -- cat a_", "run -- cat a_dump/"), ("gate prune --dry", "gate prune --dry-run "),
                         ("gate -c a accept --from-d", "gate -c a accept --from-dir=")):
        told = checks.folder / "told"
        told.unlink(missing_ok=True)
        done = checks.run("zsh", "-f", "-c", ZSH, "zsh", str(functions), "repro-check " + line,
                          str(told), timeout=60)
        checks.expect(done.stdout == f"repro-check {wanted}\n", f"zsh: {line}: {done}")


def check_man(checks):
    pages = checks.folder / "share" / "man"
    checks.output("man", "--directory", str(pages))
    verbs = verbs_of(checks)
    tops = [verb[0] for verb in verbs if len(verb) == 1]
    found = {path.name for path in pages.iterdir()}
    checks.expect(found == {"repro-check.1", *(f"repro-check-{v}.1" for v in tops)}, f"{found}")
    for verb in tops:
        text = (pages / f"repro-check-{verb}.1").read_text()
        checks.expect(text == checks.output("man", verb), f"man {verb} prints another page")
        checks.expect("\n.SH EXAMPLES\n" in text, f"man {verb}: no examples")
    everywhere = options_of(checks) & options_of(checks, "diff")
    for verb in verbs:
        plain = (pages / f"repro-check-{verb[0]}.1").read_text().replace("\\-", "-")
        if len(verb) > 1:  # a section of its own, without what all verbs take
            plain = plain.split(f".SS {' '.join(verb)}\n")[1].split("\n.S")[0]
        names = options_of(checks, *verb) - (everywhere if len(verb) > 1 else set())
        missing = {name for name in names if f"\\fB{name}\\fR" not in plain}
        checks.expect(not missing, f"man: {verb} lacks {missing}")
    if not checks.has("mandoc"):
        return
    done = checks.run("mandoc", "-T", "lint", "-W", "warning", *sorted(pages.iterdir()))
    # Without a date, so that two builds of one version are the same bytes.
    lines = [line for line in done.stdout.splitlines() if "missing date" not in line]
    checks.expect(not lines, "\n".join(lines[:10]))
    rendered = checks.run("mandoc", "-T", "ascii", pages / "repro-check-diff.1").stdout
    checks.expect("--max-growth" in re.sub(".\b", "", rendered), "mandoc shows no option")
    rendered = checks.run("mandoc", "-T", "ascii", pages / "repro-check-gate.1").stdout
    checks.expect("--yes-in-ci" in re.sub(".\b", "", rendered), "mandoc: no `gate accept`")


def main():
    if not shutil.which("bash"):
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        checks = Checks(sys.argv[1], pathlib.Path(name))
        (checks.folder / "a_dump").mkdir()
        check_bash(checks)
        if checks.has("fish"):
            check_fish(checks)
        if checks.has("zsh"):
            check_zsh(checks)
        check_man(checks)
        print(f"{len(verbs_of(checks))} verbs, {checks.failures} failures; "
              f"missing: {', '.join(checks.left_out) or 'nothing'}")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
