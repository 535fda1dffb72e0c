"""Arms against arms: published pairs, confounders first, noise named, one winner only where figures agree."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.compare import compare_arms, make_arm
from auditor.compare.confounders import figures_disagree
from auditor.compare.noise import Value, measure_change
from auditor.measures.readings import READINGS
from auditor.model import UsageError
from tests.compare.reports import reading, report

BETTER = {name: declared.better for name, declared in READINGS.items()}
RATE = "generation_tokens_per_wall_second"


def compare(*arms: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    made = [make_arm(name, [(f"{name}-{i}.json", r) for i, r in enumerate(reports)]) for name, reports in arms]
    return compare_arms(made, better=BETTER, tool="test")


def row(document: dict[str, Any], name: str, arm: str | None = None) -> dict[str, Any]:
    return next(r for r in document["rows"] if r["reading"] == name and arm in (None, r["arm"]))


def repeats(name: str, values: list[float], **more: Any) -> list[dict[str, Any]]:
    return [report(start=f"{name}{i}", **{name: v}, **more) for i, v in enumerate(values)]


def test_dense_model_with_a_larger_budget_is_a_trade() -> None:
    """Prefill 64 % faster (time x 1/1.64), decode 8.2 % slower; three quiet runs an arm."""
    wiggle = (0.995, 1.0, 1.005)
    old = [
        report(start=f"a{i}", mean_prefill_seconds=1.64 * w, decode_seconds_per_token=0.100 * w)
        for i, w in enumerate(wiggle)
    ]
    new = [
        report(start=f"b{i}", mean_prefill_seconds=1.0 * w, decode_seconds_per_token=0.1082 * w)
        for i, w in enumerate(wiggle)
    ]
    document = compare(("4096", old), ("8192", new))
    assert row(document, "mean_prefill_seconds")["change"] == pytest.approx(1 / 1.64 - 1, abs=1e-9)
    assert row(document, "mean_prefill_seconds")["verdict"] == "better"
    assert row(document, "decode_seconds_per_token")["change"] == pytest.approx(0.082, abs=1e-9)
    assert row(document, "decode_seconds_per_token")["verdict"] == "worse"
    assert document["verdict"] == "trade"


def test_two_figures_for_one_thing_that_disagree_are_named() -> None:
    """52.8 -> 44.8 TFLOP/s is -15.2 %, not the 24 % of the other figure."""
    sentence = figures_disagree("prefill rate", (-0.24, None, None), "TFLOP/s", (44.8 / 52.8 - 1, None, None))
    assert sentence is not None
    assert "-24.0%" in sentence
    assert "-15.2%" in sentence
    assert figures_disagree("a", (-0.15, None, None), "b", (44.8 / 52.8 - 1, None, None)) is None
    old = report(computed_tokens_per_prefill_request_second=1000.0, achieved_tflops_per_gpu=52.8)
    new = report(start="t1", computed_tokens_per_prefill_request_second=760.0, achieved_tflops_per_gpu=44.8)
    document = compare(("8192", [old]), ("16384", [new]))
    assert any("disagree" in note for note in document["notes"])


def test_three_contexts_that_move_throughput_by_less_than_two_percent_are_the_same() -> None:
    arms = [(name, [report(start=name, **{RATE: v})]) for name, v in (("256k", 100.0), ("768k", 101.6), ("1M", 100.4))]
    document = compare(*arms)
    for name in ("768k", "1M"):
        found = row(document, RATE, name)
        assert found["noise"] == "unknown"
        assert found["verdict"] == "same"
        assert "noise unknown" in found["reason"]
    assert document["verdict"] == "same"


def test_a_day_against_picked_spans_is_not_comparable() -> None:
    day = report(seconds=86400.0, finished_requests=13210.0, **{RATE: 98.4})
    spans = report(seconds=2000.0, start="t1", finished_requests=301.0, **{RATE: 119.8})
    document = compare(("2048", [day]), ("8192", [spans]))
    assert document["verdict"] == "not_comparable"
    assert any("13,210" in c and "301" in c for c in document["confounders"])
    assert row(document, RATE)["verdict"] == "undecided"


@pytest.mark.parametrize("change", [0.05, 0.08, -0.05, -0.08])
def test_single_runs_some_percent_apart_have_unknown_noise(change: float) -> None:
    document = compare(("a", [report(**{RATE: 100.0})]), ("b", [report(start="t1", **{RATE: 100.0 * (1 + change)})]))
    found = row(document, RATE)
    assert (found["noise"], found["verdict"]) == ("unknown", "undecided")
    assert found["change"] == pytest.approx(change)
    assert document["verdict"] == "undecided"


def test_welch_interval_of_two_small_arms() -> None:
    """Logs of 1, 2, 4 against 2, 4, 8: equal spread ln 2, difference ln 2, t(4 df) = 2.776.

    Standard error sqrt(2/3) ln 2, so the change lies between 2^(1 - 2.2666) - 1 and 2^(1 + 2.2666) - 1.
    """
    found = measure_change([Value(1), Value(2), Value(4)], [Value(2), Value(4), Value(8)])
    half = 2.7764 * (2 / 3) ** 0.5
    assert found.change == pytest.approx(1.0)
    assert found.low == pytest.approx(2 ** (1 - half) - 1, rel=2e-3)
    assert found.high == pytest.approx(2 ** (1 + half) - 1, rel=2e-3)
    assert found.noise == "repeats"


def test_one_new_run_against_repeats_uses_their_spread() -> None:
    """Baseline 99, 100, 101 (logs +-0.01, sd 0.01): one run at 120 is 18 standard errors away, t(2 df) = 4.303."""
    found = measure_change([Value(99), Value(100), Value(101)], [Value(120)])
    half = 4.303 * 0.01 * (1 + 1 / 3) ** 0.5
    assert found.low == pytest.approx(1.2 * 2.718281828 ** (-half) - 1, abs=2e-3)
    assert found.low is not None
    assert found.low > 0.1


def test_figures_around_zero_are_compared_by_difference() -> None:
    found = measure_change([Value(0.0), Value(0.0)], [Value(0.0), Value(0.0)])
    assert found.change == 0.0
    assert measure_change([Value(0.0)], [Value(3.0)]).change is None


def test_more_than_one_setting_another_version_and_cold_start_are_said_first() -> None:
    old = report(version="0.11.0", settings={"budget": 2048, "prefix_caching": True})
    new = report(
        version="0.32.0", settings={"budget": 8192, "prefix_caching": False}, flags=("cold_start",), start="t1"
    )
    words = " | ".join(compare(("a", [old]), ("b", [new]))["confounders"])
    assert "2 settings differ at once" in words
    assert "another engine version" in words
    assert "cold first wave" in words


def test_one_changed_setting_is_the_test_and_no_confounder() -> None:
    old, new = report(settings={"budget": 256}), report(settings={"budget": 2048}, start="t1")
    assert compare(("a", [old]), ("b", [new]))["confounders"] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt_length_tokens": 3000.0}, "prompt length"),
        ({"output_length_tokens": 20.0}, "output length"),
        ({"model": "n"}, "another model"),
        ({"engine": "sglang"}, "another engine"),
        ({"flags": ("no_traffic",)}, "no traffic"),
    ],
)
def test_what_makes_arms_incomparable(change: dict[str, Any], words: str) -> None:
    base = repeats("ttft_seconds", [1.0, 1.01, 0.99])
    other = repeats("ttft_seconds", [0.5, 0.51, 0.49], **change)
    document = compare(("a", base), ("b", other))
    assert document["verdict"] == "not_comparable"
    assert any(words in c for c in document["confounders"])


def test_the_same_file_twice_compares_nothing() -> None:
    document = compare(("a", [report()]), ("b", [report()]))
    assert document["verdict"] == "not_comparable"
    assert any("same window" in c for c in document["confounders"])


def test_one_arm_only_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match="one arm only"):
        compare(("a", [report()]))


def test_an_arm_that_could_not_boot_is_a_result() -> None:
    boots = {
        "schema": 1,
        "kind": "boots",
        "boots": [{"state": "refused", "refusal": {"needed_gib": 9.8, "available_gib": 6.9}}],
    }
    document = compare(("8192", [report()]), ("16384", [boots]))
    assert document["verdict"] == "worse"
    assert document["notes"] == ["16384 did not start: 9.8 GiB of KV needed, 6.9 GiB there: that is its result"]


def test_percentiles_in_one_bucket_are_blind_and_the_mean_is_not() -> None:
    """Case 23: all mass in (1, 2]; the percentiles cannot see anything, the means 1.24 and 1.60 can."""
    tail = {"value": 1.5, "low": 1.0, "high": 2.0}
    old = report(ttft_seconds=reading(1.24, 1.21, 1.27, p50=tail, p90=tail, p99=tail))
    new = report(start="t1", ttft_seconds=reading(1.60, 1.57, 1.63, p50=tail, p90=tail, p99=tail))
    document = compare(("a", [old]), ("b", [new]))
    assert [row(document, f"ttft_seconds {q}")["verdict"] for q in ("p50", "p90", "p99")] == ["blind"] * 3
    assert row(document, "ttft_seconds")["verdict"] == "worse"
    assert row(document, "ttft_seconds")["noise"] == "counts"


def test_fifty_windows_an_arm() -> None:
    a = repeats("ttft_seconds", [1 + 0.001 * (i % 7) for i in range(50)])
    b = [r | {"window": r["window"] | {"start": f"b{i}"}} for i, r in enumerate(repeats("ttft_seconds", [1.1] * 50))]
    document = compare(("a", a), ("b", b))
    assert row(document, "ttft_seconds")["verdict"] == "worse"
    assert document["arms"][0]["count"] == 50


def test_a_window_that_stands_twice_in_an_arm_is_no_repeat() -> None:
    """Three times one file would have no spread, and any difference would then be beyond all noise."""
    a = report(start="a", ttft_seconds=reading(0.50, 0.45, 0.55))
    b = report(start="b", ttft_seconds=reading(0.55, 0.50, 0.60))
    document = compare(("a", [a, a, a]), ("b", [b, b]))
    found = row(document, "ttft_seconds")
    assert [arm["count"] for arm in document["arms"]] == [1, 1]
    assert (found["noise"], found["verdict"]) == ("counts", "undecided")
    assert any("stands in it already; counted once" in c for c in document["confounders"])


def test_one_window_audited_with_two_settings_is_one_window() -> None:
    sums = {"prompt_tokens": 9000.0, "generation_tokens": 812.0, "prefill_seconds": 12.25}
    plain = report(start="a", **sums)
    told = report(start="a", settings={"budget": 2048}, tokens_per_step=reading(3.0), **sums)
    document = compare(("a", [plain]), ("b", [told]))
    assert document["verdict"] == "not_comparable"
    assert any("the same window stands in both arms" in c for c in document["confounders"])


def test_repeats_that_agree_by_luck_are_no_measure_of_noise() -> None:
    lucky = repeats("ttft_seconds", [0.5, 0.5])
    found = row(compare(("a", lucky), ("b", [report(start="b", ttft_seconds=0.53)])), "ttft_seconds")
    assert (found["noise"], found["verdict"], found["low"]) == ("unknown", "undecided", None)
    # A setting has no noise: another pool is another pool.
    pools = [report(start=f"a{i}", kv_pool_tokens=40_000.0) for i in range(2)]
    found = row(compare(("a", pools), ("b", [report(start="b", kv_pool_tokens=10_000.0)])), "kv_pool_tokens")
    assert (found["change"], found["low"], found["high"]) == (pytest.approx(-0.75),) * 3


def test_the_change_is_that_of_the_two_figures_shown() -> None:
    """1 and 4 have the geometric mean 2, against 3 and 3: +50 %; their means 2.5 and 3 would say +20 %."""
    old = repeats("ttft_seconds", [1.0, 4.0])
    new = [report(start=f"b{i}", ttft_seconds=3.0) for i in range(2)]
    found = row(compare(("a", old), ("b", new)), "ttft_seconds")
    assert (found["baseline_value"], found["value"]) == (pytest.approx(2), pytest.approx(3))
    assert found["change"] == pytest.approx(0.5)
