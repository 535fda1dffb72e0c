"""Small hand-made reports and files for the tests of the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from auditor.gate.judge import Judgement, Terms, judge_report
from auditor.gate.model import Names, PremisesFile, ReadingName
from auditor.gate.reader import parse_premises
from auditor.model import Lever, Reading, Report, SubjectReport, Verdict

TODAY = date(2026, 12, 1)

NAMES = Names(
    readings={
        r.name: r
        for r in (
            ReadingName("length_share", "ratio", better="lower"),
            ReadingName("queue_share", "ratio", better="lower"),
            ReadingName("prefill_share", "ratio"),
            ReadingName("naive_rate_error", "ratio"),
            ReadingName("ttft_seconds", "seconds", distribution=True, better="lower"),
            ReadingName("prefill_ms_per_computed_token", "milliseconds"),
            ReadingName("prompt_length_tokens", "tokens", distribution=True),
            ReadingName("preemptions_per_request", "preemptions per request", better="lower"),
            ReadingName("finished_requests", "requests", is_total=True),
            ReadingName("kv_usage", "ratio", is_total=True),
            ReadingName("generation_tokens_per_wall_second", "tokens per second", better="higher", is_total=True),
            ReadingName("computed_tokens_per_prefill_request_second", "tokens per second"),
        )
    },
    audits=("time-split", "length-truncation", "prefix-cache", "queueing", "kv-pool", "preemption", "engine-liveness",
            "metrics-integrity", "request-accounting"),
    levers=("batched-tokens", "output-tokens"),
    claims={"prefill_rate": "computed_tokens_per_prefill_request_second", "prefill_share": "prefill_share"},
)  # fmt: skip


def measured(name: str, value: float, low: float | None = None, high: float | None = None, count: float | None = 400.0,
             **extra: Any) -> Reading:  # fmt: skip
    return Reading(name, "measured", NAMES.readings[name].unit, value, low, high, count, extra=extra)


def verdict(audit: str, word: str, summary: str = "because") -> Verdict:
    return Verdict(audit, "a premise", "A question?", word, "info", summary, "what is expected", "what is found")  # type: ignore[arg-type]


def subject(
    *readings: Reading,
    labels: Mapping[str, str | None] | None = None,
    flags: Sequence[str] = (),
    audits: Mapping[str, str] | None = None,
    levers: Sequence[Lever] = (),
    requests: float | None = 400.0,
) -> SubjectReport:
    """A subject that saw ``requests`` finished requests."""
    listed = {r.name: r for r in readings}
    if requests is not None and "finished_requests" not in listed:
        listed["finished_requests"] = measured("finished_requests", requests, count=requests)
    words = {"metrics-integrity": "holds", "engine-liveness": "holds", **(audits or {})}
    return SubjectReport(
        labels=dict(labels or {"engine": "vllm", "model": "m"}),
        flags=tuple(flags),
        settings={},
        readings=listed,
        audits=tuple(verdict(name, word) for name, word in words.items()),
        levers=tuple(levers),
    )


def report(*subjects: SubjectReport, kind: str = "scrapes", coverage: float = 1.0,
           targets: Sequence[Mapping[str, Any]] | None = None) -> Report:  # fmt: skip
    measured_target: dict[str, Any] = {
        "address": "http://a:8000/metrics", "state": "measured", "engine": "vllm", "version": None, "reason": None,
        "flags": [],
    }  # fmt: skip
    return Report(
        window={"kind": kind, "start": None, "end": None, "seconds": 60.0, "coverage": coverage, "restarts": 0,
                "warnings": [], "source": "t0.prom -> t1.prom"},
        targets=tuple(targets if targets is not None else [measured_target]),
        subjects=tuple(subjects),
        tool="premise-auditor test",
    )  # fmt: skip


def parse(text: str, names: Names = NAMES) -> PremisesFile:
    return parse_premises(text, file="premises.yaml", names=names)


def judge(found: Report, text: str, **terms: Any) -> Judgement:
    return judge_report(found, parse(text), NAMES, replace(Terms(today=TODAY), **terms))


def only(judgement: Judgement) -> Mapping[str, Any]:
    """The single judged premise."""
    assert judgement.report.gate is not None
    (premise,) = judgement.report.gate["premises"]
    assert isinstance(premise, dict)
    return premise
