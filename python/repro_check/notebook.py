# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows. IPython is asked where the program has loaded it, and imported for nobody else."""

from __future__ import annotations

import contextlib
import sys
import typing


def is_kernel() -> bool:
    """Whether what this process returns is shown in a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextlib.contextmanager
def progress() -> typing.Iterator[typing.Callable[[str], None]]:
    """Shows a line in the place of the one before, and in the end none. Outside of notebooks nothing is shown."""
    if not is_kernel():
        yield lambda text: None
        return
    handle = sys.modules["IPython"].display.display({"text/plain": ""}, raw=True, display_id=True)
    try:
        yield lambda text: handle.update({"text/plain": text}, raw=True)
    finally:
        handle.update({"text/plain": ""}, raw=True)
