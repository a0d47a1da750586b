# SPDX-License-Identifier: Apache-2.0
"""Errors about dumps. All of them derive from `ReproCheckError`."""

from __future__ import annotations


class ReproCheckError(Exception):
    """`hint` says what helps; it is part of the text."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n  {hint}" if hint else message)
        self.message = message
        self.hint = hint


class DamagedDump(ReproCheckError):
    """A part is missing, malformed, or does not match its digest. This is never a divergence."""


class IncompleteDump(ReproCheckError):
    """The recording did not finish: it has no manifest, or it is partial and `partial=True` was not given."""


class UnknownFormat(ReproCheckError):
    """Not a dump, or a dump of another major version."""


class NotStored(ReproCheckError):
    """The dump has no bytes of this tensor: only a digest, a slice, or memory that was never written."""


class UnsupportedDtype(ReproCheckError):
    """NumPy has this dtype only with `ml_dtypes`; `raw()` returns the bytes."""


class InvalidRecord(ReproCheckError):
    """An argument of `DumpWriter` cannot be recorded."""


class ToolError(ReproCheckError):
    """`repro-check` gave no verdict: it is missing, or ended with a code other than 0 and 1."""

    def __init__(self, message: str, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code
