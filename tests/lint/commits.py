#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Subjects of commits are `area: verb object`, of at most 72 characters, from the commit on that brought this rule:
`commits.py ROOT`. In an archive or a shallow clone it says what it did not look at, and looks at the rest."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

RULE = "tests/lint/commits.py"
MOST = 72
AREA = r"[a-z][a-z0-9_./-]*"
SUBJECT = re.compile(rf"{AREA}(?:, {AREA})*: [a-z][a-z0-9-]* \S.*[^.\s]")


def problems(subject):
    if len(subject) > MOST:
        yield f"{len(subject)} characters, {MOST} are the limit: {subject}"
    if not SUBJECT.fullmatch(subject):
        yield f"is not `area: verb object`: {subject}"


def git(root, *words):
    """@return lines; None where git has nothing to say"""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def history(root):
    """Subjects from the commit on that brought the rule, and what was not looked at."""
    top = git(root, "rev-parse", "--show-toplevel")
    if not top or Path(top[0]).resolve() != Path(root).resolve():
        return [], "no history: no subject was looked at"
    brought = git(root, "log", "--diff-filter=A", "--format=%H", "--", RULE) or []
    if not brought:
        return [], f"{RULE} is not committed: no subject was looked at"
    # In a shallow clone the oldest commit brings every file, whatever its subject.
    subjects = git(root, "log", "--no-merges", "--format=%s", f"{brought[-1]}..HEAD") or []
    is_shallow = git(root, "rev-parse", "--is-shallow-repository") == ["true"]
    return subjects, "a shallow clone: older subjects were not looked at" if is_shallow else ""


def commit(root, subject, text):
    file = Path(root) / RULE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    as_nobody = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    assert git(root, "add", RULE) is not None
    assert git(root, *as_nobody, "commit", "--no-verify", "-m", subject) is not None


def selftest():
    for right in ("lint: hold subjects of commits", "exec, gate: keep a journal", "ci/gitlab: run `ranks`"):
        assert not list(problems(right)), right
    for wrong in ("Hold subjects", "lint: Hold subjects", "lint: hold", "lint: hold it.", "a: b " + "c" * MOST):
        assert list(problems(wrong)), wrong
    with tempfile.TemporaryDirectory() as scratch:
        whole, shallow = Path(scratch) / "whole", Path(scratch) / "shallow"
        whole.mkdir()
        assert history(whole)[1].startswith("no history")
        if git(whole, "init", "-q") is None:
            return
        assert history(whole)[1].endswith("no subject was looked at")
        for subject, text in (("An old one", "1"), ("lint: add a rule", "2"), ("A wrong one", "3")):
            commit(whole, subject, text)
        # The first brought the file: it is not looked at, the two after it are.
        assert history(whole) == (["A wrong one", "lint: add a rule"], "")
        assert git(scratch, "clone", "-q", "--depth", "1", f"file://{whole}", str(shallow)) is not None
        assert history(shallow) == ([], "a shallow clone: older subjects were not looked at")


def main() -> int:
    selftest()
    subjects, left_out = history(sys.argv[1])
    found = [problem for subject in subjects for problem in problems(subject)]
    print("\n".join(found + [left_out] * bool(left_out) + [f"{len(subjects)} subjects"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
