# SPDX-License-Identifier: Apache-2.0
"""File systems of a few kilobytes, for tests of full disks."""

import subprocess
import sys

SKIPPED = 77
INSIDE = "--inside"


def is_inside():
    """Whether this program may mount. Takes its own flag out of the arguments."""
    if INSIDE not in sys.argv:
        return False
    sys.argv.remove(INSIDE)
    return True


def enter():
    """Runs this program once more where it may mount, with the same arguments. Where none can be mounted its
    exit code is the one that ctest counts as skipped."""
    for flags in (["-rm"], ["-m"]):
        words = ["unshare", *flags]
        try:
            allowed = subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], check=False,
                                     capture_output=True).returncode == 0
        except OSError:
            break
        if allowed:
            return subprocess.run([*words, *sys.orig_argv, INSIDE], check=False).returncode
    print("skipped: no file system can be mounted here")
    return SKIPPED


def mount(test, place, kilobytes):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", place], check=True)
    test.addCleanup(subprocess.run, ["umount", place], check=False)
