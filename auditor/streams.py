"""Inputs that can be read once only: standard input, and pipes such as ``<(zcat engine.log.gz)`` makes."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from typing import IO, Any

from auditor.model import UsageError

STDIN = "-"
HEAD_BYTES = 64 * 1024


class _Again(io.RawIOBase):
    """A stream whose first bytes were looked at, from its beginning."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


_opened: dict[str, tuple[object, IO[bytes]]] = {}
"""Path -> what it was when it was opened, and its stream. Opened again it would have lost its first bytes."""


def is_once_only(path: str) -> bool:
    """Whether this is standard input or the name of a pipe."""
    if path == STDIN:
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def once_only(path: str) -> IO[bytes] | None:
    """The stream behind ``-`` or the name of a pipe; None for what can be opened again.

    Raises:
        OSError: it cannot be opened, or standard input is closed.
        UsageError: it was read to its end already.
    """
    if not is_once_only(path):
        return None
    identity = _identity(path)
    known = _opened.get(path)
    if known is None or known[0] != identity:
        raw = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115  (open for as long as it is read)
        known = _opened[path] = (identity, raw)
    if known[1].closed:
        raise UsageError(f"{'standard input' if path == STDIN else path}: can be read once only")
    return known[1]


def peek_head(path: str) -> bytes | None:
    """The first 64 KiB of what can be read once only, left there to be read; None for other paths.

    Waits for that much or for the end: the first write of a slow pipe may be half a line.

    Raises:
        OSError, UsageError: as :func:`once_only`.
    """
    stream = once_only(path)
    if stream is None:
        return None
    head = b""
    while len(head) < HEAD_BYTES and (more := stream.read(HEAD_BYTES - len(head))):
        head += more
    _opened[path] = (_identity(path), io.BufferedReader(_Again(head, stream)))
    return head


def _identity(path: str) -> object:
    if path == STDIN:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        return id(sys.stdin)
    status = os.stat(path)
    return status.st_dev, status.st_ino
