"""collect -> read -> audit -> levers -> report, on one screen each; one bad target or audit sinks nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from auditor import __version__
from auditor.audits import load_audits
from auditor.levers import load_levers
from auditor.measures.claims import check_claims
from auditor.measures.course import course_of
from auditor.measures.engine_facts import engine_facts
from auditor.measures.flags import find_flags
from auditor.measures.fleet import compare_engines
from auditor.measures.identities import identities, running_at_both_ends
from auditor.measures.parts import group_parts, part_summary
from auditor.measures.readings import READINGS
from auditor.measures.readings.distributions import slo_share
from auditor.measures.readings.prompt_work import external_kv_share
from auditor.measures.reduce import reduce_target
from auditor.measures.roles import join_pair
from auditor.measures.settings import page_settings, resolve_settings
from auditor.measures.subject import Subject, WindowFacts
from auditor.measures.vocabulary import Engine, Vocabulary, load_vocabulary
from auditor.model import (
    Options,
    Part,
    Readings,
    Report,
    Setting,
    SubjectReport,
    TargetWindow,
    Verdict,
    Window,
    utc_text,
)

TOOL = f"premise-auditor {__version__}"
GONE_AFTER_STEPS = 4
"""Scrape intervals without a sample at the end of a range after which a target was no longer there."""


def audit_window(
    window: Window,
    options: Options,
    *,
    settings: Mapping[str, Setting] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Report:
    """Audit a window: pure, so the same window and options give the same report."""
    vocabulary = vocabulary or load_vocabulary()
    given = {**window.settings, **(settings or {})}
    subjects = tuple(
        report_subject(s, options) for s in build_subjects(window, options, settings=given, vocabulary=vocabulary)
    )
    courses = [s.course for s in subjects if s.course is not None]
    report = Report(
        window=_window_json(window),
        targets=tuple(_target_json(t) for t in window.targets),
        subjects=subjects,
        tool=TOOL,
        course=courses[0] if len(courses) == 1 else None,
        fleet=compare_engines(subjects, vocabulary),
    )
    return report.with_exit_code(0 if any(_was_measured(s) for s in subjects) else 3)


def build_subjects(
    window: Window,
    options: Options,
    *,
    settings: Mapping[str, Setting] | None = None,
    vocabulary: Vocabulary | None = None,
) -> list[Subject]:
    """Reduce a window and add its parts up to subjects, in a fixed order."""
    vocabulary = vocabulary or load_vocabulary()
    parts: list[Part] = []
    forms: dict[str, str] = {}
    for target in window.targets:
        if target.state == "measured" and target.engine is not None:
            found = reduce_target(target, vocabulary.engine(target.engine))
            parts += [replace(p, gone=1) for p in found] if _is_gone(target, window) else found
            forms[target.address] = target.form
    groups = group_parts(parts, options.by)
    return [
        _subject(dict(labels), members, forms, window, options, settings or {}, vocabulary)
        for labels, members in sorted(groups.items(), key=lambda item: [str(v or "") for _, v in item[0]])
    ]


def _is_gone(target: TargetWindow, window: Window) -> bool:
    """Raw samples of a target that end well before the others do."""
    last = target.times[-1] if target.times else None
    if window.kind != "range" or target.parts or last is None or window.end is None or not window.step_seconds:
        return False
    return last < window.end - GONE_AFTER_STEPS * window.step_seconds


def _subject(
    labels: Mapping[str, str | None],
    parts: Sequence[Part],
    forms: Mapping[str, str],
    window: Window,
    options: Options,
    given: Mapping[str, Setting],
    vocabulary: Vocabulary,
) -> Subject:
    engine = vocabulary.engine(parts[0].engine)
    parts, joined = join_pair(parts, engine)
    boot_log = {k: s for k, s in given.items() if s.source.startswith("boot log")}
    explicit = {k: s for k, s in given.items() if k not in boot_log}
    settings, disagreements = resolve_settings(page_settings(parts, engine), boot_log, explicit)
    facts = WindowFacts(
        kind=window.kind,
        seconds=window.seconds,
        start=window.start,
        end=window.end,
        coverage=window.coverage,
        estimated=window.kind == "range" and not any(t.series for t in window.targets),
        step_seconds=window.step_seconds,
        partial_response=window.partial_response,
        facts=window.facts,
    )
    form = forms.get(parts[0].target, engine.prefix)
    subject = Subject(
        labels=labels,
        engine=engine,
        form=form,
        parts=tuple(parts),
        window=facts,
        options=options,
        settings=settings,
        slices=_slices(labels, parts, engine, form, window, options, settings),
        restarted=any(p.restarts for p in parts),
    )
    subject.disagreements = tuple(disagreements)
    subject.joined = joined
    return subject


def _slices(
    labels: Mapping[str, str | None],
    parts: Sequence[Part],
    engine: Engine,
    form: str,
    window: Window,
    options: Options,
    settings: Mapping[str, Setting],
) -> tuple[Subject, ...]:
    """The subject between neighbouring scrapes, where all its parts were scraped equally often."""
    pooled = [p for p in parts if p.pooled]
    counts = {len(p.slices) for p in pooled or [p for p in parts if p.rank is not None or len(parts) == 1]} or {0}
    count = counts.pop()
    if counts or count < 2:
        return ()
    out = []
    for i in range(count):
        members = tuple(
            replace(
                p,
                quantities=p.slices[i].quantities,
                slices=(),
                restarts=int(p.slices[i].restarted),
                doubles={},
            )
            for p in parts
            if len(p.slices) == count
        )
        first = next(p for p in parts if len(p.slices) == count)
        start, end = first.slices[i].start, first.slices[i].end
        seconds = end - start if start is not None and end is not None else None
        facts = WindowFacts(kind="scrapes", seconds=seconds, start=start, end=end)
        out.append(Subject(labels, engine, form, members, facts, options, settings))
    return tuple(out)


def report_subject(subject: Subject, options: Options) -> SubjectReport:
    """Readings, flags, verdicts, levers and claims of one subject."""
    readings = read_subject(subject, options)
    verdicts = tuple(run_audit(name, readings, options) for name in load_audits())
    levers = tuple(lever(readings, options) for lever in load_levers().values())
    parts: tuple[Mapping[str, Any], ...] = ()
    engines = [e for e in subject.engines() if e.parts[0].rank is not None or len(subject.parts) == 1]
    if len(engines) > 1:
        parts = tuple(part_summary(e) for e in engines)
    return SubjectReport(
        labels=subject.labels,
        flags=readings.flags,
        settings=readings.settings,
        readings=readings.values,
        audits=verdicts,
        levers=levers,
        claims=check_claims(readings, options.claims),
        parts=parts,
        facts=readings.facts,
        course=course_of(subject),
    )


def read_subject(subject: Subject, options: Options) -> Readings:
    """All readings and flags of a subject."""
    values = {name: subject.read(name) for name in READINGS}
    for name, limit in options.slo.items():
        share = slo_share(subject, name, limit)
        values[share.name] = share
    flags = find_flags(subject)
    facts: dict[str, Any] = dict(flags)
    if subject.disagreements:
        facts["settings_disagree"] = list(subject.disagreements)
    facts["requests_running_at_both_ends"] = running_at_both_ends(subject)
    facts["identities"] = identities(subject)
    facts.update(engine_facts(subject))
    for name in ("boot_effects", "tested_settings"):
        if subject.window.facts.get(name):
            facts[name] = subject.window.facts[name]
    logs = [dict(p.log.figures) for p in subject.parts if p.log is not None]
    if logs:
        facts["log"] = logs
    if subject.has("prompt_tokens_by_source"):
        facts["external_kv_share"] = external_kv_share(subject)
    return Readings(
        labels=subject.labels,
        window_kind=subject.window.kind,
        values=values,
        flags=tuple(flags),
        settings=subject.settings,
        facts=facts,
    )


def run_audit(name: str, readings: Readings, options: Options) -> Verdict:
    """One audit; a fault of ours in it is a verdict ``error``, not the end of the report."""
    module = load_audits()[name]
    try:
        return module.audit(readings, options)
    except Exception as fault:  # noqa: BLE001  (one broken audit must not take the others with it)
        return Verdict(
            audit=name,
            premise=getattr(module, "PREMISE", name),
            question=module.QUESTION,
            verdict="error",
            severity="problem",
            summary=f"this audit failed: {type(fault).__name__}: {fault}",
            expected="",
            found="",
        )


def _was_measured(subject: SubjectReport) -> bool:
    return "no_traffic" not in subject.flags


def _window_json(window: Window) -> dict[str, Any]:
    return {
        "kind": window.kind,
        "start": utc_text(window.start),
        "end": utc_text(window.end),
        "seconds": window.seconds,
        "coverage": window.coverage,
        "restarts": window.restarts,
        "warnings": list(window.warnings),
        "source": window.source,
    }


def _target_json(target: TargetWindow) -> dict[str, Any]:
    return {
        "address": target.address,
        "state": target.state,
        "engine": target.engine,
        "version": target.version,
        "reason": target.reason,
        "flags": list(target_flags(target)),
    }


def target_flags(target: TargetWindow) -> tuple[str, ...]:
    """Flags of a target that has no subject to carry them."""
    if target.state == "not_one_process":
        return ("not_one_process",)
    if target.state == "not_an_engine" and target.engine is None:
        return ("no_engine_metrics",)
    return ()
