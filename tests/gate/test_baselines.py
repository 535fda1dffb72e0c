"""Worse than a baseline, with the noise that was measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from auditor.cli.ending import worst
from auditor.gate.baselines import ReportBaselines
from auditor.gate.noise import change_against, runs_needed, spread, visible_change
from auditor.gating import read_baselines
from auditor.model import EvidenceError, Reading, UsageError, dump_json
from tests.gate.making import judge, measured, only, report, subject

CASE_26 = Path(__file__).parents[2] / "fixtures" / "cases" / "26-noise-before-threshold" / "input.json"
E2E = "generation_tokens_per_wall_second"


def test_case_26_thresholds_and_runs() -> None:
    case = json.loads(CASE_26.read_text())
    rows = [r["cv_pct"] / 100 for r in case["rows"]]
    assert [round(visible_change(cv) * 100, 2) for cv in rows] == [3.78, 13.44, 31.35, 26.79]
    assert [runs_needed(cv, case["change_pct"] / 100) for cv in rows] == [1, 1, 2, 2]
    assert runs_needed(0.0126, 0.0) is None


def test_case_26_a_change_of_24_6_percent_is_seen_through_the_noise_of_two_rows_only() -> None:
    words = []
    for cv in (0.0126, 0.0448, 0.1045, 0.0893):
        change = change_against(1.246, 1.0, better="lower", spread_of_one=cv)
        assert change is not None
        assert change.low is not None
        words.append(change.low > 0)
    assert words == [True, True, False, False]


def test_spread_is_that_of_a_sample() -> None:
    # Mean 10; squared deviations 1, 0, 1; divided by 2: standard deviation 1.
    assert spread([9.0, 10.0, 11.0]) == pytest.approx(0.1)
    assert spread([9.0, 11.0]) is None
    assert spread([-1.0, 0.0, 1.0]) is None


def test_the_interval_of_a_ratio() -> None:
    # Both known to +-10 % on the log scale: sqrt(2) times that for the ratio.
    up, down = math.exp(0.1), math.exp(-0.1)
    change = change_against(2.0, 1.0, better="lower", current_limits=(2 * down, 2 * up), baseline_limits=(down, up))
    assert change is not None
    assert change.low == pytest.approx(2 * math.exp(-0.1 * math.sqrt(2)) - 1)
    assert change.high == pytest.approx(2 * math.exp(0.1 * math.sqrt(2)) - 1)
    assert change.worse == pytest.approx(1.0)
    assert change.noise == "counts"
    higher = change_against(0.5, 1.0, better="higher")
    assert higher is not None
    assert higher.worse == pytest.approx(0.5)
    assert higher.noise == "unknown"
    assert change_against(1.0, 0.0, better="lower") is None


def document(*readings: Reading, **more: Any) -> dict[str, Any]:
    return report(subject(*readings, **more)).to_json()


def share(value: float, half: float, name: str = "queue_share") -> Reading:
    return measured(name, value, value - half, value + half)


def judged(now: Reading, before: list[dict[str, Any]], text: str = "") -> Any:
    premise = text or "premises: [{reading: queue_share, worse_than_baseline_by: 10%}]"
    result = judge(report(subject(now)), premise, baselines=ReportBaselines(tuple(before), "base.json"))
    return only(result)


@pytest.mark.parametrize(
    ("now", "word"),
    [(0.30, "broken"), (0.10, "holds"), (0.20, "holds"), (0.221, "undecided")],
)
def test_one_report_and_the_intervals_of_both(now: float, word: str) -> None:
    found = judged(share(now, 0.005), [document(share(0.2, 0.005))])
    assert found["verdict"] == word
    assert "baseline 20 %" in found["found"]
    assert "noise from counts" in found["found"]


def test_without_intervals_the_change_is_shown_without_a_verdict() -> None:
    found = judged(measured("queue_share", 0.9), [document(measured("queue_share", 0.2))])
    assert found["verdict"] == "undecided"
    assert "350.0 % worse (noise unknown)" in found["found"]
    assert "noise is unknown" in found["reason"]


def test_three_reports_measure_the_noise() -> None:
    quiet = [document(measured("queue_share", v)) for v in (0.198, 0.2, 0.202)]  # 1 %, so +-3 %
    assert judged(measured("queue_share", 0.3), quiet)["verdict"] == "broken"
    assert judged(measured("queue_share", 0.21), quiet)["verdict"] == "holds"
    noisy = [document(measured("queue_share", v)) for v in (0.15, 0.2, 0.25)]  # 25 %, so +-75 %
    found = judged(measured("queue_share", 0.3), noisy)
    assert found["verdict"] == "undecided"
    # 50 % worse, 10 % allowed: (3 * 0.25 / 0.4)^2 = 3.5 runs.
    assert "4 runs would tell" in found["reason"]


def test_percentiles_need_repeats_of_their_own() -> None:
    def ttft(p90: float) -> Reading:
        return measured(
            "ttft_seconds", 1.0, 0.9, 1.1, p90={"value": p90, "low": 1.0, "high": 9.0, "interval": [1.0, 9.0]}
        )

    text = "premises: [{reading: ttft_seconds, at: p90, worse_than_baseline_by: 10%}]"
    one = judged(ttft(8.0), [document(ttft(2.0))], text)
    assert (one["verdict"], "300.0 % worse" in one["found"]) == ("undecided", True)
    three = [document(ttft(v)) for v in (1.98, 2.0, 2.02)]
    assert judged(ttft(8.0), three, text)["verdict"] == "broken"


def test_a_blind_percentile_shows_no_change() -> None:
    place = {"value": 0.2, "low": 0.1, "high": 0.3, "interval": [0.1, 0.3]}
    reading = measured("ttft_seconds", 0.2, 0.1, 0.3, blind=True, p90=place)
    text = "premises: [{reading: ttft_seconds, at: p90, worse_than_baseline_by: 10%}]"
    found = judged(reading, [document(reading)] * 3, text)
    assert (found["verdict"], found["flags"]) == ("undecided", ["blind_histogram"])


def test_a_collapse_is_no_improvement() -> None:
    """Case 21: throughput down 97 %, latency better."""
    text = (
        "premises: [{reading: queue_share, worse_than_baseline_by: 10%},"
        " {reading: generation_tokens_per_wall_second, worse_than_baseline_by: 20%}]"
    )
    before = document(share(0.2, 0.005), measured(E2E, 1000.0))
    quiet = [document(share(v, 0.005), measured(E2E, r)) for v, r in ((0.199, 990.0), (0.2, 1000.0), (0.201, 1010.0))]
    now = report(subject(share(0.1, 0.005), measured(E2E, 30.0)))
    one = judge(now, "premises: [{reading: queue_share, worse_than_baseline_by: 10%}]",
                baselines=ReportBaselines((before,), "base.json"))  # fmt: skip
    assert only(one)["verdict"] == "undecided"
    assert "fell 97 %" in only(one)["reason"]
    both = judge(now, text, baselines=ReportBaselines(tuple(quiet), "base.json"))
    gate = both.report.gate
    assert gate is not None
    assert {p["of"]: p["verdict"] for p in gate["premises"]} == {"queue_share": "undecided", E2E: "broken"}
    assert worst(both.codes) == 1
    steady = report(subject(share(0.1, 0.005), measured(E2E, 900.0)))
    assert only(judge(steady, "premises: [{reading: queue_share, worse_than_baseline_by: 10%}]",
                      baselines=ReportBaselines((before,), "b")))["verdict"] == "holds"  # fmt: skip


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (document(share(0.2, 0.01), labels={"engine": "vllm", "model": "other"}), "no such subject"),
        (document(measured("kv_usage", 0.2)), "no such reading"),
        (document(Reading("queue_share", "no_traffic", "ratio", reason="idle")), "it is no_traffic"),
        (document(measured("queue_share", 0.2, 0.1, 0.3, count=5)), "only 5 events"),
        (document(Reading("queue_share", "measured", "ratio", 0.0, 0.0, 0.01, 400)), "share of 0"),
    ],
)
def test_a_baseline_that_is_none_leaves_it_undecided(before: dict[str, Any], reason: str) -> None:
    found = judged(share(0.2, 0.01), [before])
    assert found["verdict"] == "undecided"
    assert reason in found["reason"]


def test_without_any_baseline() -> None:
    found = only(
        judge(report(subject(share(0.2, 0.01))), "premises: [{reading: queue_share, worse_than_baseline_by: 10%}]")
    )
    assert (found["verdict"], "--baseline" in found["reason"]) == ("undecided", True)


def test_reading_reports(tmp_path: Path) -> None:
    good = tmp_path / "base.json"
    good.write_text(dump_json(document(share(0.2, 0.01))))
    found = read_baselines([str(good)], min_requests=30)
    assert found.source == "base.json"
    assert found.baseline_of("queue_share", {"engine": "vllm", "model": "m"}).value == 0.2
    (tmp_path / "window.json").write_text('{"schema": 1, "kind": "window"}')
    with pytest.raises(UsageError, match="is a saved window"):
        read_baselines([str(tmp_path / "window.json")], min_requests=30)
    for text in ("not json", "[1]", '{"kind": "audit", "subjects": 3}', "[" * 100_000):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(EvidenceError):
            read_baselines([str(tmp_path / "bad.json")], min_requests=30)
    with pytest.raises(UsageError, match="no such file"):
        read_baselines([str(tmp_path / "missing.json")], min_requests=30)
