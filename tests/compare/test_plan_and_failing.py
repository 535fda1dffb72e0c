"""Repeats needed, and which comparison fails a CI step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from auditor.compare.failing import exit_code_of, parse_fail_on
from auditor.compare.plan import runs_by_three_sigma, runs_needed, three_sigma_threshold, variation_of
from auditor.model import UsageError

CASE = json.loads(Path("fixtures/cases/26-noise-before-threshold/input.json").read_text(encoding="utf-8"))


def test_case_26_thresholds_and_runs() -> None:
    thresholds = [round(three_sigma_threshold(r["cv_pct"]), 2) for r in CASE["rows"]]
    assert thresholds == [3.78, 13.44, 31.35, 26.79]
    assert [runs_by_three_sigma(r["cv_pct"], CASE["change_pct"]) for r in CASE["rows"]] == [1, 1, 2, 2]
    assert 1 + CASE["change_pct"] / 100 < CASE["headroom"], "the fixed gate lets the change pass"


def test_runs_needed_grows_with_the_square_of_noise() -> None:
    """Large n: 2 (1.960 + 1.282)^2 (cv / change)^2 = 21.01 x ratio^2; at ratio 2 that is 84, plus about one for t."""
    assert runs_needed(0.20, 0.10) in (85, 86)
    assert runs_needed(0.0, 0.10) == 2
    assert runs_needed(10.0, 0.01) is None


def test_variation_needs_two_values() -> None:
    assert variation_of([1.0]) is None
    assert variation_of([9.0, 11.0]) == pytest.approx(2**0.5 / 10)


def document(low: float | None, high: float | None, **more: Any) -> dict[str, Any]:
    change = None if low is None or high is None else (low + high) / 2
    row = {"reading": "ttft_seconds", "change": change, "low": low, "high": high, "better": "lower"}
    return {"arms": [{"name": "a"}, {"name": "b"}], "rows": [row], "verdict": "worse", **more}


@pytest.mark.parametrize(
    ("low", "high", "code"),
    [(0.06, 0.2, 1), (0.0, 0.2, 3), (-0.1, 0.04, 0), (None, None, 3), (-0.3, -0.1, 0)],
)
def test_fail_on_uses_the_whole_interval(low: float | None, high: float | None, code: int) -> None:
    rule = parse_fail_on("ttft_seconds:worse:5%", ["ttft_seconds"])
    assert exit_code_of(document(low, high), [rule]) == code


def test_for_a_rate_worse_means_lower() -> None:
    rule = parse_fail_on("ttft_seconds:worse:5%", ["ttft_seconds"])
    falling = document(-0.3, -0.2)
    falling["rows"][0]["better"] = "higher"
    assert exit_code_of(falling, [rule]) == 1


def test_incomparable_arms_are_undecided_and_a_refused_boot_fails() -> None:
    rule = parse_fail_on("ttft_seconds:worse:5%", ["ttft_seconds"])
    assert exit_code_of(document(0.5, 0.6, verdict="not_comparable"), [rule]) == 3
    refused = document(None, None)
    refused["arms"][1]["refusal"] = "did not start"
    assert exit_code_of(refused, [rule]) == 1


@pytest.mark.parametrize("text", ["ttft", "ttft_seconds:better:5%", "ttft_seconds:worse:x", "ttft_seconds:worse:-5%"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_fail_on(text, ["ttft_seconds"])


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(UsageError, match="did you mean ttft_seconds"):
        parse_fail_on("ttft_second:worse:5%", ["ttft_seconds", "e2e_seconds"])
