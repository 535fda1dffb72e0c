"""Every capture of a real vLLM server against every audit: the table an operator would look at, reviewed by hand.

What the captures are is told in fixtures/vllm/README.md. Y holds, N broken, ? undecided, - not applicable. A change in
this table is a change in what people are told: look at the row before you change it.

Why some rows are as they are:
- kv-pool is ? in all short captures: both pages were read idle, so their gauges describe no load. l-series saw load.
- b and c to h ask for at most a few tokens and get them all: a benchmark, so length-truncation asks instead of judging.
- c is ? in time-split and queueing: 40 requests, a few of which carry the share.
- m, n, p, q-engine-abort and boot 2 of f have fewer than 30 requests; only facts are judged there.
- i: 15 of 60 clients hung up after their first token. q-engine-abort: inference above end-to-end time.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.collect import Inputs, collect
from auditor.model import Options, Report, Setting, SubjectReport
from auditor.pipeline import audit_window

VLLM = Path(__file__).parents[2] / "fixtures" / "vllm"
WORDS = {"holds": "Y", "broken": "N", "undecided": "?", "not_applicable": "-"}
COLUMNS = (
    "length-truncation", "prefix-cache", "time-split", "queueing", "kv-pool", "preemption", "speculation",
    "request-accounting", "engine-liveness", "metrics-integrity", "role",
)  # fmt: skip
# Two pages:                            len pre tim que kv  pmt spe acc liv int rol
TABLE = {
    "0.11.0/a-decode-heavy":             "N   N   N   Y   ?   Y   -   Y   Y   Y   -",
    "0.11.0/b-prefill-heavy":            "?   N   Y   N   ?   Y   -   Y   Y   Y   -",
    "0.11.0/c-shared-prefix":            "?   Y   N   ?   ?   Y   -   Y   Y   Y   -",
    "0.11.0/e-idle":                     "?   ?   ?   ?   ?   ?   -   ?   ?   ?   -",
    "0.11.0/p-preemption":               "?   ?   ?   ?   N   N   -   ?   Y   ?   -",
    "0.32.0/a-decode-heavy":             "N   N   N   Y   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/b-prefill-heavy":            "?   N   Y   N   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/c-shared-prefix":            "?   Y   ?   ?   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/d-prefix-off":               "?   N   N   ?   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/e-idle":                     "?   ?   ?   ?   ?   ?   -   ?   ?   ?   ?",
    "0.32.0/f-restart":                  "?   N   ?   ?   ?   ?   -   ?   Y   ?   ?",
    "0.32.0/f-restart/boot1":            "N   N   N   Y   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/f-restart/boot2":            "?   N   ?   ?   ?   ?   -   ?   Y   ?   ?",
    "0.32.0/g-api-servers-2":            "?   N   N   N   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/g-data-parallel-2":          "?   N   N   ?   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/h-spec-ngram":               "?   N   N   Y   ?   Y   Y   Y   Y   Y   Y",
    "0.32.0/i-aborts":                   "N   N   N   Y   ?   Y   -   N   Y   Y   Y",
    "0.32.0/j-batched-tokens/2048-r1":   "?   N   N   ?   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/j-batched-tokens/256-r1":    "?   N   N   ?   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/j-batched-tokens/256-r2":    "?   N   N   N   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/l-series":                   "N   N   N   Y   ?   Y   -   Y   Y   Y   Y",
    "0.32.0/m-two-names":                "?   N   ?   ?   ?   ?   -   ?   Y   ?   ?",
    "0.32.0/n-mfu":                      "?   N   ?   ?   ?   ?   -   ?   Y   ?   ?",
    "0.32.0/p-preemption":               "?   N   ?   ?   N   N   -   ?   Y   ?   ?",
    "0.32.0/q-engine-abort":             "?   N   ?   ?   ?   ?   -   ?   Y   N   ?",
    "0.32.0/q-odd-requests":             "?   N   N   Y   ?   Y   -   Y   Y   Y   Y",
}  # fmt: skip
# These rest on more than one moment, so one scrape leaves them open. The others are as in the table, where the
# server had no request before the window.
OPEN_ON_ONE_SCRAPE = ("kv-pool", "preemption", "engine-liveness")


def flag(flags: list[str], option: str) -> float | None:
    return float(flags[flags.index(option) + 1]) if option in flags else None


def workload(capture: str) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((VLLM / capture / "workload.json").read_text(encoding="utf-8"))
    return loaded


def only(report: Report) -> SubjectReport:
    assert len(report.subjects) == 1
    return report.subjects[0]


def row(subject: SubjectReport) -> str:
    by_name = {v.audit: v for v in subject.audits}
    assert "error" not in {v.verdict for v in subject.audits}
    return "   ".join(WORDS[by_name[name].verdict] for name in COLUMNS)


def pair(capture: str, **settings: float) -> SubjectReport:
    folder = VLLM / capture
    inputs = Inputs(
        before=str(folder / "before.prom"),
        targets=(str(folder / "after.prom"),),
        seconds=60.0,
        settings={name: Setting(value, "flag") for name, value in settings.items()},
    )
    return only(audit_window(collect(inputs), Options()))


@pytest.mark.parametrize(("capture", "expected"), TABLE.items(), ids=list(TABLE))
def test_two_pages(capture: str, expected: str) -> None:
    assert row(pair(capture)) == expected


@pytest.mark.parametrize("capture", TABLE, ids=list(TABLE))
def test_one_page_leaves_open_what_one_moment_cannot_tell(capture: str) -> None:
    subject = only(audit_window(collect(Inputs(targets=(str(VLLM / capture / "after.prom"),))), Options()))
    words = {v.audit: v.verdict for v in subject.audits}
    assert [words[name] for name in OPEN_ON_ONE_SCRAPE] == ["undecided"] * 3
    assert "lifetime_only" in subject.flags


def series() -> SubjectReport:
    folder = VLLM / "0.32.0" / "l-series"
    pages = tuple(sorted(str(p) for p in folder.glob("*.prom.gz")))
    times = json.loads((folder / "timestamps.json").read_text(encoding="utf-8"))
    inputs = Inputs(
        series=pages,
        times=tuple(float(t["at"]) if isinstance(t, dict) else float(t) for t in times),
        settings={"seats": Setting(32.0, "flag"), "budget": Setting(2048.0, "flag")},
    )
    return only(audit_window(collect(inputs), Options()))


def test_a_series_sees_the_pool_under_load() -> None:
    subject = series()
    by_name = {v.audit: v for v in subject.audits}
    assert row(subject) == "N   N   N   Y   Y   Y   -   Y   Y   Y   Y"
    # 8 streams on 32 seats and a pool used to 5.5 %: what waited, waited for room in a step.
    assert by_name["kv-pool"].summary.startswith("5.5 % used at most; the step budget binds: at most ")
    assert "at most 8 running of 32 seats" in by_name["kv-pool"].summary


def test_the_disconnects_of_i_aborts_are_counted() -> None:
    by_name = {v.audit: v for v in pair("0.32.0/i-aborts").audits}
    # The client's own truth: 60 requests, 20 hung up; 5 of them still finished, so 15 are on no finish reason.
    assert "15 of 60 requests" in by_name["request-accounting"].summary
    assert "(25 %)" in by_name["request-accounting"].summary


def test_the_uptime_in_the_sums_is_named() -> None:
    by_name = {v.audit: v for v in pair("0.32.0/q-engine-abort").audits}
    assert "inference within end to end fails" in by_name["metrics-integrity"].summary
    assert "impossible_share" in by_name["metrics-integrity"].flags
    # All five aborted requests are in every count, the three that never ran too: nothing is lost, there are only few.
    assert by_name["request-accounting"].verdict == "undecided"
    assert "5 finish reasons, 5 end-to-end times" in by_name["request-accounting"].summary


def test_the_preempted_requests_of_both_releases_are_counted() -> None:
    # The pages' own num_preemptions_total, which starts at 0 in both.
    for capture, count in (("0.11.0/p-preemption", 11), ("0.32.0/p-preemption", 10)):
        by_name = {v.audit: v for v in pair(capture).audits}
        assert by_name["preemption"].summary.startswith(f"{count} preemptions in 24 finished requests")
        assert by_name["kv-pool"].verdict == "broken"


def test_speculation_of_h_in_tokens() -> None:
    by_name = {v.audit: v for v in pair("0.32.0/h-spec-ngram").audits}
    before = (VLLM / "0.32.0/h-spec-ngram/before.prom").read_text(encoding="utf-8")
    after = (VLLM / "0.32.0/h-spec-ngram/after.prom").read_text(encoding="utf-8")

    def rise(name: str) -> float:
        totals = [
            sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(f"vllm:{name}{{"))
            for page in (before, after)
        ]
        return totals[1] - totals[0]

    steps = rise("spec_decode_num_drafts_total")
    tokens = 1 + rise("spec_decode_num_accepted_tokens_total") / steps
    assert by_name["speculation"].summary.startswith(f"{tokens:.3g} tokens a draft step")
    assert f"{steps:.0f} draft steps" in by_name["speculation"].summary
