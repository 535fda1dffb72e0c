"""Engines side by side: only the readings that all of them export, and with one meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.measures.readings import READINGS
from auditor.measures.vocabulary import Vocabulary
from auditor.model import HAS_VALUE, SubjectReport

STATES_OF_A_MOMENT = ("pool",)
"""Themes of levels at a scrape: beside each other they compare two moments, not two engines."""


def compare_engines(subjects: Sequence[SubjectReport], vocabulary: Vocabulary) -> dict[str, Any] | None:
    """Readings of a fleet of several engines that can stand in one row; None where one engine serves all.

    ``readings`` maps a name to one value a subject, in the order of ``subjects``; ``left_out`` says for each reading
    that more than one of them has a figure of why it is not compared.
    """
    engines = sorted({str(s.labels["engine"]) for s in subjects})
    if len(engines) < 2:
        return None
    rows: dict[str, list[float | None]] = {}
    left_out: dict[str, str] = {}
    for name, declared in READINGS.items():
        readings = [s.readings[name] for s in subjects]
        told = [r for r in readings if r.state in HAS_VALUE or r.state == "bounded"]
        if declared.theme in STATES_OF_A_MOMENT or len(told) < 2:
            continue
        differs = [
            f"{vocabulary.engine(e).title}: {how}"
            for e in engines
            if (how := vocabulary.engine(e).differs.get(name)) is not None
        ]
        if differs:
            left_out[name] = "; ".join(differs)
        elif all(r.state in HAS_VALUE for r in readings):
            rows[name] = [r.value for r in readings]
        else:
            left_out[name] = "not a value everywhere"
    return {
        "engines": engines,
        "subjects": [_labels(s.labels) for s in subjects],
        "readings": rows,
        "units": {name: READINGS[name].unit for name in rows},
        "left_out": left_out,
    }


def _labels(labels: Mapping[str, str | None]) -> dict[str, str | None]:
    return dict(labels)
