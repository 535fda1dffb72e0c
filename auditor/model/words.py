"""Words that everything uses: states and verdicts, what can go wrong, times and JSON as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

SCHEMA = 1

Labels = tuple[tuple[str, str], ...]
"""Label pairs sorted by name; hashable, so that it can stand in a key."""

State = Literal["measured", "partial", "bounded", "no_traffic", "not_exported", "absent", "invalid", "failed"]
HAS_VALUE: frozenset[str] = frozenset({"measured", "partial"})
VerdictWord = Literal["holds", "broken", "undecided", "not_applicable", "error"]
Severity = Literal["info", "warning", "problem"]
WindowKind = Literal["lifetime", "scrapes", "series", "range"]
TargetState = Literal["measured", "failed", "not_an_engine", "not_one_process"]
QuantityKind = Literal["counter", "gauge", "histogram", "info"]


class AuditorError(Exception):
    """Base of every failure that has a sentence for the user and an exit code."""

    exit_code = 4


class UsageError(AuditorError):
    """The caller asked for something that cannot be done as asked: exit code 2."""

    exit_code = 2


class EvidenceError(AuditorError):
    """Something remote, or the content of a page, failed: exit code 3."""

    exit_code = 3


class OutputError(AuditorError):
    """An output, a hand-over or the history could not be written: exit code 4."""

    exit_code = 4


def utc_text(unix_seconds: float | None) -> str | None:
    """``2026-11-29T19:24:20.125Z``, or None."""
    if unix_seconds is None:
        return None
    moment = datetime.fromtimestamp(unix_seconds, tz=UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f"{moment.microsecond // 1000:03d}"
    return f"{text}Z" if fraction == "000" else f"{text}.{fraction}Z"


_UNSAFE_ON_A_SCREEN = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]")
"""Control, direction and invisible characters that JSON lets stand; the lower ones it escapes itself."""


def dump_json(document: Mapping[str, Any]) -> str:
    """JSON text of a document: stable bytes, no NaN, one trailing newline.

    A label may hold characters that turn a screen's writing round; they are escaped, and read back as they were.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return _UNSAFE_ON_A_SCREEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def sort_labels(pairs: Mapping[str, str] | Sequence[tuple[str, str]]) -> Labels:
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return tuple(sorted(items))
