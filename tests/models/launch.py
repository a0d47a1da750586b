# SPDX-License-Identifier: Apache-2.0
"""Starts a program on several ranks of this machine: `launch.py RANKS PROGRAM [argument ...]`. What torchrun
does, without the seconds that its own PyTorch takes to load."""
import os
import subprocess
import sys
import time


def main() -> int:
    ranks, command = int(sys.argv[1]), [sys.executable, *sys.argv[2:]]
    # Launchers that run at the same time have ports of their own, none that the system hands out.
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(10000 + os.getpid() % 10000)}
    running = [subprocess.Popen(command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
               for rank in range(ranks)]
    while None in (codes := [each.poll() for each in running]) and not any(codes):
        time.sleep(0.02)
    for each in running:
        if each.poll() is None:
            each.terminate()
    return int(any([each.wait() for each in running]))


if __name__ == "__main__":
    sys.exit(main())
