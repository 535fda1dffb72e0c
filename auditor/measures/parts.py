"""Parts of a window sorted into subjects, and what a report shows of each part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from auditor.measures.subject import Subject
from auditor.model import Part


def group_parts(parts: Iterable[Part], by: str) -> dict[tuple[tuple[str, str | None], ...], list[Part]]:
    """Sort parts into subjects: ``model`` (default), ``rank`` (one engine), ``target`` or ``all``."""
    groups: dict[tuple[tuple[str, str | None], ...], list[Part]] = {}
    for p in parts:
        labels: list[tuple[str, str | None]] = [("engine", p.engine)]
        if by in ("model", "rank"):
            labels.append(("model", p.model))
        if by in ("rank", "target"):
            labels.append(("target", p.target))
        if by == "rank":
            labels.append(("rank", p.rank))
        groups.setdefault(tuple(labels), []).append(p)
    return groups


def part_summary(engine_subject: Subject) -> dict[str, Any]:
    """The four readings that a report shows of each part."""
    names = ("finished_requests", "prompt_tokens", "running_requests", "kv_usage")
    part = engine_subject.parts[0]
    return {
        "labels": {"target": part.target, "model": part.model, "rank": part.rank},
        "readings": {name: engine_subject.read(name).to_json() for name in names},
    }
