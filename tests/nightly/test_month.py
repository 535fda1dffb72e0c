"""A simulated month: what happened is named on the night it can be known, and quiet nights are called quiet."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from auditor.compare import compare_tonight
from auditor.history import open_baseline, open_store
from auditor.history.document import Tonight, is_regression, make_nights
from auditor.measures.readings import READINGS
from auditor.model import Options
from auditor.outputs import load_outputs
from auditor.outputs.text import RenderOptions
from auditor.pipeline import audit_window
from auditor.saved import window_from_json
from tests.nightly.month import (
    DEAD_NIGHT,
    NIGHTS,
    REGRESSION_NIGHT,
    UPGRADE_NIGHT,
    end_of,
    file_of,
    is_weekend,
    saved_window,
)

BETTER = {d.name: d.better for d in READINGS.values()}
COMPARE = partial(compare_tonight, better=BETTER)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, dict[str, Any]], Path]:
    """Reports of all nights, each made with the nights before it in the store."""
    path = tmp_path_factory.mktemp("month") / "audits.db"
    reports = {}
    with open_store(str(path), create=True) as store:
        for night in range(1, NIGHTS + 1):
            document = json.loads(gzip.decompress(file_of(night).read_bytes()))
            report = audit_window(window_from_json(document, name="night"), Options()).to_json()
            end = end_of(night)
            nights = make_nights(store, Tonight(report, end, end + 120), better=BETTER, compare=COMPARE)
            store.append(report, end=end, ran=end + 120)
            reports[night] = {**report, "nights": nights}
    return reports, path


def of_model(report: dict[str, Any], model: str) -> dict[str, Any]:
    return next(s for s in report["nights"]["subjects"] if s["labels"]["model"] == model)


def test_the_fixture_is_what_the_simulator_makes() -> None:
    kept = json.loads(gzip.decompress(file_of(REGRESSION_NIGHT).read_bytes()))
    assert json.loads(json.dumps(saved_window(REGRESSION_NIGHT))) == kept


def test_night_22_names_the_regression_and_its_likely_cause(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    report = month[0][REGRESSION_NIGHT + 1]
    chat = of_model(report, "chat")
    assert chat["verdict"] == "worse"
    worse = {c["reading"]: c for c in chat["changes"] if c["verdict"] == "worse"}
    assert {"prefix_hit_share", "ttft_seconds"} <= set(worse)
    for change in (worse["prefix_hit_share"], worse["ttft_seconds"]):
        assert change["since"] == "2027-02-23T03:00:00Z"
        assert change["nights_out"] == 2
        assert change["last_good"] == "2027-02-22T03:00:00Z"
        first = change["causes"][0]
        assert (first["kind"], first["name"], first["from"], first["to"]) == (
            "setting", "gpu_memory_utilization", "0.92", "0.55",
        )  # fmt: skip
        assert {"kv_pool_tokens", "process start"} <= {e["name"] for e in change["causes"]}
    for quiet in ("code", "summary"):
        assert of_model(report, quiet)["verdict"] == "same"
    assert is_regression(report["nights"])


def test_every_format_for_people_says_so(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    report = month[0][REGRESSION_NIGHT + 1]
    for name in ("terminal", "markdown", "html"):
        text = load_outputs()[name].render(report, RenderOptions(width=100))
        assert isinstance(text, str)
        plain = " ".join(text.replace("\\", "").replace("&gt;", ">").split())
        assert "gpu_memory_utilization: 0.92 -> 0.55" in plain, name
        assert "ttft_seconds" in plain, name


def test_the_night_itself_is_told_too(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    chat = of_model(month[0][REGRESSION_NIGHT], "chat")
    assert chat["verdict"] == "worse"
    assert {c["nights_out"] for c in chat["changes"] if c["reading"] == "ttft_seconds"} == {1}


def test_no_other_night_calls_a_regression(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    """29 nights by three models, less those after the regression: no false alarm that a pipeline would stop at."""
    alarms = [
        (night, s["labels"]["model"])
        for night, report in month[0].items()
        for s in report["nights"]["subjects"]
        if s["verdict"] == "worse" and not (s["labels"]["model"] == "chat" and night >= REGRESSION_NIGHT)
    ]
    assert alarms == []


def test_the_upgrade_is_named_and_is_no_regression(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    code = of_model(month[0][UPGRADE_NIGHT], "code")
    kinds = {e["kind"] for e in code["events"]}
    assert kinds == {"exports", "restart"}
    exported = next(e for e in code["events"] if e["kind"] == "exports")
    assert "newly exported (another engine version?)" in exported["summary"]
    assert "prefill_ms_per_computed_token" in exported["summary"]
    assert code["verdict"] == "same"
    assert of_model(month[0][UPGRADE_NIGHT], "chat")["events"] == []


def test_the_dead_night_is_a_night_without_evidence(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    report = month[0][DEAD_NIGHT]
    assert report["exit_code"] == 3
    assert report["subjects"] == []
    assert [s["labels"]["model"] for s in report["nights"]["missing_subjects"]] == ["chat", "code", "summary"]
    after = of_model(month[0][DEAD_NIGHT + 1], "chat")
    assert after["trends"]["ttft_seconds"]["states"][-2] == "subject not seen"
    assert after["trends"]["ttft_seconds"]["values"][-2] is None


def test_the_first_week_has_not_enough_history(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    for night in range(1, 8):
        for subject in month[0][night]["nights"]["subjects"]:
            assert subject["verdict"] == "undecided"
            assert "not enough history" in subject["reason"]


def test_weekends_are_not_held_against_weekdays(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    saturday = next(n for n in range(15, NIGHTS) if is_weekend(n))
    chat = of_model(month[0][saturday], "chat")
    assert chat["verdict"] == "undecided"
    assert chat["reason"] is not None


def test_the_gate_reads_its_baseline_from_the_same_store(month: tuple[dict[int, dict[str, Any]], Path]) -> None:
    labels = {"engine": "vllm", "model": "code"}
    with open_baseline(str(month[1])) as baseline:
        found = baseline.of("ttft_seconds", labels)
        assert found is not None
        value, low, high = found
        assert low < value < high
        kept = [
            s["readings"]["ttft_seconds"]["value"]
            for n, r in month[0].items()
            for s in r["subjects"]
            if s["labels"] == labels and is_weekend(n) == is_weekend(NIGHTS)
        ]
        assert min(kept) <= value <= max(kept)
        assert baseline.of("ttft_seconds", {"engine": "vllm", "model": "nobody"}) is None
        assert baseline.explain("ttft_seconds", {"engine": "vllm", "model": "nobody"}) == (
            "not enough history: this subject is not in the store"
        )
        assert baseline.of("ttft_seconds", labels, at="p90") is not None
