"""Report documents for the tests of outputs: a plain one, a gated one, and one whose labels mean harm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from auditor.model import Lever, Reading, Report, Setting, SubjectReport, Verdict
from tests.gate.making import judge, measured, subject
from tests.gate.making import report as made_report

HOSTILE = (
    "a|b`c`<script>alert(1)</script>]]>\"'&amp;%0A::error::x\n::stop-commands::t\r\x1b[31m\x00\u202e\u2028"
    "*_[link](http://evil.example) @everyone {x} \\ \ud800 \uffff"
)


def audited(model: str = "m") -> Report:
    """Two audits that decide, one that does not, a lever, a reading of each sort; a range with an end."""
    made = subject(
        measured("queue_share", 0.5, 0.4, 0.6),
        Reading("length_share", "no_traffic", "ratio", reason=f"nothing finished {model}"),
        Reading("prefill_share", "bounded", "ratio", None, 0.2, None, 400.0, reason="limits only"),
        Reading("decode_share", "no_traffic", "ratio", reason="nothing finished"),
        labels={"engine": "vllm", "model": model},
        flags=["aborts_not_exported"],
        levers=[Lever("batched-tokens", "undecided", f"sum {model}", (1.1, None), reason="open")],
    )
    verdicts = (
        Verdict("queueing", f"no wait {model}", "Do requests wait?", "broken", "warning", f"half {model}",
                "at most 0.1", "0.5", next=(f"more seats {model}",)),
        Verdict("preemption", "none preempted", "Preempted?", "undecided", "info", "too few", "at most 0.01", "none"),
        Verdict("role", "whole service", "Whole?", "not_applicable", "info", "no such series", "", ""),
        *made.audits,
    )  # fmt: skip
    full: SubjectReport = replace(
        made,
        audits=verdicts,
        settings={"budget": Setting(8192.0, "flag")},
        facts={"aborts_not_exported": f"so {model}"},
    )
    found = made_report(full)
    window = {
        **found.window,
        "end": "2026-11-29T19:24:20.500Z",
        "source": f"from {model}",
        "warnings": [f"warned {model}"],
    }
    bad: dict[str, Any] = {
        "address": f"http://{model}",
        "state": "failed",
        "engine": None,
        "version": None,
        "reason": f"no {model}",
        "flags": [],
    }
    return replace(found, window=window, targets=(*found.targets, bad))


def gated(model: str = "m") -> Mapping[str, Any]:
    """A premise that breaks, one undecided, one a warning, one waived, two that hold; a waiver that is over."""
    text = (
        "premises:\n"
        "  - {reading: queue_share, name: waits, at_most: 10%}\n"
        "  - {reading: length_share, name: answers, at_most: 10%}\n"
        "  - {reading: queue_share, name: soft, at_most: 10%, level: warn}\n"
        "  - {reading: queue_share, name: known, at_most: 10%}\n"
        "  - {reading: queue_share, name: old, at_most: 10%}\n"
        "  - {audit: engine-liveness}\n"
        "  - {audit: metrics-integrity}\n"
        "waivers:\n"
        "  - {premise: known, until: 2027-01-31, reason: more seats}\n"
        "  - {premise: old, until: 2026-01-31, reason: more seats}\n"
    )
    result = judge(audited(model), text)
    gate = dict(result.report.gate or {})
    gate["premises"] = [{**p, "name": f"{p['name']} {model}" if model != "m" else p["name"]} for p in gate["premises"]]
    return replace(result.report, gate=gate).with_exit_code(1).to_json()
