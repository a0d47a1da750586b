# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a dump. All of it derives from `ReproCheckError`."""

from __future__ import annotations


class ReproCheckError(Exception):
    """`hint` says how to mend it; it is part of the text."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n  {hint}" if hint else message)
        self.message = message
        self.hint = hint


class DamagedDump(ReproCheckError):
    """Something is missing, malformed, or does not match its digest. Never a divergence."""


class IncompleteDump(ReproCheckError):
    """No manifest: the recording never finished. Or a partial one, where that was not asked for."""


class UnknownFormat(ReproCheckError):
    """Not a dump, or one of another major version."""


class NotStored(ReproCheckError):
    """The dump has no bytes of this tensor: digests alone, a slice, or memory nobody had written."""


class UnsupportedDtype(ReproCheckError):
    """numpy has no such dtype without `ml_dtypes`; `raw()` gives the bytes."""


class InvalidRecord(ReproCheckError):
    """What `DumpWriter` was given cannot be recorded."""


class ToolError(ReproCheckError):
    """`repro-check` could not judge: it is missing, or ended with a code other than 0 and 1."""

    def __init__(self, message: str, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code
