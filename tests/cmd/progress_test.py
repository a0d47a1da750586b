# SPDX-License-Identifier: Apache-2.0
"""What `diff` shows on a terminal while it works, and that it is silent elsewhere.

usage: progress_test.py REPRO_CHECK MAKE_DUMP TESTS
"""

import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile


def on_terminal(words, folder, **variables):
    """stdout, and what a terminal on stderr was sent."""
    master, slave = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR")}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=slave, text=True, cwd=folder,
                          env={**environment, "TERM": "xterm", **variables}) as tool:
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        stdout = tool.stdout.read()
    os.close(master)
    return stdout, shown.decode()


def main():
    tool, make_dump, tests = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fixture = json.loads((tests / "golden" / "fixtures" / "three_ops.json").read_text())
        for run in ("A", "B", "C"):
            (folder / "fixture.json").write_text(json.dumps({**fixture, "run": run}))
            subprocess.run([make_dump, "fixture.json", run], check=True, cwd=folder)
        words = [tool, "diff", "A", "B"]
        silent = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder)
        assert silent.stderr == "", silent.stderr
        stdout, shown = on_terminal(words, folder)
        assert stdout == silent.stdout, stdout
        for phase in ("aligning", "comparing", "verifying"):
            assert f"\r\x1b[K{phase}  [" in shown, shown
        assert shown.endswith("\r\x1b[K"), "the line is not taken away"
        _, shown = on_terminal([*words, "C"], folder)
        assert "[1/2] B  comparing  [" in shown and "[2/2] C  comparing  [" in shown, shown
        subprocess.run([tool, "pack", "B"], capture_output=True, check=True, cwd=folder)
        stdout, shown = on_terminal([tool, "diff", "A", "B.tar.zst"], folder)
        assert stdout.startswith("REPRODUCIBLE"), stdout
        assert "\r\x1b[Kunpacking  [" in shown and "comparing  [" in shown, shown
        for quiet in (["-q"], ["--progress", "never"]):
            assert on_terminal([*words, *quiet], folder)[1] == ""
        assert on_terminal(words, folder, TERM="dumb")[1] == ""
        assert on_terminal(words, folder, CI="true")[1] == ""
    return 0


if __name__ == "__main__":
    sys.exit(main())
