"""Repeats, effects and predictions, on published figures and recorded boots."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.engine_logs import Boot, Refusal, read_boots
from auditor.model import Setting, UsageError
from auditor.planning.documents import make_boots_document
from auditor.planning.effects import find_effects, group_repeats
from auditor.planning.pools import full_requests, gib_per_token, not_linear, pool_gib
from auditor.planning.predict import parse_prediction, predict
from auditor.planning.predictions import judge
from auditor.planning.profiled import profiled_kv_gib

LOGS = Path(__file__).parents[2] / "fixtures" / "boot_logs"


def boots_of(*names: str) -> list[Boot]:
    return [boot for name in names for boot in read_boots(LOGS / f"{name}.log")]


BUDGET = boots_of("constructed/published-budget")
CONTEXT = boots_of("constructed/published-context")
KBOOT = boots_of("vllm-0.32.0/auto-boot-1", "vllm-0.32.0/auto-boot-2", "vllm-0.32.0/auto-boot-3")
CASE_11 = boots_of("cases/11")


def made(budget: int, pool: int | None, *, context: int = 100_000, gib: float | None = None, **more: object) -> Boot:
    settings = {"budget": Setting(budget, "test"), "context": Setting(context, "test")}
    boot = Boot("made.log", 1, "vllm", "1", "started", settings, pool, kv_gib=gib, max_model_len=context)
    return replace(boot, **more)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------ the published arithmetic


def test_pool_at_8192_is_14_2_gib() -> None:
    gib, source = pool_gib(BUDGET[0], BUDGET)
    assert gib == pytest.approx(14.2, abs=0.05)  # 1,110,255 / 768,000 x 9.8 = 14.167
    assert "9.8 GiB that the engine needs for one" in source
    assert full_requests(BUDGET[0]) == pytest.approx(1.45, abs=0.005)


def test_8192_more_tokens_cost_7_3_gib() -> None:
    [effect], mixed = find_effects(BUDGET)
    assert (effect.setting, effect.old, effect.new) == ("budget", "8192", "16384")
    assert effect.gib_change == pytest.approx(-7.3, abs=0.05)  # 6.9 - 14.167
    assert effect.mib_per_token == pytest.approx(0.91, abs=0.005)  # 7.267 x 1,024 / 8,192
    assert effect.mib_per_token * 1.048576 == pytest.approx(0.96, abs=0.01)  # in MB
    assert effect.verdict == "spread_unknown"
    assert effect.pool_change == pytest.approx(6.9 / 14.167 - 1, abs=1e-3)
    assert mixed == ()
    assert "costs about 51 % of the pool in these two boots" in effect.sentence()


def test_12288_is_marginal() -> None:
    found = predict(BUDGET, "budget", 12288)
    assert found.kv_gib == pytest.approx(10.5, abs=0.05)  # half way between 14.167 and 6.9
    assert found.floor_gib == 9.8
    assert found.verdict == "marginal"
    assert found.kv_pool_tokens is None  # never bytes per token where the pool bends
    assert "35,072 tokens where a straight line gives 540,735" in found.reason


def test_booted_budgets_are_what_they_were() -> None:
    assert predict(BUDGET, "budget", 8192).verdict == "fits"
    assert predict(BUDGET, "budget", 16384).verdict == "refused"
    far = predict(BUDGET, "budget", 32768)
    assert (far.verdict, far.kv_gib) == ("refused", 0.0)
    assert "only a guess" in far.reason


def test_concurrency_at_768k_and_1m() -> None:
    assert [round(b.max_concurrency or 0, 2) for b in CONTEXT] == [1.45, 2.17, 1.11, 1.41]
    found = predict(BUDGET, "context", 1_000_000)
    assert "1.11 requests of 1,000,000" in found.reason
    assert found.verdict == "fits"


def test_tokens_not_gib() -> None:
    group = group_repeats(CONTEXT)[0]
    assert group.pools == [1110893, 1085106]
    assert group.pool_spread == pytest.approx(0.023, abs=5e-4)
    assert group.gib_spread == pytest.approx(0.30, abs=5e-3)  # 12.08 against 8.44
    effects = {(e.old, e.new): e for e in find_effects(CONTEXT)[0]}
    assert effects["768000", "1000000"].verdict == "within_spread"
    shorter = effects["768000", "256000"]
    assert shorter.verdict == "effect"
    assert shorter.pool_change == pytest.approx(-0.5, abs=0.01)  # less, not more
    assert not_linear(CONTEXT) == "12.08 GiB held 1,110,893 tokens and 8.44 GiB held 1,085,106"
    assert gib_per_token(CONTEXT) is None


def test_a_spread_turns_the_same_difference_into_an_effect() -> None:
    effects = {(e.setting, e.new): e for e in find_effects([*CONTEXT, *BUDGET])[0]}
    budget = effects["budget", "16384"]
    assert budget.verdict == "effect"
    assert budget.spread == pytest.approx(0.023, abs=5e-4)


def test_a_shorter_context_promises_nothing() -> None:
    found = predict(CONTEXT, "context", 512000)
    assert found.verdict == "fits"
    assert found.kv_pool_tokens is None
    assert "do not count on more KV cache" in found.reason


# ------------------------------------------------------------------------------ recorded boots


def test_k_boot_spread() -> None:
    [group] = group_repeats(KBOOT)
    assert group.pools == [2135680, 2135808, 2135808]
    assert group.pool_spread == pytest.approx(128 / 2135808)
    assert group.gib_spread == 0.0
    assert find_effects(KBOOT) == ((), ())


def test_k_boot_refusal_lies_on_a_line() -> None:
    assert not_linear(boots_of("vllm-0.32.0/fail-too-long")) is None


def test_pools_set_by_hand_take_no_part() -> None:
    by_hand = boots_of("vllm-0.32.0/j-256-r1", "vllm-0.32.0/j-2048-r1")
    assert group_repeats(by_hand) == ()
    found = predict(by_hand, "budget", 1024)
    assert found.verdict == "unknown"
    assert "by hand" in found.reason


def test_one_budget_cannot_tell_the_cost() -> None:
    found = predict(KBOOT, "budget", 4096)
    assert found.verdict == "unknown"
    assert "second budget" in found.reason


def test_memory_fraction() -> None:
    found = predict(KBOOT, "memory", 0.3)
    assert found.kv_gib == pytest.approx(6.424)  # 4.07 + 0.1 x 23.54
    assert found.verdict == "fits"
    assert found.kv_pool_tokens is None  # three boots of one size show no line
    low = predict(KBOOT, "memory", 0.02)
    assert (low.verdict, low.kv_gib) == ("refused", 0.0)  # 4.07 - 0.18 x 23.54 = -0.17
    assert predict(BUDGET, "memory", 0.95).verdict == "unknown"


# ------------------------------------------------------------------------------ case 11


def test_case_11_the_profiling_sum() -> None:
    def left(peak: float) -> float:
        return profiled_kv_gib(total_gib=23.58, memory_fraction=0.90, peak_gib=peak, non_torch_gib=0.35)

    assert (left(17.06), left(17.98)) == (pytest.approx(3.81, abs=0.005), pytest.approx(2.89, abs=0.005))
    assert left(15.05) == pytest.approx(5.82, abs=0.005)


def test_case_11_35k_starts() -> None:
    found = predict(CASE_11, "context", 35000)
    assert found.kv_gib == pytest.approx(5.82, abs=0.005)
    assert found.kv_pool_tokens == pytest.approx(47680, rel=0.002)  # 2,980 blocks of 2 MiB
    assert found.verdict == "fits"
    assert "47.7k tokens" in found.reason
    assert "1.36 requests" in found.reason
    assert "shorter does not always free KV cache" in found.reason


def test_case_11_without_the_peak_the_rule_alone_says_it_starts() -> None:
    found = predict(CASE_11[:2], "context", 35000)
    assert found.verdict == "fits"
    # slope (17.98 - 17.06) / 9,000 a token: peaks of 15.07 at 512 and 15.22 at 2,048 tokens
    assert found.kv_gib == pytest.approx((5.80 + 5.65) / 2, abs=0.01)
    assert "chunked prefill switches itself on" in found.reason


def test_case_11_what_was_seen_stays_what_it_was() -> None:
    assert predict(CASE_11, "context", 29000).verdict == "refused"
    assert predict(CASE_11, "context", 20000).verdict == "fits"
    between = predict(CASE_11, "context", 25000)
    # peak 17.06 + 5,000 x 0.92 / 9,000 = 17.571; 21.222 - 17.571 - 0.35 = 3.301 GiB, 27.0k tokens, 1.08 requests
    assert between.kv_gib == pytest.approx(3.301, abs=1e-3)
    assert between.verdict == "marginal"


# ------------------------------------------------------------------------------ rules


@pytest.mark.parametrize(
    ("left", "verdict"), [(11.0, "fits"), (10.99, "marginal"), (10.0, "marginal"), (9.8, "marginal"), (9.79, "refused")]
)
def test_judge_against_a_floor_of_ten(left: float, verdict: str) -> None:
    assert judge(left, 10.0, 0.10) == verdict


def test_linear_pools_give_tokens() -> None:
    # 1 GiB per 10,000 tokens: 20 and 10 GiB; 15 at half way
    boots = [made(2048, 200_000, gib=20.0), made(8192, 100_000, gib=10.0)]
    low, high = gib_per_token(boots) or (0, 0)
    assert low <= 1e-4 <= high
    found = predict(boots, "budget", 5120)
    assert (found.kv_pool_tokens, found.kv_gib, found.verdict) == (150_000, 15.0, "fits")


def test_bent_pools_give_bounds_only() -> None:
    boots = [made(2048, 1_262_567, context=262_144, hybrid=True), made(8224, 290_632, context=262_144, hybrid=True)]
    found = predict(boots, "budget", 4096)
    assert (found.kv_pool_tokens, found.verdict) == (None, "fits")  # at least 290,632, 1.11 x 262,144
    tighter = [replace(b, settings={**b.settings, "context": Setting(280_000, "t")}) for b in boots]
    assert predict(tighter, "budget", 4096).verdict == "unknown"
    assert predict(boots, "budget", 16384).verdict == "unknown"


def test_two_changes_at_once_are_nobodys_effect() -> None:
    one = made(2048, 100_000, identity={"model": "m", "dtype": "bfloat16"})
    other = made(8192, 50_000, identity={"model": "m", "dtype": "float16"})
    effects, mixed = find_effects([one, other])
    assert effects == ()
    assert "budget, dtype" in mixed[0]
    assert predict([one, other], "budget", 4096).verdict == "unknown"


def test_an_argument_only_one_boot_names_is_a_difference() -> None:
    one = made(2048, 100_000, identity={"model": "m"})
    other = made(2048, 50_000, identity={"model": "m", "enforce_eager": "True"})
    [effect], _ = find_effects([one, other])
    assert (effect.setting, effect.old, effect.new) == ("enforce_eager", "default", "True")


def test_effect_needs_to_exceed_the_spread() -> None:
    repeated = [made(2048, 100_000), made(2048, 96_000)]  # spread 4 %
    within = find_effects([*repeated, made(8192, 95_000)])[0][0]
    beyond = find_effects([*repeated, made(8192, 90_000)])[0][0]
    assert (within.verdict, beyond.verdict) == ("within_spread", "effect")  # -3.1 % and -8.2 % of the mean 98,000
    assert within.spread == pytest.approx(0.04)


def test_wide_spread_widens_the_margin() -> None:
    boots = [made(2048, 200_000), made(2048, 140_000), made(8192, 130_000)]  # spread 30 %
    # half way between the mean 170,000 and 130,000: 150,000, 1.5 requests; fits
    assert predict(boots, "budget", 5120).verdict == "fits"
    tight = [replace(b, settings={**b.settings, "context": Setting(120_000, "t")}) for b in boots]
    assert predict(tight, "budget", 5120).verdict == "marginal"  # 1.25 requests, below 1.3


def test_no_evidence_is_unknown_with_a_reason() -> None:
    for setting, value in (("budget", 8192.0), ("context", 8192.0), ("memory", 0.9)):
        found = predict([], setting, value)
        assert found.verdict == "unknown"
        assert found.reason == "no boot was read"


def test_engines_own_estimate_judges_a_context() -> None:
    refused = boots_of("constructed/published-budget")[1:]
    assert predict(refused, "context", 30_000).verdict == "fits"
    assert predict(refused, "context", 34_000).verdict == "marginal"
    assert predict(refused, "context", 36_000).verdict == "refused"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("budget=12288", ("budget", 12288)),
        ("max_num_batched_tokens=12,288", ("budget", 12288)),
        ("--max-model-len=35_000", ("context", 35000)),
        ("memory=93%", ("memory", 0.93)),
        ("gpu_memory_utilization=0.95", ("memory", 0.95)),
    ],
)
def test_parse_prediction(text: str, expected: tuple[str, float]) -> None:
    assert parse_prediction(text) == expected


@pytest.mark.parametrize(
    "text",
    ["budget", "budget=", "budgte=1", "context=35k", "budget=0", "budget=1.5", "memory=1.2", "memory=0", "context=nan"],
)
def test_parse_prediction_refuses(text: str) -> None:
    with pytest.raises(UsageError):
        parse_prediction(text)


def test_document() -> None:
    document = make_boots_document(BUDGET, [parse_prediction("budget=12288")], notes=["seen"])
    assert (document["kind"], document["schema"]) == ("boots", 1)
    assert {e["from"] for e in document["effects"]} == {8192}
    assert document["effects"][0].keys() >= {"setting", "from", "to", "pool_change", "spread", "verdict"}
    [found] = document["predictions"]
    assert found.keys() == {"setting", "value", "kv_gib", "kv_pool_tokens", "floor_gib", "verdict", "reason"}
    assert found["value"] == 12288
    assert "seen" in document["notes"]
    json.dumps(document, allow_nan=False)


def test_refusals_of_other_kinds_are_no_floor() -> None:
    refusal = Refusal("memory_taken", 1, "", "", context=100_000, needed_gib=21.2, available_gib=3.0)
    boots = [made(2048, 200_000), replace(made(8192, None), state="refused", refusal=refusal)]
    assert predict(boots, "budget", 4096).verdict == "unknown"
