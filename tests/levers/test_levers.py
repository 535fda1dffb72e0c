"""Levers: when each is worth a test, when it is useless and by which number, when nobody can know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from auditor.cli.options import read_boot_facts
from auditor.collect import Inputs, collect
from auditor.levers import load_levers
from auditor.levers.ceilings import decide, if_twice_as_fast, range_words, times
from auditor.model import Lever, Options, Range, Reading, Readings, Setting
from auditor.outputs._lever_lines import lever_lines
from auditor.pipeline import audit_window

FIXTURES = Path(__file__).parents[2] / "fixtures"
IDS = (
    "batched-tokens", "context-length", "kv-memory", "long-prefill-threshold", "output-tokens", "prefill-decode-split",
    "prefix-caching", "replicas", "seats", "speculative-tokens",
)  # fmt: skip
PREFILL_LEVERS = ("batched-tokens", "long-prefill-threshold", "prefill-decode-split", "prefix-caching")


def stretch(
    at_99: Range, at_95: Range | None = None, base: float = 0.02, why: str | None = None, caveat: str = ""
) -> Reading:
    extra = {"ceiling_99": list(at_99), "ceiling_95": list(at_95 or at_99), "base_seconds": base, "why_no_upper": why}
    return Reading(
        "decode_stretch_share", "bounded", "ratio", low=0.0, high=1.0, count=1000.0, caveats=(caveat,), extra=extra
    )


def value(name: str, number: float, low: float | None = None, high: float | None = None, **extra: Any) -> Reading:
    return Reading(name, "measured", "ratio", number, low, high, count=400.0, extra=extra)


def readings(
    *found: Reading,
    flags: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
    engine: str = "vllm",
    kind: Any = "scrapes",
    facts: Mapping[str, Any] | None = None,
) -> Readings:
    return Readings(
        labels={"engine": engine, "model": "m"},
        window_kind=kind,
        values={r.name: r for r in found},
        flags=flags,
        settings={k: Setting(v, "flag") for k, v in (settings or {}).items()},
        facts=facts or {},
    )


def lever(name: str, given: Readings, **options: Any) -> Lever:
    return load_levers()[name](given, Options(**options))


def audit(name: str, **settings: float) -> dict[str, Any]:
    folder = FIXTURES / "vllm" / "0.32.0" / name
    window = collect(Inputs(targets=(str(folder / "after.prom"),), before=str(folder / "before.prom"), seconds=31.0))
    given = {k: Setting(v, "flag") for k, v in settings.items()}
    return audit_window(window, Options(), settings=given).to_json()["subjects"][0]


# --------------------------------------------------------------------------- the rule


def test_all_levers_are_there_and_survive_an_empty_page() -> None:
    assert tuple(load_levers()) == IDS
    for name, function in load_levers().items():
        found = function(readings(), Options())
        assert found.lever == name
        assert found.verdict in ("undecided", "not_applicable")
        assert found.verdict == "not_applicable" or found.reason


@pytest.mark.parametrize(
    ("ceiling", "word"),
    [
        ((1.0, 1.04), "not_worth_a_test"),
        ((1.0, 1.05), "undecided"),
        ((1.05, 1.3), "worth_a_test"),
        ((1.04, 1.3), "undecided"),
        ((2.0, None), "worth_a_test"),
        ((1.0, None), "undecided"),
        ((None, None), "undecided"),
    ],
)
def test_the_high_end_says_useless_the_low_end_says_try(ceiling: Range, word: str) -> None:
    assert decide(ceiling, Options()) == word


def test_worth_moves_the_line() -> None:
    assert decide((1.0, 1.15), Options(worth=1.2)) == "not_worth_a_test"


def test_needs_that_do_not_hold_leave_it_undecided() -> None:
    assert decide((2.0, 3.0), Options(), needs_hold=False) == "undecided"


def test_twice_as_fast_halves_what_the_ceiling_removes() -> None:
    # A ceiling of 4 removes 3/4 of the time; half of that leaves 5/8: 1.6x. Of 2: 1/2, then 3/4: 4/3.
    assert if_twice_as_fast((4.0, 2.0)) == pytest.approx((1.6, 4 / 3))
    assert if_twice_as_fast((1.0, None)) == (1.0, None)


def test_words_of_ranges() -> None:
    assert range_words((7.0, 76.9)) == "7x to 76.9x"
    assert range_words((1.0, 1.04)) == "at most 1.04x"
    assert range_words((2.04, None)) == "at least 2.04x, no upper limit"
    assert times(119.7) == "120x"


# --------------------------------------------------------------------------- levers that touch prefill


@pytest.mark.parametrize("name", PREFILL_LEVERS)
def test_prefill_levers_share_one_ceiling(name: str) -> None:
    found = lever(name, readings(stretch((1.4, 3.7), (1.5, 3.2))))
    assert found.ceiling_speedup == (1.4, 3.7)
    assert found.ceiling_speedup_95 == (1.5, 3.2)
    assert found.if_twice_as_fast == pytest.approx((2 / (1 + 1 / 1.4), 2 / (1 + 1 / 3.7)))
    assert found.verdict == "worth_a_test"
    assert "decode_stretch_share" in found.needs


@pytest.mark.parametrize("name", PREFILL_LEVERS)
def test_useless_prefill_levers_say_the_number(name: str) -> None:
    found = lever(name, readings(stretch((1.0, 1.03), (1.0, 1.02))))
    assert found.verdict == "not_worth_a_test"
    assert "even free prefill would gain at most 1.03x" in found.summary


@pytest.mark.parametrize("name", PREFILL_LEVERS)
def test_undecided_prefill_levers_say_what_would_bound_them(name: str) -> None:
    why = "nearly every gap may share its step with prefill"
    found = lever(name, readings(stretch((1.0, None), why=why, caveat="step budget unknown: give --budget N")))
    assert found.verdict == "undecided"
    assert found.reason == "nearly every gap may share its step with prefill"
    assert "--budget N" in found.settles


@pytest.mark.parametrize("name", PREFILL_LEVERS)
def test_preempted_windows_are_undecided(name: str) -> None:
    invalid = Reading("decode_stretch_share", "invalid", "ratio", reason="41.7% of requests were preempted")
    found = lever(name, readings(invalid))
    assert found.verdict == "undecided"
    assert found.ceiling_speedup == (None, None)
    assert found.settles == "a window without preemptions, or an A/B"


@pytest.mark.parametrize("name", PREFILL_LEVERS)
def test_a_decode_node_has_no_prefill_to_tune(name: str) -> None:
    assert lever(name, readings(stretch((2.0, 3.0)), flags=("decode_node",))).verdict == "not_applicable"


def test_very_short_steps_show_the_wider_range() -> None:
    text = lever("batched-tokens", readings(stretch((1.4, 3.7), (1.5, 3.2), base=0.003))).summary
    assert "1.4x to 3.7x" in text
    text = lever("batched-tokens", readings(stretch((1.4, 3.7), (1.5, 3.2), base=0.004))).summary
    assert "1.5x to 3.2x" in text


def test_one_seat_under_a_threshold_gains_nothing_from_a_larger_budget() -> None:
    # Published case: budget 8,224 against 2,048 with a threshold of 1,024 and one seat: the chunk is 1,024 in both,
    # prefill +1.6 %, and the KV pool four times smaller at the larger budget.
    settings = {"budget": 8224.0, "threshold": 1024.0, "seats": 1.0}
    found = lever("batched-tokens", readings(stretch((2.0, 3.0)), settings=settings))
    assert found.verdict == "not_worth_a_test"
    assert found.ceiling_speedup == (1.0, 1.0)
    assert "1024" in found.summary
    assert any("KV pool" in cost for cost in found.costs)


def test_a_threshold_below_the_budget_is_the_chunk() -> None:
    settings = {"budget": 8192.0, "threshold": 1024.0}
    assert "stay at 1024" in lever("batched-tokens", readings(stretch((1.4, 3.7)), settings=settings)).summary
    text = lever("long-prefill-threshold", readings(stretch((1.4, 3.7)), settings=settings)).summary
    assert "min(8192, 1024) = 1024" in text


def test_the_budget_lever_names_the_tested_range_and_what_it_does_not_say() -> None:
    facts = {"tested_settings": {"budget": [2048, 8192]}}
    given = readings(stretch((1.4, 3.7)), settings={"budget": 8192.0}, facts=facts)
    assert "tested here: 2048 to 8192; that says nothing about raising it" in lever("batched-tokens", given).summary


def test_steps_that_never_fill_the_budget_are_no_reason_to_raise_it() -> None:
    full = Reading("full_step_share", "bounded", "ratio", low=0.0, high=0.004)
    given = readings(stretch((1.4, 3.7)), full, settings={"budget": 8192.0})
    assert "at most 0.4% of steps used the whole budget: not higher" in lever("batched-tokens", given).summary


def test_sglang_has_no_threshold() -> None:
    found = lever("long-prefill-threshold", readings(stretch((1.4, 3.7)), engine="sglang"))
    assert found.verdict == "not_applicable"
    assert "no such setting" in found.summary


def test_streams_that_freeze_are_another_mechanism() -> None:
    frozen = Reading(
        "decode_stretch_share", "bounded", "ratio", low=0.0, high=1.0,
        extra={"ceiling_99": [1.4, 3.7], "ceiling_95": [1.5, 3.2], "mechanism": "frozen streams"},
    )  # fmt: skip
    costs = lever("batched-tokens", readings(frozen, engine="sglang")).costs
    assert any("prefill-decode interval" in cost and "speculation" in cost for cost in costs)
    assert not any("freezes" in cost for cost in lever("batched-tokens", readings(stretch((1.4, 3.7)))).costs)


def test_decode_known_as_a_range_gives_a_range() -> None:
    share = Reading("decode_share", "bounded", "ratio", low=0.4, high=0.8)
    # 1 / (1 - 0.2) = 1.25 and 1 / (1 - 0.4) = 1.667.
    assert "40.0% to 80.0%" in lever("output-tokens", readings(share)).summary
    assert "1.25x to 1.67x" in lever("output-tokens", readings(share)).summary


def test_caching_is_switched_on_only_where_it_is_off() -> None:
    off = lever(
        "prefix-caching", readings(stretch((5.0, 60.0)), flags=("cache_off",), settings={"prefix_caching": False})
    )
    assert off.summary.startswith("off: switch it on")
    hits = value("prefix_hit_share", 0.034)
    on = lever("prefix-caching", readings(stretch((1.2, 1.9)), hits, settings={"prefix_caching": True}))
    assert on.summary.startswith("on, 3.4% of prompt tokens hit: repair reuse")
    assert "switch" not in on.summary


def test_a_hit_share_is_no_speed_up() -> None:
    hits = value("prefix_hit_share", 0.9459)
    found = lever("prefix-caching", readings(stretch((1.0, 1.064)), hits, settings={"prefix_caching": True}))
    assert found.verdict == "undecided"
    assert "hits are no speed-up" in found.summary


def test_no_prompt_as_long_as_a_block_cannot_hit() -> None:
    below, block = value("below_block_share", 1.0), value("block_size_tokens", 528)
    found = lever("prefix-caching", readings(stretch((2.0, 3.0)), below, block, settings={"prefix_caching": True}))
    assert found.verdict == "not_worth_a_test"
    assert "528" in found.summary


# --------------------------------------------------------------------------- memory, seats, replicas


def busy(peak: float) -> tuple[Reading, Reading]:
    return value("kv_usage_peak", peak), value("running_requests", 8.0, max=12.0, mean=8.0)


@pytest.mark.parametrize("name", ["context-length", "kv-memory"])
def test_memory_levers_are_useless_where_the_pool_never_filled(name: str) -> None:
    found = lever(name, readings(*busy(0.5), kind="series"))
    assert found.verdict == "not_worth_a_test"
    assert found.ceiling_speedup == (1.0, 1.0)
    assert "50%" in found.summary


@pytest.mark.parametrize("name", ["context-length", "kv-memory"])
def test_memory_levers_wait_where_the_pool_binds_or_nobody_looked(name: str) -> None:
    bound = lever(name, readings(*busy(0.99), flags=("kv_bound",), facts={"kv_bound": "KV use 99% with 7 waiting"}))
    assert bound.verdict == "undecided"
    assert bound.ceiling_speedup == (None, None)
    idle = lever(name, readings(value("kv_usage_peak", 0.0), value("running_requests", 0.0)))
    assert idle.verdict == "undecided"
    assert idle.reason == "KV use unknown"
    once = lever(name, readings(*busy(0.5), kind="lifetime"))
    assert once.verdict == "undecided"
    assert lever(name, readings(*busy(0.5), flags=("gauges_stale",))).verdict == "undecided"


def test_more_seats_do_nothing_where_nobody_waits_or_the_pool_binds() -> None:
    idle = lever("seats", readings(value("queue_share", 0.004, 0.001, 0.02)))
    assert idle.verdict == "not_worth_a_test"
    # At most 2 % of waiting: 1 / 0.98.
    assert idle.ceiling_speedup == pytest.approx((1.0, 1 / 0.98))
    waiting = lever("seats", readings(value("queue_share", 0.3, 0.2, 0.4)))
    assert waiting.verdict == "undecided"
    assert waiting.ceiling_speedup == pytest.approx((1.0, 1 / 0.6))
    bound = lever("seats", readings(value("queue_share", 0.3, 0.2, 0.4), flags=("kv_bound",)))
    assert bound.verdict == "not_worth_a_test"


def test_a_copy_of_an_idle_engine_would_idle() -> None:
    alone = readings(value("running_requests", 1.0, max=1.0, mean=0.4), value("queue_share", 0.0))
    assert lever("replicas", alone).verdict == "not_worth_a_test"
    uneven = readings(value("queue_share", 0.2), value("engine_skew", 1.5))
    assert "even out routing first" in lever("replicas", uneven).summary


def test_speculation_is_never_decided_by_a_page() -> None:
    low = lever(
        "speculative-tokens", readings(value("tokens_per_draft_step", 1.2), value("kept_share_of_verified", 0.3))
    )
    assert low.verdict == "undecided"
    assert "try fewer or none" in low.summary
    good = lever("speculative-tokens", readings(value("tokens_per_draft_step", 3.1)))
    assert "batch size" in good.summary


def test_shorter_answers_by_plain_arithmetic() -> None:
    share, mean, cut = value("decode_share", 0.9243), value("output_length_tokens", 310.0), value("length_share", 0.69)
    found = lever("output-tokens", readings(share, mean, cut))
    # 1 / (1 - 0.9243 / 2) = 1.859.
    assert "half as long: 1.86x" in found.summary
    assert "real length is hidden" in found.summary
    assert "reasoning mode multiplies output" in found.summary
    assert found.ceiling_speedup == (1.0, None)
    assert found.verdict == "undecided"


# --------------------------------------------------------------------------- whole pages


def test_cache_off_page_puts_the_prefix_cache_first() -> None:
    subject = audit("d-prefix-off", budget=2048.0)
    low, high = subject["levers"]["prefix-caching"]["ceiling_speedup"]
    assert low > 1.575
    assert high >= 15.6
    assert subject["levers"]["prefix-caching"]["verdict"] == "worth_a_test"
    head, lines = lever_lines(subject)
    assert lines[0].mark == "TRY"
    assert lines[0].head == "prefix-caching"
    assert "The plain 1.58x is too low" in head
    grouped = next(line for line in lines if "batched-tokens" in line.head)
    assert grouped.head.split("\n") == ["batched-tokens", "long-prefill-threshold", "prefill-decode-split"]


def test_useless_levers_come_last_with_their_number() -> None:
    subject = audit("a-decode-heavy", budget=2048.0)
    _, lines = lever_lines(subject)
    assert [line.mark for line in lines] == sorted([line.mark for line in lines], key=["TRY", "?", "no"].index)
    seats = next(line for line in lines if line.head == "seats")
    assert seats.mark == "no"
    assert "waiting is 0.0%" in seats.text


def test_a_plain_split_comes_out_as_arithmetic_beside_what_the_page_allows() -> None:
    case = FIXTURES / "cases" / "19-plain-split-and-ceilings"
    window = collect(Inputs(targets=(str(case / "input.t1.prom"),), before=str(case / "input.t0.prom")))
    subject = audit_window(window, Options()).to_json()["subjects"][0]
    # 43.618 / (43.618 + 532.693) = 7.57 %: free prefill 1.082x, prefill twice as fast 1.039x, decode twice 1.859x.
    head, _ = lever_lines(subject)
    assert "free prefill 1.08x, twice as fast 1.04x" in head
    assert "neither end" in head
    assert "1.86x" in subject["levers"]["output-tokens"]["summary"]
    assert subject["levers"]["batched-tokens"]["verdict"] == "undecided"
    assert subject["readings"]["prefill_share"]["count"] == 18


def test_every_lever_of_a_report_explains_missing_ends() -> None:
    for name in ("a-decode-heavy", "b-prefill-heavy", "d-prefix-off", "e-idle", "p-preemption"):
        for lever_id, found in audit(name)["levers"].items():
            if None in found["ceiling_speedup"] and found["verdict"] != "not_applicable":
                assert found["reason"], lever_id


def test_boots_of_a_log_tell_the_tested_budgets(tmp_path: Path) -> None:
    log = (FIXTURES / "boot_logs" / "constructed" / "published-budget.log").read_text().splitlines()
    started, refused = log[:5], log[5:]
    lower = [line.replace("8192", "4096").replace("08-01", "07-31") for line in started]
    path = tmp_path / "server.log"
    path.write_text("\n".join([*lower, *started, *refused]) + "\n")
    # 4,096 and 8,192 ran; 16,384 refused to boot, so nobody tested it.
    facts = read_boot_facts({"boot_log": str(path)})
    assert facts["tested_settings"] == {"budget": [4096.0, 8192.0]}
    given = readings(stretch((1.4, 3.7)), settings={"budget": 8192.0}, facts=facts)
    assert "tested here: 4096 to 8192; that says nothing about raising it" in lever("batched-tokens", given).summary
