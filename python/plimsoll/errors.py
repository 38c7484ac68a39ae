"""What the package raises.

Each error carries what the C library reported: a one-line message, the status, errno and the byte of the input.
"""
from __future__ import annotations

import errno as _errno

__all__ = ["PlimsollError", "NotFoundError", "FormatError", "LimitError", "ArgumentError", "Cancelled", "UnsupportedError",
           "NonFiniteError", "StorageError"]


class PlimsollError(Exception):
    """Base of all errors of this package.

    path: the file it is about, or None.  offset: the byte of the (decompressed) input, or None.
    errno: of the operating system, or None.  remedy: what to do, or None.
    """

    status = 0

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None,
                 errno: int | None = None, remedy: str | None = None) -> None:
        super().__init__(message if remedy is None else f"{message}; {remedy}")
        self.path = path
        self.offset = offset
        self.errno = errno
        self.remedy = remedy


class _FileError(PlimsollError, OSError):
    status = -3

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None,
                 errno: int | None = None, remedy: str | None = None) -> None:
        PlimsollError.__init__(self, message, path=path, offset=offset, errno=errno, remedy=remedy)

    def __str__(self) -> str:
        return str(self.args[0])


class NotFoundError(_FileError):
    """A file cannot be opened, read or written."""


class StorageError(_FileError):
    """The file system takes no more: it is full, over a quota, or read-only, or the file is too large for it (see errno)."""


class FormatError(PlimsollError, ValueError):
    """The input is damaged, or is not what was asked for."""

    status = -4


class ArgumentError(PlimsollError, ValueError):
    """An argument is out of its range, or names something that is not known."""

    status = -5


class LimitError(PlimsollError, MemoryError):
    """The work needs more host memory than max_memory_bytes allows, or than the system has."""

    status = -2


class Cancelled(PlimsollError):
    """Another thread stopped the call."""

    status = -6


class UnsupportedError(PlimsollError, NotImplementedError):
    """This machine or build cannot do it."""

    status = -7


class NonFiniteError(PlimsollError, FloatingPointError):
    """Gradients, weights or activations hold NaN or infinities.  stats: what was found, as GradStats."""

    def __init__(self, message: str, stats: object = None) -> None:
        super().__init__(message)
        self.stats = stats


BY_STATUS: dict[int, type[PlimsollError]] = {
    kind.status: kind for kind in (LimitError, NotFoundError, FormatError, ArgumentError, Cancelled, UnsupportedError)
}
BY_STATUS[-1] = LimitError  # the system refused memory
# What becomes a StorageError instead.
STORAGE = frozenset({_errno.ENOSPC, _errno.EFBIG, _errno.EROFS, _errno.EDQUOT})


def kind_of(status: int, native: int | None) -> type[PlimsollError]:
    """The class of a status of the C library, with the errno that it told."""
    return StorageError if status == StorageError.status and native in STORAGE else BY_STATUS.get(status, PlimsollError)
