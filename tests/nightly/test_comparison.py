"""What changed, by how much: tonight against the quiet nights as a comparison of arms."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from statistics import fmean, geometric_mean, variance
from typing import Any

import pytest

from auditor.compare import compare_tonight
from auditor.delivery.webhook import summarise
from auditor.history import open_store
from auditor.history.comparisons import Compare
from auditor.history.document import Tonight, make_nights
from auditor.outputs._nights import by_how_much, subject_lines
from tests.history.documents import night, report, subject

BETTER: dict[str, str | None] = {
    "ttft_seconds": "lower", "itl_seconds": "lower", "prompt_length_tokens": None, "finished_requests": None,
}  # fmt: skip
QUIET = (0.500, 0.510, 0.495, 0.505, 0.490, 0.502, 0.498, 0.507, 0.493, 0.501)
T_975_OF_9 = 2.2621571628
"""Student's t with 9 degrees of freedom: any printed table has 2.262."""

COMPARE = partial(compare_tonight, better=BETTER)


def told(tmp_path: Path, before: list[Any], tonight: Any, *, compare: Compare = COMPARE) -> dict[str, Any]:
    """The subject's part of tonight's report, after these nights; each a subject or its readings."""
    subjects = [subject(x) if "readings" not in x else x for x in (*before, tonight)]
    with open_store(str(tmp_path / "a.db"), create=True) as store:
        for i, one in enumerate(subjects[:-1]):
            store.append(report(one), end=night(i), ran=night(i))
        end = night(len(before))
        made = make_nights(
            store,
            Tonight(report(subjects[-1], end=end), end, end),
            better=BETTER,
            compare=compare,
        )
    found: dict[str, Any] = made["subjects"][0]
    return found


def test_a_change_comes_with_the_interval_that_the_nights_give(tmp_path: Path) -> None:
    found = told(tmp_path, [{"ttft_seconds": v} for v in QUIET], {"ttft_seconds": 0.75})
    assert [c["reading"] for c in found["changes"]] == ["ttft_seconds"]
    (comparison,) = found["comparisons"]
    (row,) = comparison["rows"]
    logs = [math.log(v) for v in QUIET]
    # One new observation against ten: the spread of the ten, for the new one and for their mean.
    error = math.sqrt(variance(logs) * (1 + 1 / len(logs)))
    difference = math.log(0.75) - fmean(logs)
    assert row["change"] == pytest.approx(math.exp(difference) - 1)
    assert row["low"] == pytest.approx(math.exp(difference - T_975_OF_9 * error) - 1, rel=1e-6)
    assert row["high"] == pytest.approx(math.exp(difference + T_975_OF_9 * error) - 1, rel=1e-6)
    assert (row["noise"], row["verdict"], row["baseline"], row["arm"]) == (
        "repeats", "worse", "nights before", "tonight",
    )  # fmt: skip
    assert (comparison["nights"], row["nights"]) == (10, 10)
    assert any("ttft_seconds: 0.75 seconds, +50 % (+46 .. +55 %); usual" in line for line in subject_lines(found))


def test_nights_that_were_bad_already_are_no_part_of_the_quiet_ones(tmp_path: Path) -> None:
    """Neither the two before tonight nor an odd one among the quiet nights."""
    before = [{"ttft_seconds": v} for v in (*QUIET[:5], 0.80, *QUIET[5:], 0.74, 0.76)]
    found = told(tmp_path, before, {"ttft_seconds": 0.75})
    assert found["changes"][0]["nights_out"] == 3
    (comparison,) = found["comparisons"]
    assert (comparison["nights"], comparison["last"]) == (10, "2026-03-11T03:00:00Z")
    assert comparison["rows"][0]["baseline_value"] == pytest.approx(geometric_mean(QUIET))


def test_what_began_on_another_night_is_another_comparison(tmp_path: Path) -> None:
    """Gaps halved three nights ago with a new version; tonight first tokens are slow. That is no trade."""
    before = [subject({"ttft_seconds": v, "itl_seconds": v / 10}) for v in QUIET]
    before += [subject({"ttft_seconds": QUIET[i], "itl_seconds": QUIET[i] / 20}) for i in range(3)]
    found = told(tmp_path, before, {"ttft_seconds": 0.75, "itl_seconds": 0.025})
    newest, older = found["comparisons"]
    assert [r["reading"] for r in newest["rows"]] == ["ttft_seconds"]
    assert [r["reading"] for r in older["rows"]] == ["itl_seconds"]
    assert (newest["nights"], older["nights"]) == (13, 10)
    assert (newest["verdict"], older["verdict"]) == ("worse", "better")
    assert not any("trade" in line for line in subject_lines(found))


