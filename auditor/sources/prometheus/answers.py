"""Bodies of the query API -> rows. Nothing in an answer is taken on trust."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.model import EvidenceError


@dataclass(frozen=True)
class Row:
    """One series of an answer: (unix seconds, value) pairs, in time order. Values may be NaN or infinite."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...] = ()
    histograms: tuple[tuple[float, Mapping[str, Any]], ...] = ()
    """Native histograms, as the API writes them."""

    @property
    def value(self) -> float:
        """The last value; NaN where the row holds none."""
        return self.points[-1][1] if self.points else math.nan


@dataclass(frozen=True)
class Answer:
    rows: tuple[Row, ...] = ()
    warnings: tuple[str, ...] = ()
    """The data may be incomplete."""
    infos: tuple[str, ...] = field(default=())
    """Remarks on the query itself, which say nothing of missing data."""


def read_document(body: bytes, *, address: str) -> Mapping[str, Any]:
    """The JSON object of an answer.

    Raises:
        EvidenceError: a login page, a cut answer, or anything else that the API does not send.
    """
    start = body[:512].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise EvidenceError(
            f"{address}: answered with a web page instead of JSON: a login page, or a wrong path before /api/v1"
        )
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise EvidenceError(f"{address}: answered with something that is no JSON; is this a metrics server?") from None
    if not isinstance(document, dict) or document.get("status") != "success":
        said = document.get("error") if isinstance(document, dict) else None
        raise EvidenceError(f"{address}: the query failed: {said or 'no status in the answer'}")
    return document


def read_answer(document: Mapping[str, Any], *, address: str) -> Answer:
    """Rows of an instant or range query.

    Raises:
        EvidenceError: a shape that the API does not have.
    """
    warnings, infos = split_warnings(document)
    data = document.get("data")
    flaw = _flaw(data)
    if flaw is None and isinstance(data, dict):
        try:
            if data["resultType"] == "scalar":
                return Answer((Row({}, (_point(data["result"]),)),), warnings, infos)
            return Answer(tuple(_row(raw) for raw in data["result"]), warnings, infos)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            flaw = "a series in it is not made of labels and of pairs of a time and a number"
    raise EvidenceError(f"{address}: the answer has not the form of a query result: {flaw}")


def _flaw(data: Any) -> str | None:
    """What is wrong with the frame of a result, in words."""
    if data is None:
        return "it says success and holds no data"
    if not isinstance(data, dict) or "resultType" not in data:
        return "its data says no result type"
    kind = data["resultType"]
    if kind not in ("scalar", "vector", "matrix"):
        return f"its result type is {str(kind)[:40]!r}, not vector, matrix or scalar"
    if not isinstance(data.get("result"), list):
        return "its result is no list"
    return None


def split_warnings(document: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(warnings about the data, remarks on the query). Partial answers of VictoriaMetrics count as a warning."""
    warnings, infos = _texts(document.get("warnings")), _texts(document.get("infos"))
    infos += [w for w in warnings if w.startswith("PromQL ")]
    warnings = [w for w in warnings if not w.startswith("PromQL ")]
    if document.get("isPartial") is True:
        warnings.append("the answer is partial: storage nodes did not answer")
    return tuple(warnings), tuple(infos)


def _texts(listed: Any) -> list[str]:
    return [str(text) for text in listed] if isinstance(listed, list) else [str(listed)] if listed else []


def _row(raw: Mapping[str, Any]) -> Row:
    labels = {str(k): str(v) for k, v in raw["metric"].items()}
    pairs = raw["values"] if "values" in raw else ([raw["value"]] if "value" in raw else [])
    native = raw["histograms"] if "histograms" in raw else ([raw["histogram"]] if "histogram" in raw else [])
    return Row(labels, tuple(_point(p) for p in pairs), tuple((float(at), dict(h)) for at, h in native))


def _point(pair: Any) -> tuple[float, float]:
    at, value = pair
    return float(at), float(value)
