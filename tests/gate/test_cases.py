"""The recorded cases, through files and pages as a pipeline would use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.cli.ending import worst
from auditor.collect import Inputs, collect
from auditor.gate.judge import Judgement, Terms
from auditor.gate.reader import parse_premises
from auditor.gating import gate_window, known_names
from auditor.model import Options
from tests.gate.making import TODAY

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


def gate(
    case: str, text: str, *, before: str | None = "input.t0.prom", after: str = "input.t1.prom", **terms: Any
) -> Judgement:
    (folder,) = CASES.glob(f"{case}-*")
    inputs = Inputs(
        targets=(str(folder / after),), before=None if before is None else str(folder / before), seconds=60.0
    )
    names = known_names()
    premises = parse_premises(text, file="premises.yaml", names=names)
    return gate_window(collect(inputs), premises, Options(), Terms(today=TODAY, **terms), names=names)


def verdicts(result: Judgement) -> dict[str, str]:
    assert result.report.gate is not None
    return {p["name"]: p["verdict"] for p in result.report.gate["premises"]}


SHARES = "premises: [{reading: length_share, at_most: 10%}, {reading: prefill_share, at_most: 50%}]"


def test_02_aborted_requests_decide_nothing() -> None:
    result = gate("02", SHARES)
    assert set(verdicts(result).values()) == {"undecided"}
    assert worst(result.codes) == 3
    assert worst(gate("02", "extends: recommended").codes) == 3


def test_21_no_data_is_undecided() -> None:
    for after in ("input.t1.prom", "input.empty.prom"):
        result = gate("21", "premises: [{reading: e2e_seconds, at: p99, at_most: 100s}]", after=after)
        assert set(verdicts(result).values()) == {"undecided"}
        assert worst(result.codes) == 3
        assert result.report.gate is not None
        assert result.report.gate["reasons"]


def test_22_truncation_fails_whatever_the_speed_is() -> None:
    result = gate("22", "premises: [{reading: length_share, at_most: 10%}, {belief: answers complete}]")
    assert set(verdicts(result).values()) == {"broken"}
    assert worst(result.codes) == 1
    assert result.report.gate is not None
    # Wilson, 199 of 541: 32.83 % to 40.93 %, worked out by hand.
    assert result.report.gate["premises"][0]["found"] == "36.8 % (32.8 % .. 40.9 %, n 541)"


def test_25_a_page_without_engine_metrics_is_an_error_of_its_own() -> None:
    result = gate("25", SHARES, before=None, after="input.prom", allow_lifetime=True)
    assert worst(result.codes) == 3
    assert result.report.gate is not None
    assert "3 series" in result.report.gate["reasons"][0]
    assert result.report.targets[0]["flags"] == ["no_engine_metrics"]


def test_27_one_scrape_is_a_lifetime() -> None:
    text = "premises: [{reading: preemptions, at_most: 0}, {reading: preemptions_per_request, at_most: 1%}]"
    window = gate("27", text)
    assert set(verdicts(window).values()) == {"holds"}
    assert worst(window.codes) == 0
    life = gate("27", text, before=None, after="input.t0.prom")
    assert set(verdicts(life).values()) == {"undecided"}
    assert worst(life.codes) == 3
    allowed = gate("27", text, before=None, after="input.t0.prom", allow_lifetime=True)
    assert verdicts(allowed) == {
        "preemptions at most 0 preemptions": "broken",
        "preemptions_per_request at most 0.01 preemptions per request": "holds",
    }


@pytest.mark.parametrize("preset", ["recommended", "strict"])
def test_the_demo_is_broken_by_its_answers(preset: str) -> None:
    demo = CASES.parent / "demo"
    inputs = Inputs(targets=(str(demo / "after.prom"),), before=str(demo / "before.prom"), seconds=175.1)
    names = known_names()
    premises = parse_premises(f"extends: {preset}", file="p", names=names)
    result = gate_window(collect(inputs), premises, Options(), Terms(today=TODAY), names=names)
    assert {n: v for n, v in verdicts(result).items() if v == "broken"} == {"answers complete": "broken"}
    assert worst(result.codes) == 1


def test_two_claims_of_one_name_are_both_checked() -> None:
    result = gate("22", "premises: [{claim: {length_share: 37%}}, {claim: {length_share: 5%}, name: old note}]")
    assert verdicts(result) == {"claim length_share 0.37": "holds", "old note": "broken"}
    assert len(result.report.subjects[0].claims) == 2
