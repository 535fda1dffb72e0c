"""The verdict of a gate: the full product of states, positions, levels, on_undecided and waivers, against a table."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from auditor.cli.ending import worst
from auditor.model import Lever, Reading
from tests.gate.making import NAMES, judge, measured, only, report, subject

STATES = ("measured", "partial", "bounded", "no_traffic", "not_exported", "absent", "invalid", "failed")
POSITIONS = {"holds": (0.02, 0.05), "broken": (0.15, 0.2), "straddles": (0.05, 0.15)}
"""95 % limits beside ``at_most: 10%``."""
LEVELS = ("error", "warn", "off")
ON_UNDECIDED = ("fail", "warn")
WAIVERS = {"none": None, "in force": "2026-12-01", "expired": "2026-11-30"}
"""Judged on 2026-12-01: a waiver holds through its last day."""

DECIDED = {("measured", "holds"): "holds", ("measured", "broken"): "broken",
           ("bounded", "holds"): "holds", ("bounded", "broken"): "broken"}  # fmt: skip
"""Everything that is not in this table is undecided."""


def reading_in(state: str, position: str) -> Reading:
    low, high = POSITIONS[position]
    if state in ("measured", "partial"):
        return Reading("queue_share", state, "ratio", (low + high) / 2, low, high, 400.0)  # type: ignore[arg-type]
    if state == "bounded":
        return Reading("queue_share", "bounded", "ratio", None, low, high, 400.0, reason="limits only")
    return Reading("queue_share", state, "ratio", reason="the reason why not")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "position", "level", "on_undecided", "waiver"),
    list(itertools.product(STATES, POSITIONS, LEVELS, ON_UNDECIDED, WAIVERS)),
)
def test_the_full_product(state: str, position: str, level: str, on_undecided: str, waiver: str) -> None:
    until = WAIVERS[waiver]
    text = (
        "premises:\n"
        f"  - {{reading: queue_share, name: p, at_most: 10%, level: {level}, on_undecided: {on_undecided}}}\n"
        "  - {audit: engine-liveness, level: warn}\n"
        + (f"waivers: [{{premise: p, until: {until}, reason: known}}]\n" if until else "")
    )
    result = judge(report(subject(reading_in(state, position))), text)
    gate = result.report.gate
    assert gate is not None
    mine = [p for p in gate["premises"] if p["name"] == "p"]
    if level == "off":
        assert mine == []
        assert (gate["verdict"], worst(result.codes)) == ("pass", 0)
        return
    (premise,) = mine
    plain = DECIDED.get((state, position), "undecided")
    is_waived = waiver == "in force" and plain != "holds"
    assert premise["verdict"] == ("waived" if is_waived else plain)
    if is_waived or plain == "holds" or level == "warn":
        expected = 0
    elif plain == "broken":
        expected = 1
    else:
        expected = 0 if on_undecided == "warn" else 3
    assert worst(result.codes) == expected
    assert gate["verdict"] == {0: "pass", 1: "fail", 3: "undecided"}[expected]
    assert (premise["line"], premise["column"], premise["file"], premise["level"]) == (2, 5, "premises.yaml", level)
    assert premise["expected"] == "at most 10 %"
    assert premise["found"]
    if plain == "undecided" or is_waived:
        assert premise["reason"]
    if state in ("no_traffic", "not_exported", "absent", "invalid", "failed") and not is_waived:
        assert premise["reason"] == "the reason why not"
    if waiver == "expired":
        assert gate["waivers"][0]["state"] == "expired"


@pytest.mark.parametrize(
    ("condition", "low", "high", "word"),
    [
        ("at_most: 10%", 0.05, 0.1, "holds"),  # the limit itself is still right
        ("at_most: 10%", 0.05, 0.1000001, "undecided"),
        ("at_most: 10%", 0.1, 0.2, "undecided"),  # the low end is not above the limit
        ("at_most: 10%", 0.1000001, 0.2, "broken"),
        ("at_least: 10%", 0.1, 0.2, "holds"),
        ("at_least: 10%", 0.05, 0.1, "undecided"),
        ("at_least: 10%", 0.05, 0.0999999, "broken"),
        ("between: [10%, 20%]", 0.1, 0.2, "holds"),
        ("between: [10%, 20%]", 0.09, 0.15, "undecided"),
        ("between: [10%, 20%]", 0.15, 0.21, "undecided"),
        ("between: [10%, 20%]", 0.05, 0.25, "undecided"),
        ("between: [10%, 20%]", 0.01, 0.09, "broken"),
        ("between: [10%, 20%]", 0.21, 0.3, "broken"),
    ],
)
def test_which_side_the_interval_is_on(condition: str, low: float, high: float, word: str) -> None:
    value = (low + high) / 2
    for reading in (
        measured("queue_share", value, low, high),
        Reading("queue_share", "bounded", "ratio", None, low, high, 400.0),
    ):
        found = only(judge(report(subject(reading)), f"premises: [{{reading: queue_share, {condition}}}]"))
        assert found["verdict"] == word


@pytest.mark.parametrize(
    ("low", "high", "condition", "word"),
    [
        (0.2, None, "at_most: 10%", "broken"),
        (None, 0.05, "at_most: 10%", "holds"),
        (0.05, None, "at_most: 10%", "undecided"),
        (None, 0.05, "at_least: 10%", "broken"),
        (None, None, "at_most: 10%", "undecided"),
    ],
)
def test_limits_that_are_open_on_one_side(low: float | None, high: float | None, condition: str, word: str) -> None:
    reading = Reading("queue_share", "bounded", "ratio", None, low, high, 400.0)
    assert (
        only(judge(report(subject(reading)), f"premises: [{{reading: queue_share, {condition}}}]"))["verdict"] == word
    )


def test_too_few_events_decide_nothing_about_a_ratio() -> None:
    for value, low, high in ((0.02, 0.0, 0.05), (0.5, 0.4, 0.6)):
        reading = measured("queue_share", value, low, high, count=29)
        found = only(judge(report(subject(reading)), "premises: [{reading: queue_share, at_most: 10%}]"))
        assert (found["verdict"], found["reason"]) == ("undecided", "29 events behind it, 30 needed")
    assert only(
        judge(report(subject(reading)), "premises: [{reading: queue_share, at_most: 10%}]", min_requests=29)
    )["verdict"] == "broken"  # fmt: skip


def test_without_an_interval_value_and_events_decide() -> None:
    for value, word in ((1.9, "holds"), (2.1, "broken")):
        reading = measured("naive_rate_error", value)
        assert (
            only(judge(report(subject(reading)), "premises: [{reading: naive_rate_error, at_most: 2}]"))["verdict"]
            == word
        )
    # Millions of tokens of five requests are five events.
    reading = measured("naive_rate_error", 1.9, count=4e6)
    found = only(judge(report(subject(reading, requests=5)), "premises: [{reading: naive_rate_error, at_most: 2}]"))
    assert found["verdict"] == "undecided"


def test_totals_break_at_once_and_hold_on_traffic_only() -> None:
    text = "premises: [{reading: generation_tokens_per_wall_second, at_least: 1k}]"
    fallen = measured("generation_tokens_per_wall_second", 30.0, count=1800.0)
    assert only(judge(report(subject(fallen, requests=3)), text))["verdict"] == "broken"
    high = measured("generation_tokens_per_wall_second", 3000.0, count=180_000.0)
    assert only(judge(report(subject(high, requests=3)), text))["verdict"] == "undecided"
    assert only(judge(report(subject(high, requests=300)), text))["verdict"] == "holds"
    gauge = "premises: [{reading: kv_usage, at_most: 95%}]"
    assert only(judge(report(subject(measured("kv_usage", 0.5, count=1.0))), gauge))["verdict"] == "holds"
    assert (
        only(judge(report(subject(measured("kv_usage", 0.5, count=1.0), requests=None)), gauge))["verdict"]
        == "undecided"
    )


PLACES: dict[str, Any] = {
    "mean": 1.0,
    "blind": False,
    "p50": {"value": 0.8, "low": 0.5, "high": 1.0, "interval": [0.5, 1.0]},
    "p90": {"value": 1.8, "low": 1.0, "high": 2.0, "interval": [1.0, 2.5]},
    "p99": {"value": None, "low": 2.5, "high": None, "interval": [2.0, None]},
}


@pytest.mark.parametrize(
    ("at", "at_most", "word"),
    [
        ("mean", "1.2s", "holds"),
        ("mean", "1s", "undecided"),
        ("mean", "800ms", "broken"),
        ("p50", "1s", "holds"),
        ("p50", "400ms", "broken"),
        ("p90", "2s", "undecided"),  # the bucket would do, the noise of the sample does not
        ("p90", "2.5s", "holds"),
        ("p90", "900ms", "broken"),
        ("p90", "1s", "broken"),  # the bucket above 1 s holds values above 1 s only
        ("p90", "1.01s", "undecided"),
        ("p99", "100s", "undecided"),  # a tail that nobody measured
        ("p99", "1.9s", "broken"),
    ],
)
def test_distributions(at: str, at_most: str, word: str) -> None:
    reading = measured("ttft_seconds", 1.0, 0.9, 1.1, **PLACES)
    found = only(
        judge(report(subject(reading)), f"premises: [{{reading: ttft_seconds, at: {at}, at_most: {at_most}}}]")
    )
    assert found["verdict"] == word
    assert found["flags"] == []


def test_a_blind_percentile_is_flagged() -> None:
    place = {"value": None, "low": 0.0, "high": 0.3, "interval": [0.0, 0.3]}
    reading = measured("ttft_seconds", 0.1, 0.05, 0.2, blind=True, p90=place)
    result = judge(report(subject(reading)), "premises: [{reading: ttft_seconds, at: p90, at_most: 300ms}]")
    assert (only(result)["verdict"], only(result)["flags"]) == ("holds", ["blind_histogram"])
    assert result.report.subjects[0].flags == ("blind_histogram",)
    assert "one bucket" in result.report.subjects[0].facts["blind_histogram"]
    mean = judge(report(subject(reading)), "premises: [{reading: ttft_seconds, at_most: 300ms}]")
    assert mean.report.subjects[0].flags == ()


@pytest.mark.parametrize(
    ("word", "in_file", "in_preset"),
    [
        ("holds", "holds", "holds"),
        ("broken", "broken", "broken"),
        ("undecided", "undecided", "undecided"),
        ("not_applicable", "undecided", None),
        ("error", "undecided", "undecided"),
    ],
)
def test_audits(word: str, in_file: str, in_preset: str | None) -> None:
    found = report(subject(audits={"length-truncation": word}))
    mine = judge(found, "premises: [{belief: answers complete}]")
    assert only(mine)["verdict"] == in_file
    others = "premises: [{audit: queueing, level: off}, {audit: preemption, level: off}]"
    preset = judge(found, f"extends: strict\n{others}")
    gate = preset.report.gate
    assert gate is not None
    listed = {p["name"]: p["verdict"] for p in gate["premises"]}
    assert listed.get("answers complete") == in_preset
    assert ("answers complete" in {s["name"] for s in gate["skipped"]}) == (in_preset is None)
    assert worst(mine.codes) == {"holds": 0, "broken": 1, "undecided": 3, "not_applicable": 3, "error": 4}[word]


def test_a_fault_of_ours_cannot_be_waived() -> None:
    text = "premises: [{audit: queueing}]\nwaivers: [{premise: queueing, until: 2030-01-01, reason: r}]"
    assert worst(judge(report(subject(audits={"queueing": "error"})), text).codes) == 4


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        ("worth_a_test", "holds"),
        ("not_worth_a_test", "broken"),
        ("undecided", "undecided"),
        ("not_applicable", "undecided"),
        (None, "undecided"),
    ],
)
def test_levers(verdict: Any, word: str) -> None:
    levers = [] if verdict is None else [Lever("batched-tokens", verdict, "what it does", reason="why")]
    assert only(judge(report(subject(levers=levers)), "premises: [{before: batched-tokens}]"))["verdict"] == word


def test_selectors() -> None:
    def made(model: str | None, share: float) -> Any:
        return subject(
            measured("queue_share", share, share - 0.01, share + 0.01), labels={"engine": "vllm", "model": model}
        )

    found = report(made("llama-8b", 0.02), made("llama-70b", 0.5), made("qwen", 0.02), made(None, 0.5))
    line = "premises: [{reading: queue_share, at_most: 0.1, for: {model: %s}}]"

    def verdicts(pattern: str) -> dict[str | None, str]:
        gate = judge(found, line % pattern).report.gate
        assert gate is not None
        return {p["subject"].get("model"): p["verdict"] for p in gate["premises"]}

    assert verdicts('"llama-*"') == {"llama-8b": "holds", "llama-70b": "broken"}
    assert verdicts('"llama-[0-9]b"') == {"llama-8b": "holds"}
    assert verdicts('"LLAMA-*"') == {None: "undecided"}  # patterns know upper from lower case
    assert verdicts('""') == {None: "broken"}  # the subject without a model label
    assert len(verdicts('"*"')) == 4
    nothing = only(judge(found, line % '"gpt*"'))
    assert (nothing["subject"], nothing["verdict"]) == ({}, "undecided")
    assert "no subject matches model gpt*" in nothing["reason"]
    rank = only(judge(found, 'premises: [{reading: queue_share, at_most: 10%, for: {rank: "0"}}]'))
    assert (rank["verdict"], "--by rank" in rank["reason"]) == ("undecided", True)


def test_order_of_codes_and_of_premises() -> None:
    found = report(subject(measured("queue_share", 0.5, 0.4, 0.6), audits={"queueing": "undecided"}))
    text = "premises: [{reading: queue_share, at_most: 10%}, {audit: queueing}, {belief: engine alive}]"
    result = judge(found, text)
    assert result.codes == {1, 3}
    assert worst(result.codes) == 1
    gate = result.report.gate
    assert gate is not None
    assert gate["verdict"] == "fail"
    assert [p["name"] for p in gate["premises"]] == ["engine alive", "queue_share at most 10 %", "queueing"]


def test_every_reading_name_of_the_tests_has_the_programs_unit() -> None:
    from auditor.gating import known_names

    real = known_names().readings
    assert {n: real[n] for n in NAMES.readings} == dict(NAMES.readings)
