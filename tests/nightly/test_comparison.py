"""What changed, by how much: tonight against the quiet nights as a comparison of arms."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import pytest

from auditor.compare import compare_tonight
from auditor.delivery.webhook import summarise
from auditor.history import open_store
from auditor.history.document import Tonight, make_nights
from auditor.outputs._nights import subject_lines
from tests.history.documents import night, report, subject

BETTER: dict[str, str | None] = {
    "ttft_seconds": "lower", "itl_seconds": "lower", "prompt_length_tokens": None, "finished_requests": None,
}  # fmt: skip
QUIET = (0.500, 0.510, 0.495, 0.505, 0.490, 0.502, 0.498, 0.507, 0.493, 0.501)
T_975_OF_9 = 2.2621571628
"""Student's t with 9 degrees of freedom: any printed table has 2.262."""

Readings = dict[str, float]


def told(tmp_path: Path, before: list[Any], tonight: Any) -> dict[str, Any]:
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
            compare=partial(compare_tonight, better=BETTER),
        )
    found: dict[str, Any] = made["subjects"][0]
    return found


def test_a_change_comes_with_the_interval_that_the_nights_give(tmp_path: Path) -> None:
    found = told(tmp_path, [{"ttft_seconds": v} for v in QUIET], {"ttft_seconds": 0.75})
    assert [c["reading"] for c in found["changes"]] == ["ttft_seconds"]
    (row,) = found["comparison"]["rows"]
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
    assert found["comparison"]["nights"] == 10
    assert any("ttft_seconds: 0.75 seconds, +50 % (+46 .. +55 %); usual" in line for line in subject_lines(found))


def test_nights_that_were_bad_already_are_no_part_of_the_quiet_ones(tmp_path: Path) -> None:
    found = told(tmp_path, [{"ttft_seconds": v} for v in (*QUIET, 0.74, 0.76)], {"ttft_seconds": 0.75})
    assert found["changes"][0]["nights_out"] == 3
    comparison = found["comparison"]
    assert (comparison["nights"], comparison["last"]) == (10, "2026-03-10T03:00:00Z")
    assert comparison["rows"][0]["baseline_value"] == pytest.approx(fmean(QUIET))


def test_nights_with_a_restart_are_no_repeats(tmp_path: Path) -> None:
    before: list[Any] = [subject({"ttft_seconds": v}) for v in QUIET]
    before[3] = subject({"ttft_seconds": QUIET[3]}, flags=["counter_reset"])
    found = told(tmp_path, before, {"ttft_seconds": 0.75})
    assert found["comparison"]["nights"] == 9
    assert not any("restarted" in c for c in found["comparison"]["confounders"])


def test_better_in_one_headline_and_worse_in_another_is_a_trade(tmp_path: Path) -> None:
    before = [{"ttft_seconds": v, "itl_seconds": v / 10} for v in QUIET]
    found = told(tmp_path, before, {"ttft_seconds": 0.75, "itl_seconds": 0.03})
    assert found["comparison"]["verdict"] == "trade"
    assert "a trade: better in itl_seconds; worse in ttft_seconds" in list(subject_lines(found))
    # A pipeline that stops at regressions stops at this one too.
    assert found["verdict"] == "worse"


def test_another_workload_is_said_before_the_changes(tmp_path: Path) -> None:
    before = [{"ttft_seconds": v, "prompt_length_tokens": 1000 + i} for i, v in enumerate(QUIET)]
    found = told(tmp_path, before, {"ttft_seconds": 0.75, "prompt_length_tokens": 2000})
    assert found["comparison"]["verdict"] == "not_comparable"
    lines = list(subject_lines(found))
    said = next(i for i, line in enumerate(lines) if "another workload: mean prompt length 1,004 against 2,000" in line)
    assert said < next(i for i, line in enumerate(lines) if "ttft_seconds:" in line)


def test_a_quiet_night_is_compared_by_its_bands_only(tmp_path: Path) -> None:
    found = told(tmp_path, [{"ttft_seconds": v} for v in QUIET], {"ttft_seconds": 0.503})
    assert (found["verdict"], found["changes"], found["comparison"]) == ("same", [], None)


def test_the_webhook_gets_the_change_and_what_differs(tmp_path: Path) -> None:
    before = [{"ttft_seconds": v, "prompt_length_tokens": 1000 + i} for i, v in enumerate(QUIET)]
    found = told(tmp_path, before, {"ttft_seconds": 0.75, "prompt_length_tokens": 2000})
    document = {**report(subject({"ttft_seconds": 0.75})), "nights": {"subjects": [found], "end": None}}
    (sent,) = summarise(document)["subjects"]
    change = next(c for c in sent["changes"] if c["reading"] == "ttft_seconds")
    assert change["change"] == pytest.approx(0.4999, abs=1e-3)
    assert change["change_low"] < change["change"] < change["change_high"]
    assert any("another workload" in text for text in sent["differs"])
