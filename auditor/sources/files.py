"""Saved pages and windows: a file, a gzip of one, or standard input."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from auditor.model import UsageError
from auditor.sources.exposition import read_body

STDIN = "-"


def read_file(path: str) -> bytes:
    """The body of a file or of standard input, un-gzipped.

    Raises:
        UsageError: the file is not there or cannot be read.
        PageError: it unpacks to more than the cap, or its gzip is broken.
    """
    if path == STDIN:
        return read_body(sys.stdin.buffer.read())
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a folder; a page or a saved window is needed") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    return read_body(data)


def as_saved_document(body: bytes) -> dict[str, Any] | None:
    """The JSON document of a saved window or report; None when the body is something else."""
    start = body[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start.startswith(b"{"):
        return None
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "kind" in document and "schema" in document else None


def read_times(path: str) -> list[float]:
    """Scrape times of a series: a JSON list of unix seconds, or of objects with ``at``.

    Raises:
        UsageError: not such a list.
    """
    try:
        data = json.loads(read_file(path))
        times = [float(t["at"]) if isinstance(t, dict) else float(t) for t in data]
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{path}: a JSON list of unix seconds is needed, one a page") from None
    if any(b <= a for a, b in pairwise(times)):
        raise UsageError(f"{path}: the times do not rise; pages and times go in time order")
    return times
