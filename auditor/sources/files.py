"""Saved pages and windows: a file, a gzip of one, or standard input."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

from auditor.model import EvidenceError, UsageError
from auditor.sources.bodies import LARGEST_PAGE_BYTES, read_body
from auditor.streams import STDIN, once_only

__all__ = ["STDIN", "as_saved_document", "read_file", "read_times"]


def read_file(path: str) -> bytes:
    """The body of a file or of standard input, un-gzipped.

    Raises:
        UsageError: the file is not there or cannot be read.
        PageError: it unpacks to more than the cap, or its gzip is broken.
    """
    try:
        stream = once_only(path)
        with nullcontext(stream) if stream is not None else Path(path).open("rb") as file:
            data = file.read(LARGEST_PAGE_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a folder; a page or a saved window is needed") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    return read_body(data)


def as_saved_document(body: bytes) -> dict[str, Any] | None:
    """The JSON document of a saved window or report; None when the body is something else."""
    if not body[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    try:
        document = json.loads(body.removeprefix(b"\xef\xbb\xbf"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "kind" in document and "schema" in document else None


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def read_times(path: str) -> list[float]:
    """Scrape times of a series: a JSON list of unix seconds, or of objects with ``at``.

    Raises:
        UsageError: not such a list.
    """
    try:
        data = json.loads(read_file(path), parse_constant=_refuse_constant)
        if not isinstance(data, list):
            raise TypeError
        times = [float(t["at"]) if isinstance(t, dict) else float(t) for t in data]
        if not all(map(math.isfinite, times)):
            raise ValueError
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, EvidenceError):
        raise UsageError(f"{path}: a JSON list of unix seconds is needed, one a page") from None
    if any(b <= a for a, b in pairwise(times)):
        raise UsageError(f"{path}: the times do not rise; pages and times go in time order")
    return times
