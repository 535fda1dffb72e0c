"""The history of nightly runs as the baseline of a gate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.gating import HistoryBaselines, open_history
from auditor.history.store import open_store
from auditor.model import Report, UsageError
from tests.gate.making import judge, measured, only, report, subject

DAY = 86_400.0
RATE = "generation_tokens_per_wall_second"
TEXT = f"premises: [{{reading: {RATE}, worse_than_baseline_by: 10%}}]"


def night(value: float, **more: Any) -> Report:
    return report(subject(measured(RATE, value, count=60 * value), **more))


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Twelve quiet nights around 1,000 tokens a second."""
    path = str(tmp_path / "audits.db")
    with open_store(path, create=True) as kept:
        for i in range(12):
            value = 1000.0 + 5 * (i % 3 - 1)
            kept.append(night(value).to_json(), end=1_790_000_000.0 + i * DAY, ran=1_790_000_000.0 + i * DAY)
    return path


def judged(store: str, tonight: Report) -> Any:
    history = open_history(store)
    assert isinstance(history, HistoryBaselines)
    return only(judge(tonight, TEXT, baselines=replace(history, tonight=tonight)))


def test_a_night_like_the_others_and_a_worse_one(store: str) -> None:
    quiet = judged(store, night(1000.0))
    assert quiet["verdict"] == "holds"
    assert "baseline 1,000 tokens per second: 0.0 % worse" in quiet["found"]
    assert "noise from repeats" in quiet["found"]
    assert judged(store, night(600.0))["verdict"] == "broken"


def test_nights_with_other_traffic_or_another_length_are_no_baseline(store: str) -> None:
    for tonight in (
        night(600.0, requests=40_000.0),
        replace(night(600.0), window={**night(600.0).window, "seconds": 86_400.0}),
        replace(night(600.0), window={**night(600.0).window, "kind": "range"}),
    ):
        found = judged(store, tonight)
        assert found["verdict"] == "undecided"
        assert "not enough history" in found["reason"]


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        open_history(str(tmp_path / "missing.db"))
