"""Inputs that can be read once only: standard input, and pipes such as ``<(zcat engine.log.gz)`` makes."""

from __future__ import annotations

import os
import stat
import sys
from typing import IO

STDIN = "-"
PEEK_BYTES = 64 * 1024

_pipes: dict[str, IO[bytes]] = {}
"""A pipe stays open after a look at its first bytes: opened again it would have lost them."""


def once_only(path: str) -> IO[bytes] | None:
    """The stream behind ``-`` or behind the name of a pipe; None for what can be opened again.

    Raises:
        OSError: the pipe cannot be opened.
    """
    if path == STDIN:
        return sys.stdin.buffer
    if path in _pipes:
        return _pipes[path]
    try:
        is_pipe = stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return None
    if not is_pipe:
        return None
    _pipes[path] = open(path, "rb", buffering=PEEK_BYTES)  # noqa: SIM115  (open for as long as it is read)
    return _pipes[path]