def test_nights_with_a_restart_are_no_repeats(tmp_path: Path) -> None:
    before: list[Any] = [subject({"ttft_seconds": v}) for v in QUIET]
    before[3] = subject({"ttft_seconds": QUIET[3]}, flags=["counter_reset"])
    found = told(tmp_path, before, {"ttft_seconds": 0.75})
    (comparison,) = found["comparisons"]
    assert comparison["nights"] == 9
    assert not any("restarted" in c for c in comparison["confounders"])


def test_without_quiet_nights_the_row_says_so(tmp_path: Path) -> None:
    before = [subject({"ttft_seconds": v}, flags=["counter_reset"]) for v in QUIET]
    found = told(tmp_path, before, {"ttft_seconds": 0.75})
    (row,) = found["comparisons"][0]["rows"]
    assert (row["verdict"], row["low"], row["value"]) == ("undecided", None, 0.75)
    assert row["reason"] == "0 quiet nights to measure it from; at least 3 are needed"
    assert any("1.5 times the usual" in line for line in subject_lines(found))


def test_a_fault_in_a_comparison_does_not_cost_the_night(tmp_path: Path) -> None:
    def broken(before: object, tonight: object) -> dict[str, Any]:
        raise ZeroDivisionError("a fault of ours")

    found = told(tmp_path, [{"ttft_seconds": v} for v in QUIET], {"ttft_seconds": 0.75}, compare=broken)
    assert found["verdict"] == "worse"
    assert "the comparison failed: ZeroDivisionError: a fault of ours" in list(subject_lines(found))


def test_better_in_one_headline_and_worse_in_another_is_a_trade(tmp_path: Path) -> None:
    before = [{"ttft_seconds": v, "itl_seconds": v / 10} for v in QUIET]
    found = told(tmp_path, before, {"ttft_seconds": 0.75, "itl_seconds": 0.03})
    assert found["comparisons"][0]["verdict"] == "trade"
    assert "a trade: better in itl_seconds; worse in ttft_seconds" in list(subject_lines(found))
    # A pipeline that stops at regressions stops at this one too.
    assert found["verdict"] == "worse"


def test_another_workload_is_said_before_the_changes(tmp_path: Path) -> None:
    before = [{"ttft_seconds": v, "prompt_length_tokens": 1000 + i} for i, v in enumerate(QUIET)]
    found = told(tmp_path, before, {"ttft_seconds": 0.75, "prompt_length_tokens": 2000})
    assert found["comparisons"][0]["verdict"] == "not_comparable"
    lines = list(subject_lines(found))
    said = next(i for i, line in enumerate(lines) if "another workload: mean prompt length 1,004 -> 2,000" in line)
    assert said < next(i for i, line in enumerate(lines) if "ttft_seconds:" in line)


def test_a_quiet_night_is_compared_by_its_bands_only(tmp_path: Path) -> None:
    found = told(tmp_path, [{"ttft_seconds": v} for v in QUIET], {"ttft_seconds": 0.503})
    assert (found["verdict"], found["changes"], found["comparisons"]) == ("same", [], [])


def test_the_webhook_gets_the_change_and_what_differs(tmp_path: Path) -> None:
    before = [{"ttft_seconds": v, "prompt_length_tokens": 1000 + i} for i, v in enumerate(QUIET)]
    found = told(tmp_path, before, {"ttft_seconds": 0.75, "prompt_length_tokens": 2000})
    document = {**report(subject({"ttft_seconds": 0.75})), "nights": {"subjects": [found], "end": None}}
    (sent,) = summarise(document)["subjects"]
    change = next(c for c in sent["changes"] if c["reading"] == "ttft_seconds")
    assert change["change"] == pytest.approx(0.4999, abs=1e-3)
    assert change["change_low"] < change["change"] < change["change_high"]
    assert any("another workload" in text for text in sent["mind"])


def test_large_and_exact_changes_in_words() -> None:
    change = {"value": 45.0, "baseline": 0.1}
    row = {"change": 446.2, "low": 300.0, "high": 700.0}
    assert by_how_much(change, row) == "447 times (301 .. 701)"
    assert by_how_much(change, {"change": -0.65, "low": -0.65, "high": -0.65}) == "-65 %"
    assert by_how_much(change, {"change": -0.6521, "low": -0.6526, "high": -0.6517}) == "-65.2 % (-65.3 .. -65.2 %)"
