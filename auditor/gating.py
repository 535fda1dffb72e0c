"""The gate's way through the rooms: names from the registries, claims of the file, a window, a judged report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.audits import load_audits
from auditor.compare.confounders import same_report
from auditor.gate.baselines import Baseline, Baselines, ReportBaselines
from auditor.gate.judge import Judgement, Terms, judge_report
from auditor.gate.model import Names, PremisesFile, ReadingName
from auditor.gate.noise import SIGMAS
from auditor.gate.reader import describe_claims
from auditor.levers import load_levers
from auditor.measures.claims import CLAIMS, check_claims
from auditor.measures.readings import READINGS, Declared
from auditor.model import EvidenceError, Options, Readings, Report, Setting, SubjectReport, UsageError, Window
from auditor.pipeline import audit_window
from auditor.sources.files import read_file

if TYPE_CHECKING:
    from auditor.history.gate_baseline import StoreBaseline
    from auditor.history.series import Point

RATIOS_OF_THE_POOL = frozenset({"preemptions_per_request", "waiting_deferred_share"})


def known_names() -> Names:
    """Every reading, audit, lever and claim that this program has."""
    return Names(
        readings={d.name: _reading_name(d) for d in READINGS.values()},
        audits=tuple(load_audits()),
        levers=tuple(load_levers()),
        claims={name: kind.right for name, kind in CLAIMS.items()},
    )


def _reading_name(d: Declared) -> ReadingName:
    return ReadingName(d.name, d.unit, d.distribution, d.better, is_total=_is_total(d), is_net=d.is_net)


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
    if isinstance(terms.baselines, HistoryBaselines):
        terms = replace(terms, baselines=replace(terms.baselines, tonight=report))
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
    documents: list[Mapping[str, Any]] = []
    for path in paths:
        document = _read_report(path)
        # A report given twice is no repeat: its spread of nothing would make any change one beyond noise.
        if not any(same_report(document, other) for other in documents):
            documents.append(document)
    return ReportBaselines(tuple(documents), ", ".join(Path(p).name for p in paths), min_requests)


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


@dataclass(frozen=True)
class HistoryBaselines:
    """The history of nightly runs: the median of nights that are like tonight, and their band as the noise."""

    store: StoreBaseline
    source: str
    tonight: Report | None = None
    """The report that the nights must be like: kind and length of window, traffic."""

    def baseline_of(self, reading: str, subject: Mapping[str, str | None], at: str | None = None) -> Baseline:
        from auditor.history.baseline import NoBaseline

        found = self.store.find(reading, subject, at=at, tonight=self._point(reading, subject))
        if isinstance(found, NoBaseline):
            return Baseline(None, runs=found.nights, reason=found.reason)
        if found.median <= 0:
            return Baseline(found.median, found.low, found.high, runs=found.nights)
        # The band is what a quiet night stays within; a change is seen beyond SIGMAS of the noise of one run.
        half = max(found.high / found.median - 1, 1 - found.low / found.median)
        return Baseline(found.median, found.low, found.high, noise=half / SIGMAS, runs=found.nights)

    def _point(self, reading: str, labels: Mapping[str, str | None]) -> Point | None:
        from auditor.history.series import Point

        if self.tonight is None:
            return None
        subject = next((s for s in self.tonight.subjects if dict(s.labels) == dict(labels)), None)
        if subject is None or reading not in subject.readings:
            return None
        now, seconds = subject.readings[reading], self.tonight.window.get("seconds")
        done = subject.readings["finished_requests"].value if "finished_requests" in subject.readings else None
        traffic = done / seconds if done is not None and seconds else done
        return Point(
            0.0, self.tonight.window["kind"], now.state, now.value, now.low, now.high, now.count,
            seconds=seconds, traffic=traffic,
        )  # fmt: skip


def open_history(path: str) -> HistoryBaselines:
    """Baselines from the history of nightly runs.

    Raises:
        UsageError: there is no such file.
        OutputError: it cannot be read.
    """
    from auditor.history.gate_baseline import open_baseline

    return HistoryBaselines(open_baseline(path), Path(path).name)
