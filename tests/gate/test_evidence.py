"""What must be there before anything is judged: a gate never passes on nothing."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.cli.ending import worst
from auditor.gate.judge import Judgement
from auditor.model import Report
from tests.gate.making import judge, measured, only, report, subject

GOOD = "premises: [{reading: queue_share, at_most: 10%, on_undecided: warn, level: warn}]"
"""As forgiving as a file can be."""
FINE = measured("queue_share", 0.02, 0.01, 0.03)


def failed(reason: str) -> dict[str, Any]:
    return {
        "address": "http://b:8000/metrics",
        "state": "failed",
        "engine": None,
        "version": None,
        "reason": reason,
        "flags": [],
    }


def gate_of(judgement: Judgement) -> dict[str, Any]:
    assert judgement.report.gate is not None
    return dict(judgement.report.gate)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (report(targets=[failed("connection refused")], coverage=0.0), "connection refused"),
        (report(subject(FINE, flags=["no_traffic"])), "no counter moved"),
        (report(subject(FINE), kind="lifetime"), "--allow-lifetime"),
        (report(subject(FINE), coverage=0.5, targets=[failed("timeout")]), "coverage is 50 %, below 90 %"),
    ],
)
def test_nothing_passes_on_no_evidence_however_forgiving_the_file(found: Report, words: str) -> None:
    result = judge(found, GOOD)
    gate = gate_of(result)
    assert (gate["verdict"], worst(result.codes)) == ("undecided", 3)
    assert words in gate["reasons"][0]
    assert {p["verdict"] for p in gate["premises"]} == {"undecided"}
    assert judge(report(subject(FINE)), GOOD).codes == frozenset()


def test_a_restart_leaves_its_subject_undecided() -> None:
    broken = measured("queue_share", 0.5, 0.4, 0.6)
    found = report(
        subject(broken, flags=["counter_reset"], labels={"engine": "vllm", "model": "a"}),
        subject(FINE, labels={"engine": "vllm", "model": "b"}),
    )
    result = judge(found, "premises: [{reading: queue_share, at_most: 10%}, {belief: engine alive}]")
    assert {(p["name"], p["subject"]["model"]): p["verdict"] for p in gate_of(result)["premises"]} == {
        ("engine alive", "a"): "undecided",
        ("engine alive", "b"): "holds",
        ("queue_share at most 10 %", "a"): "undecided",
        ("queue_share at most 10 %", "b"): "holds",
    }
    assert worst(result.codes) == 3


def test_an_idle_model_among_busy_ones_is_undecided() -> None:
    found = report(
        subject(FINE, flags=["no_traffic"], labels={"engine": "vllm", "model": "a"}),
        subject(FINE, labels={"engine": "vllm", "model": "b"}),
    )
    text = "premises: [{reading: queue_share, at_most: 10%}]"
    assert worst(judge(found, text).codes) == 3
    assert worst(judge(found, "premises: [{reading: queue_share, at_most: 10%, for: {model: b}}]").codes) == 0


@pytest.mark.parametrize("audit", ["engine-liveness", "metrics-integrity"])
def test_what_cannot_be_trusted_makes_the_rest_undecided(audit: str) -> None:
    """A collapse never passes as an improvement, and a page that contradicts itself never breaks a premise."""
    for reading in (FINE, measured("queue_share", 0.5, 0.4, 0.6)):
        found = report(subject(reading, audits={audit: "broken"}))
        unasked = judge(found, "premises: [{reading: queue_share, at_most: 10%}]")
        assert (only(unasked)["verdict"], worst(unasked.codes)) == ("undecided", 3)
        assert audit in only(unasked)["reason"]
        asked = judge(found, f"premises: [{{reading: queue_share, at_most: 10%}}, {{audit: {audit}}}]")
        assert [(p["of"], p["verdict"]) for p in gate_of(asked)["premises"]] == [
            (audit, "broken"),
            ("queue_share", "undecided"),
        ]
        assert worst(asked.codes) == 1
        waived = judge(
            found,
            f"premises: [{{reading: queue_share, at_most: 10%}}, {{audit: {audit}}}]\n"
            f"waivers: [{{premise: {audit}, until: 2027-01-01, reason: known}}]",
        )
        assert worst(waived.codes) == 3  # the waiver forgives the premise, and does not make its numbers usable


def test_a_dead_engine_is_idle_and_broken() -> None:
    found = report(subject(FINE, flags=["no_traffic"], audits={"engine-liveness": "broken"}))
    result = judge(found, "premises: [{belief: engine alive}]")
    assert (only(result)["verdict"], worst(result.codes)) == ("broken", 1)


def test_a_lifetime_page_that_is_allowed() -> None:
    audits = {"engine-liveness": "undecided", "preemption": "undecided", "kv-pool": "undecided",
              "length-truncation": "holds", "request-accounting": "holds", "queueing": "holds"}  # fmt: skip
    found = report(subject(FINE, audits=audits, flags=["lifetime_only"]), kind="lifetime")
    assert worst(judge(found, "extends: strict").codes) == 3
    allowed = judge(found, "extends: strict", allow_lifetime=True)
    assert worst(allowed.codes) == 0
    assert {p["name"] for p in gate_of(allowed)["premises"] if p["verdict"] == "undecided"} == {
        "engine alive", "no preemption", "kv not the limit",
    }  # fmt: skip
    # Written by the user, it is asked for, and one page cannot answer.
    mine = judge(found, "premises: [{belief: engine alive}]", allow_lifetime=True)
    assert worst(mine.codes) == 3


def test_a_preset_that_applies_nowhere_is_no_pass() -> None:
    text = "extends: recommended\npremises:\n" + "".join(
        f"  - {{belief: {b}, level: off}}\n"
        for b in (
            "metrics trustworthy",
            "engine alive",
            "requests accounted",
            "no preemption",
            "no queueing",
            "kv not the limit",
        )
    )
    result = judge(report(subject(audits={"length-truncation": "not_applicable"})), text)
    assert gate_of(result)["premises"] == []
    assert (gate_of(result)["verdict"], worst(result.codes)) == ("undecided", 3)


def test_coverage_at_the_limit_is_enough() -> None:
    assert worst(judge(report(subject(FINE), coverage=0.9), GOOD).codes) == 0
    assert worst(judge(report(subject(FINE), coverage=0.5), GOOD, min_coverage=0.5).codes) == 0


def test_waivers_say_what_they_are() -> None:
    found = report(
        subject(measured("queue_share", 0.5, 0.4, 0.6), audits={"preemption": "holds", "queueing": "broken"})
    )
    text = (
        "premises: [{reading: queue_share, name: q, at_most: 10%}, {audit: preemption}, {audit: queueing}]\n"
        "waivers:\n"
        "  - {premise: q, until: 2026-12-31, reason: more seats}\n"
        "  - {premise: preemption, until: 2026-12-31, reason: r}\n"
        "  - {premise: queueing, until: 2026-11-01, reason: r}\n"
    )
    gate = gate_of(judge(found, text))
    assert {w["premise"]: (w["state"], w["line"]) for w in gate["waivers"]} == {
        "q": ("in_force", 3),
        "preemption": ("not_needed", 4),
        "queueing": ("expired", 5),
    }
    by_name = {p["name"]: p for p in gate["premises"]}
    assert by_name["q"]["verdict"] == "waived"
    assert "more seats" in by_name["q"]["reason"]
    assert by_name["queueing"]["verdict"] == "broken"
