"""The gate's way through the rooms: names from the registries, claims of the file, a window, a judged report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.audits import load_audits
from auditor.gate.baselines import Baselines, ReportBaselines
from auditor.gate.judge import Judgement, Terms, judge_report
from auditor.gate.model import Names, PremisesFile, ReadingName
from auditor.gate.reader import describe_claims
from auditor.levers import load_levers
from auditor.measures.claims import CLAIMS, check_claims
from auditor.measures.readings import READINGS, Declared
from auditor.model import EvidenceError, Options, Readings, Report, Setting, SubjectReport, UsageError, Window
from auditor.pipeline import audit_window
from auditor.sources.files import read_file

RATIOS_OF_THE_POOL = frozenset({"preemptions_per_request", "waiting_deferred_share"})
LARGEST_REPORT = 64 * 2**20


def known_names() -> Names:
    """Every reading, audit, lever and claim that this program has."""
    return Names(
        readings={d.name: _reading_name(d) for d in READINGS.values()},
        audits=tuple(load_audits()),
        levers=tuple(load_levers()),
        claims={name: kind.right for name, kind in CLAIMS.items()},
    )


def _reading_name(d: Declared) -> ReadingName:
    return ReadingName(d.name, d.unit, d.distribution, d.better, is_total=_is_total(d))


def _is_total(d: Declared) -> bool:
    """Counts, rates over the wall clock and states of the engine: all that is no share or mean of events."""
    if d.theme == "pool":
        return d.name not in RATIOS_OF_THE_POOL
    if d.distribution or d.unit == "ratio" or d.name.startswith("mean_"):
        return False
    return "_per_" not in d.name or d.name.endswith("_per_wall_second") or d.name.startswith("achieved_")


def gate_window(
    window: Window,
    premises: PremisesFile,
    options: Options,
    terms: Terms,
    *,
    names: Names | None = None,
    settings: Mapping[str, Setting] | None = None,
) -> Judgement:
    """Audit a window and judge the premises of a file."""
    options = replace(options, claims={**describe_claims(premises), **options.claims})
    report = audit_window(window, options, settings=settings)
    return judge_report(_with_claims(report, premises), premises, names or known_names(), terms)


def _with_claims(report: Report, premises: PremisesFile) -> Report:
    """Also check the file's claims that the options could not carry: one name claimed twice."""
    wanted = [(p.of, p.claimed) for p in premises.premises if p.kind == "claim" and p.claimed is not None]
    return replace(report, subjects=tuple(_with_subject_claims(s, wanted) for s in report.subjects))


def _with_subject_claims(subject: SubjectReport, wanted: Sequence[tuple[str, float]]) -> SubjectReport:
    checked = {(c.claim, c.value) for c in subject.claims}
    readings = Readings(subject.labels, "scrapes", subject.readings, subject.flags, subject.settings)
    more = [c for pair in dict.fromkeys(wanted) if pair not in checked for c in check_claims(readings, dict([pair]))]
    return replace(subject, claims=(*subject.claims, *more)) if more else subject


def read_baselines(paths: Sequence[str], *, min_requests: int) -> Baselines:
    """Baselines from saved JSON reports; several are repeats of one thing.

    Raises:
        UsageError: a file that is not there, or is another kind of document.
        EvidenceError: a file that is no report.
    """
    documents = tuple(_read_report(path) for path in paths)
    return ReportBaselines(documents, ", ".join(Path(p).name for p in paths), min_requests)


def _read_report(path: str) -> Mapping[str, Any]:
    import json

    try:
        document = json.loads(read_file(path))
    except (ValueError, RecursionError):
        raise EvidenceError(f"{path}: is no JSON report") from None
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise EvidenceError(f"{path}: is no report of ours")
    if document["kind"] != "audit":
        raise UsageError(
            f"{path}: is a saved {document['kind']}, not a report; make one with auditor audit ... --output json={path}"
        )
    subjects = document.get("subjects")
    if not isinstance(subjects, list) or not all(isinstance(s, dict) for s in subjects):
        raise EvidenceError(f"{path}: is no report of ours")
    return document


def open_history(path: str) -> Baselines:
    """Baselines from the history of nightly runs.

    Raises:
        UsageError: this release has no history, or the file is not there.
    """
    try:
        from auditor.history import baselines  # type: ignore[attr-defined]
    except ImportError:
        raise UsageError("--store: this release cannot read a history; give --baseline report.json") from None
    found: Baselines = baselines.open_baselines(path)
    return found
