"""Audits of recorded pages, and small pages written for one question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auditor.collect import Inputs, collect
from auditor.model import Options, Report, SubjectReport
from auditor.pipeline import audit_window

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
OPTIONS = Options()


def client_truth(folder: Path) -> dict[str, Any]:
    """What the client of a recorded load saw."""
    truth: dict[str, Any] = json.loads((folder / "client-truth.json").read_text(encoding="utf-8"))
    return truth


def audit_pages(
    *after: Path, before: Path | None = None, seconds: float | None = None, options: Options = OPTIONS
) -> Report:
    """The report of saved pages: a window with ``before``, else lives so far."""
    inputs = Inputs(
        targets=tuple(str(p) for p in after), before=None if before is None else str(before), seconds=seconds
    )
    return audit_window(collect(inputs), options)


def audit_capture(folder: Path, *, seconds: float | None = None, options: Options = OPTIONS) -> SubjectReport:
    """The one subject of a recorded load."""
    report = audit_pages(folder / "after.prom", before=folder / "before.prom", seconds=seconds, options=options)
    (subject,) = report.subjects
    return subject


def write_page(path: Path, samples: Mapping[str, float], *, kinds: Mapping[str, str] | None = None) -> Path:
    """A page with these samples (name with labels -> value) and TYPE lines."""
    lines = [f"# TYPE {name} {kind}" for name, kind in (kinds or {}).items()]
    lines += [f"{name} {value}" for name, value in samples.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def value(subject: SubjectReport, name: str) -> float | None:
    return subject.readings[name].value


def verdicts(subject: SubjectReport) -> dict[str, str]:
    return {v.audit: v.verdict for v in subject.audits}
