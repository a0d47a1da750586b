# SPDX-License-Identifier: Apache-2.0
"""One planted fault of each kind, in the three models by turns; planted_faults.py has them all."""
import sys

from torchscript import planted_faults


def one_of_each_kind() -> list:
    kinds = {}
    for fault in planted_faults.every_fault():
        kinds.setdefault(fault.kind, []).append(fault)
    chosen = []
    for turn, faults in enumerate(kinds.values()):
        model = list(planted_faults.PLACES)[turn % len(planted_faults.PLACES)]
        chosen.append(next((f for f in faults if f.model.startswith(model)), faults[0]))
    return chosen


if __name__ == "__main__":
    planted_faults.torch.set_num_threads(2)
    sys.exit(1 if any(planted_faults.check(one_of_each_kind())) else 0)
