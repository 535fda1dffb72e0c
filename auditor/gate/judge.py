"""A report and a premises file: pass, fail or undecided, premise by premise and subject by subject.

The order: is there a window at all, can this subject's numbers be trusted, what does the premise say, is it waived.
Nothing passes on nothing: whatever could not be judged is undecided, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from auditor.gate.amounts import condition_words
from auditor.gate.baselines import Baselines
from auditor.gate.deciding import Outcome, decide_limits, decide_regression, number_of
from auditor.gate.document import Judged, premise_to_json, waiver_to_json, with_blind_flags
from auditor.gate.evidence import COLLAPSE, audit_of, distrust, idle_reason, subject_reason, traffic_of, window_reasons
from auditor.gate.model import Gated, Limits, Names, Premise, PremisesFile, Regression, Waiver
from auditor.gate.presets import FIRST, LIFETIME_BLIND
from auditor.model import Report, SubjectReport

FAILED, UNDECIDED, INTERNAL = 1, 3, 4


@dataclass(frozen=True)
class Terms:
    """What the caller decides about a gate, beside the file."""

    today: date
    min_requests: int = 30
    min_coverage: float = 0.9
    allow_lifetime: bool = False
    baselines: Baselines | None = None


@dataclass(frozen=True)
class Judgement:
    """The gated report, and every exit code that something in it has earned."""

    report: Report
    codes: frozenset[int]


def judge_report(report: Report, premises: PremisesFile, names: Names, terms: Terms) -> Judgement:
    """Judge every premise; the report comes back with its ``gate`` and with the flags that the gate sets."""
    reasons = window_reasons(report, min_coverage=terms.min_coverage, allow_lifetime=terms.allow_lifetime)
    judged: list[Judged] = []
    skipped: list[dict[str, Any]] = []
    for premise in sorted((p for p in premises.premises if p.level != "off"), key=_is_late):
        for item in _judge_premise(report, premise, names, terms, reasons):
            if isinstance(item, Judged):
                judged.append(_waive(item, premises.waivers, terms.today))
            else:
                skipped.append(item)
    if (idle := idle_reason(report)) is not None:
        reasons.append(idle)
    if not judged:
        reasons.append("no premise of the preset applies here; write one under premises:")
    codes = {code for item in judged for code in _codes(item)} | ({UNDECIDED} if reasons else set())
    gate = {
        "verdict": "fail" if FAILED in codes else "undecided" if codes else "pass",
        "premises": [premise_to_json(item) for item in judged],
        "reasons": reasons,
        "skipped": skipped,
        "waivers": [waiver_to_json(w, judged, terms.today) for w in premises.waivers],
        "file": premises.file,
        "extends": premises.extends,
        "min_requests": terms.min_requests,
        "min_coverage": terms.min_coverage,
        "baseline": terms.baselines.source if terms.baselines is not None else None,
    }
    return Judgement(replace(with_blind_flags(report, judged), gate=gate), frozenset(codes))


def _is_late(premise: Premise) -> bool:
    return not (premise.kind == "audit" and premise.of in FIRST)


def _judge_premise(
    report: Report, premise: Premise, names: Names, terms: Terms, reasons: Sequence[str]
) -> Iterator[Judged | dict[str, Any]]:
    expected = _expected(premise, names)
    subjects = [s for s in report.subjects if premise.selects(s.labels)]
    if not subjects:
        why = reasons[0] if reasons and not report.subjects else _no_match(premise, report.subjects)
        yield _judged(premise, {}, "undecided", expected, "nothing", why)
        return
    for subject in subjects:
        yield _judge_subject(report, subject, premise, names, terms, reasons, expected)


def _judge_subject(
    report: Report,
    subject: SubjectReport,
    premise: Premise,
    names: Names,
    terms: Terms,
    reasons: Sequence[str],
    expected: str,
) -> Judged | dict[str, Any]:
    labels = subject.labels
    blocked = reasons[0] if reasons else subject_reason(subject)
    if _is_late(premise):
        blocked = blocked or distrust(subject)
    elif not reasons and blocked and "no_traffic" in subject.flags and "counter_reset" not in subject.flags:
        blocked = None  # a dead engine is idle too: its own audit says which
    if premise.kind == "audit":
        return _judge_audit(report, subject, premise, expected, blocked)
    if premise.kind == "before":
        return _judge_lever(subject, premise, expected, blocked)
    if premise.kind == "claim":
        return _judge_claim(subject, premise, expected, blocked, terms)
    outcome = _judge_reading(subject, premise, names, terms, blocked)
    return _judged(premise, labels, outcome.word, expected, outcome.found, outcome.reason, flags=outcome.flags)


def _judge_audit(
    report: Report, subject: SubjectReport, premise: Premise, expected: str, blocked: str | None
) -> Judged | dict[str, Any]:
    verdict, labels = audit_of(subject, premise.of), subject.labels
    if verdict is None:
        return _judged(premise, labels, "undecided", expected, "nothing", "this report has no such audit")
    if verdict.verdict == "error":
        return _judged(premise, labels, "undecided", expected, "an error", verdict.summary, internal=True)
    if verdict.verdict == "not_applicable" and premise.preset is not None:
        return {"name": premise.name, "subject": dict(labels), "reason": verdict.summary}
    if blocked:
        return _judged(premise, labels, "undecided", expected, verdict.found, blocked)
    if verdict.verdict == "holds" or verdict.verdict == "broken":
        return _judged(premise, labels, verdict.verdict, verdict.expected, verdict.found, next=verdict.next)
    why = verdict.summary if verdict.verdict == "undecided" else f"it does not apply here: {verdict.summary}"
    # Asked for --allow-lifetime, a preset must not ask for what one page can never tell.
    is_lenient = report.window.get("kind") == "lifetime" and premise.preset is not None and premise.of in LIFETIME_BLIND
    return _judged(
        premise, labels, "undecided", verdict.expected, verdict.found, why, next=verdict.next, counts=not is_lenient
    )


def _judge_reading(
    subject: SubjectReport, premise: Premise, names: Names, terms: Terms, blocked: str | None
) -> Outcome:
    reading = subject.readings.get(premise.of)
    name = names.readings[premise.of]
    if reading is None:
        return Outcome("undecided", "nothing", "this report has no such reading")
    traffic = traffic_of(subject)
    if isinstance(premise.condition, Limits):
        outcome = decide_limits(
            reading, name, premise.condition, premise.at, min_requests=terms.min_requests, traffic=traffic
        )
    else:
        outcome = _judge_regression(subject, premise, names, terms)
    return replace(outcome, word="undecided", reason=blocked) if blocked else outcome


def _judge_regression(subject: SubjectReport, premise: Premise, names: Names, terms: Terms) -> Outcome:
    assert isinstance(premise.condition, Regression)
    reading, name = subject.readings[premise.of], names.readings[premise.of]
    if terms.baselines is None:
        found = number_of(reading, premise.at)
        words = "a value" if not isinstance(found, str) else "nothing"
        return Outcome("undecided", words, "no baseline was given: --baseline report.json")
    baseline = terms.baselines.baseline_of(premise.of, subject.labels, premise.at)
    outcome = decide_regression(
        reading, name, premise.condition, premise.at, baseline,
        min_requests=terms.min_requests, traffic=traffic_of(subject),
    )  # fmt: skip
    if outcome.word == "holds" and (fallen := _collapse(subject, premise, terms.baselines)) is not None:
        return replace(outcome, word="undecided", reason=fallen)
    return outcome


def _collapse(subject: SubjectReport, premise: Premise, baselines: Baselines) -> str | None:
    """Traffic that fell to less than half: what got better may have got better because nobody asked."""
    for name in ("generation_tokens_per_wall_second", "finished_requests"):
        now = subject.readings.get(name)
        before = baselines.baseline_of(name, subject.labels, None).value
        if now is None or now.value is None or before is None or before <= 0 or name == premise.of:
            continue
        if now.value < COLLAPSE * before:
            fall = (1 - now.value / before) * 100
            return (
                f"{name} fell {fall:.0f} % against the baseline: with so little traffic an improvement proves nothing"
            )
        return None
    return None


def _judge_lever(subject: SubjectReport, premise: Premise, expected: str, blocked: str | None) -> Judged:
    lever = next((v for v in subject.levers if v.lever == premise.of), None)
    if lever is None:
        return _judged(premise, subject.labels, "undecided", expected, "nothing", "this report has no such lever")
    words = lever.verdict.replace("_", " ")
    if blocked:
        return _judged(premise, subject.labels, "undecided", expected, words, blocked)
    word: Gated = {"worth_a_test": "holds", "not_worth_a_test": "broken"}.get(lever.verdict, "undecided")  # type: ignore[assignment]
    why = (lever.reason or lever.summary or words) if word == "undecided" else None
    steps = (lever.settles,) if lever.settles else ()
    return _judged(premise, subject.labels, word, expected, f"{words}: {lever.summary}", why, next=steps)


def _judge_claim(subject: SubjectReport, premise: Premise, expected: str, blocked: str | None, terms: Terms) -> Judged:
    claim = next((c for c in subject.claims if c.claim == premise.of and c.value == premise.claimed), None)
    if claim is None:
        return _judged(premise, subject.labels, "undecided", expected, "nothing", "this report did not check the claim")
    if blocked:
        return _judged(premise, subject.labels, "undecided", expected, claim.summary, blocked)
    traffic = traffic_of(subject) or 0.0
    if traffic < terms.min_requests:
        why = f"{traffic:,.0f} requests in the window, {terms.min_requests} needed"
        return _judged(premise, subject.labels, "undecided", expected, claim.summary, why)
    words: Mapping[bool | None, Gated] = {True: "holds", False: "broken", None: "undecided"}
    word = words[claim.is_what_it_says]
    return _judged(
        premise, subject.labels, word, expected, claim.summary, claim.summary if word == "undecided" else None
    )


# --------------------------------------------------------------------------- putting together


def _judged(
    premise: Premise,
    labels: Mapping[str, str | None],
    verdict: Gated,
    expected: str,
    found: str,
    reason: str | None = None,
    *,
    flags: tuple[str, ...] = (),
    next: tuple[str, ...] = (),
    counts: bool = True,
    internal: bool = False,
) -> Judged:
    counts = counts and premise.level == "error" and not (verdict == "undecided" and premise.on_undecided == "warn")
    return Judged(premise, dict(labels), verdict, expected, found, reason, flags, next, counts, internal)


def _waive(item: Judged, waivers: Iterable[Waiver], today: date) -> Judged:
    """A waiver in force hides what is broken or undecided; it never hides a fault of ours."""
    waiver = next((w for w in waivers if w.premise == item.premise.name), None)
    if waiver is None:
        return item
    if waiver.is_expired(today) or item.verdict == "holds" or item.internal:
        return replace(item, waiver=waiver)
    why = f"waived until {waiver.until}: {waiver.reason}"
    return replace(
        item, verdict="waived", reason=f"{why} ({item.verdict}{f': {item.reason}' if item.reason else ''})",
        counts=False, waiver=waiver,
    )  # fmt: skip


def _codes(item: Judged) -> Iterator[int]:
    if item.internal:
        yield INTERNAL
    elif item.counts and item.verdict == "broken":
        yield FAILED
    elif item.counts and item.verdict == "undecided":
        yield UNDECIDED


def _expected(premise: Premise, names: Names) -> str:
    if premise.kind == "reading":
        assert premise.condition is not None
        place = f"{premise.at} " if premise.at not in (None, "mean") else ""
        return place + condition_words(premise.condition, names.readings[premise.of])
    if premise.kind == "before":
        return f"{premise.of} is worth a test"
    if premise.kind == "claim":
        return f"{premise.of} {premise.claimed:g} is what its name says, within 10 %"
    return f"{premise.of} holds"


def _no_match(premise: Premise, subjects: Sequence[SubjectReport]) -> str:
    wanted = ", ".join(f"{key} {pattern}" for key, pattern in premise.selector.items())
    unknown = [k for k in premise.selector if subjects and all(k not in s.labels for s in subjects)]
    if unknown:
        how = "rank" if "rank" in unknown else "target" if "target" in unknown else "model"
        return f"no subject has the label {unknown[0]} here: use --by {how}"
    there = ", ".join(sorted({str(s.labels.get(k)) for s in subjects for k in premise.selector}))
    return f"no subject matches {wanted}; there is {there}"
