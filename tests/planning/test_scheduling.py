"""Sums on counts from public reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.model import UsageError
from auditor.planning.scheduling import (
    BudgetArm,
    compare_budget_arms,
    effective_chunk,
    free_prefill_speedup,
    prefill_share_from_gain,
    read_decode_batches,
)

CASES = Path(__file__).parents[2] / "fixtures" / "boot_logs" / "cases"


def test_case_09_decode_starves_behind_prefill() -> None:
    case = json.loads((CASES / "09.json").read_text())
    found = read_decode_batches(
        prefill_batches=case["prefill_batches"],
        decode_batches=(case["decode_batches_low"], case["decode_batches_high"]),
        window_seconds=case["window_s"],
        running=case["running_streams_min"],
        speculative=case["speculative_decoding"],
    )
    # 36 / 2,899 and 38 / 2,901; 900 / 38 and 900 / 36
    assert found.share == (pytest.approx(0.0124, abs=5e-5), pytest.approx(0.0131, abs=5e-5))
    assert found.interval_seconds == (pytest.approx(23.68, abs=0.005), pytest.approx(25.0))
    assert found.cause == "prefill_first_scheduling"
    assert any("not the lever" in words for words in found.advice)
    assert any("mixed chunking" in words for words in found.advice)


def test_balanced_batches_name_no_cause() -> None:
    found = read_decode_batches(prefill_batches=100, decode_batches=(400, 440), window_seconds=60)
    assert found.cause is None
    assert found.advice == ()


def test_batches_that_cannot_be() -> None:
    with pytest.raises(UsageError):
        read_decode_batches(prefill_batches=10, decode_batches=(0, 0), window_seconds=60)
    with pytest.raises(UsageError):
        read_decode_batches(prefill_batches=10, decode_batches=(1, 1), window_seconds=0)


def test_case_10_same_chunk_four_times_the_pool() -> None:
    case = json.loads((CASES / "10.json").read_text())
    old, new = (
        BudgetArm(
            budget=arm["max_num_batched_tokens"],
            pool_tokens=arm["kv_pool_tokens"],
            peak_activation_gib=arm["peak_activation_gib"],
            prefill_tok_s=arm["prefill_tok_s"],
        )
        for arm in case["arms"]
    )
    found = compare_budget_arms(old, new, threshold=case["long_prefill_token_threshold"])
    assert found.chunks == (1024, 1024)
    assert found.pool_ratio == pytest.approx(4.344, abs=5e-4)  # 1,262,567 / 290,632
    assert found.reserve_gib == pytest.approx(3.91)  # 5.30 - 1.39
    assert found.prefill_change == pytest.approx(0.0160, abs=5e-5)  # 1,013 / 997 - 1
    assert "no change of prefill speed is to be expected" in found.words


def test_arms_without_measurements_stay_unknown() -> None:
    found = compare_budget_arms(BudgetArm(budget=8192), BudgetArm(budget=2048, pool_tokens=5))
    assert (found.pool_ratio, found.reserve_gib, found.prefill_change) == (None, None, None)
    assert found.chunks == (8192, 2048)


@pytest.mark.parametrize(("budget", "threshold", "chunk"), [(8224, 1024, 1024), (512, 1024, 512), (8192, 0, 8192)])
def test_effective_chunk(budget: int, threshold: int, chunk: int) -> None:
    assert effective_chunk(budget, threshold) == chunk


def test_case_17_a_hit_ratio_is_no_speed_up() -> None:
    low = prefill_share_from_gain(hit_ratio=0.9459, gain=0.057)
    high = prefill_share_from_gain(hit_ratio=0.9459, gain=0.062)
    assert (low, high) == (pytest.approx(0.0570, abs=5e-5), pytest.approx(0.0617, abs=5e-5))
    assert free_prefill_speedup(low) == pytest.approx(1.0605, abs=5e-5)
    assert free_prefill_speedup(high) == pytest.approx(1.0658, abs=5e-5)


@pytest.mark.parametrize(("hit", "gain"), [(0.0, 0.1), (1.2, 0.1), (0.01, 0.5), (0.5, -1.0), (0.5, -0.2)])
def test_gains_that_a_cache_cannot_have_made(hit: float, gain: float) -> None:
    with pytest.raises(UsageError):
        prefill_share_from_gain(hit_ratio=hit, gain=gain)
