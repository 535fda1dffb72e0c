"""Bounds on steps, each by hand on a page that is small enough for it."""

from __future__ import annotations

import math

import pytest

from auditor.measures.readings.in_progress import next_125
from auditor.measures.readings.step_facts import gather_steps
from auditor.model import Options
from auditor.pipeline import build_subjects
from tests.captures.support import limits, state, value
from tests.measures.pages import counter, gauge, histogram, started, subject, target, window


def engine(
    *,
    small: int = 60,
    large: int = 40,
    computed: float = 80_000,
    generated: float = 100,
    requests: int = 40,
    running: float | None = 0,
    cached: float = 0,
) -> str:
    """``requests`` prompts in (1000, 2000]; ``small`` recorded steps of at most 8 tokens and ``large`` above 1024."""
    done = requests - int(running or 0)
    out = counter("prompt_tokens", computed + cached) + counter("generation_tokens", generated)
    out += counter("prompt_tokens_by_source", computed, 'engine="0",model_name="m",source="local_compute"')
    out += histogram("iteration_tokens_total", {1: 0, 8: small, 1024: 0, 2048: large}, computed + generated)
    out += histogram("time_to_first_token_seconds", {1: requests}, requests / 2)
    for name in ("request_prompt_tokens", "request_prefill_kv_computed_tokens"):
        out += histogram(name, {1000: 0, 2000: done}, computed * done / max(1, requests))
    out += counter("request_success", done, 'engine="0",model_name="m",finished_reason="stop"')
    if running is not None:
        out += gauge("num_requests_running", running)
    return out


def test_all_three_bounds_of_a_drained_window() -> None:
    """Budget 256: a prompt of 1,001 to 2,000 tokens takes 4 to 8 chunks, the last of which is recorded."""
    s = subject(engine(), budget=256)
    n, ran, chunks = 100, 80_000 + 100 - 40, 80_000 - 40
    low, high = limits(s, "tokens_per_step")
    assert high == 256  # Y / N is 800.6, no step holds more than the budget
    # At most floor(1999 / 256) = 7 chunks of each prompt went unrecorded, and no more than the tokens allow.
    assert low == pytest.approx(ran / (n + min(chunks / 256, 40 * 7)))
    low, high = limits(s, "full_step_share")
    assert low == pytest.approx(max(40 * 3, 80_000 / 256 - 40) / (n + max(40 * 3, 80_000 / 256 - 40)))
    assert high == 1
    low, high = limits(s, "small_step_share")
    assert high == 0.6
    assert low == 0  # 248 free tokens a step: all 60 may have carried a chunk
    assert value(s, "min_steps") == 313  # ceil(80,060 / 256)


def test_a_budget_above_every_prompt_hides_nothing() -> None:
    s = subject(engine(), budget=8192)
    assert value(s, "tokens_per_step") == pytest.approx(800.6)
    assert value(s, "small_step_share") == 0.6
    assert limits(s, "full_step_share") == (0, pytest.approx((800.6 - 1) / 8191))


def test_a_threshold_below_the_budget_keeps_single_prompts_from_filling_it() -> None:
    s = subject(engine(), budget=2048, threshold=512)
    assert limits(s, "full_step_share")[0] == 0
    low, _ = limits(s, "tokens_per_step")
    assert low == pytest.approx(80_060 / (100 + min(79_960 / 512, 40 * 3)))


def test_without_a_budget_256_is_assumed_and_said() -> None:
    s = subject(engine())
    low, high = limits(s, "tokens_per_step")
    assert high == pytest.approx(800.6)
    assert low == limits(subject(engine(), budget=256), "tokens_per_step")[0]
    assert limits(s, "full_step_share") == (0, 1)
    assert any("--budget N" in c for c in s.readings["tokens_per_step"].caveats)


def test_what_runs_at_the_end_may_have_taken_steps() -> None:
    """A request is running at the end: its prompt, as long as the context, may be in progress."""
    quiet, busy = subject(engine(), budget=2048), subject(engine(running=1), budget=2048)
    assert quiet.readings["tokens_per_step"].high is not None
    assert busy.readings["tokens_per_step"].high is not None
    assert busy.readings["tokens_per_step"].high > quiet.readings["tokens_per_step"].high
    assert busy.readings["full_step_share"].high is not None
    # L is the next 1-2-5 step above the top finite edge of 2,000: 5,000.
    assert busy.readings["full_step_share"].high == pytest.approx(((80_060 + 4999) / 100 - 1) / 2047)


def test_an_unknown_level_is_not_zero() -> None:
    """Without the gauge of running requests a prompt may be in progress."""
    unknown = subject(engine(running=None), budget=2048)
    assert unknown.readings["full_step_share"].high == pytest.approx(((80_060 + 4999) / 100 - 1) / 2047)
    assert state(unknown, "running_requests") == "absent"


def test_preempted_prompts_run_again_uncounted() -> None:
    s = subject(engine() + counter("num_preemptions", 3), budget=2048)
    assert limits(s, "tokens_per_step") == (0, 2048)
    assert limits(s, "full_step_share") == (0, 1)
    assert limits(s, "small_step_share") == (0, 0.6)
    no_budget = subject(engine() + counter("num_preemptions", 3))
    assert limits(no_budget, "tokens_per_step") == (0, None)


def test_more_steps_than_tokens_cannot_be() -> None:
    """Two front ends that each record every step: found by tokens even where no length of the window is known."""
    s = subject(engine(small=60_000, computed=20_000, generated=3_000), budget=2048)
    assert state(s, "tokens_per_step") == "invalid"
    assert "more than once" in (s.readings["tokens_per_step"].reason or "")


def test_idle_is_zero_steps_and_no_ratio() -> None:
    s = subject(engine(small=0, large=0, computed=0, generated=0, requests=0), budget=2048)
    assert value(s, "steps") == value(s, "min_steps") == 0
    for name in ("tokens_per_step", "small_step_share", "full_step_share"):
        assert state(s, name) == "no_traffic"


def test_merged_chunks_are_seen_against_the_budget_only() -> None:
    assert "steps_merge_chunks" in subject(engine(), budget=1024).flags
    assert "steps_merge_chunks" not in subject(engine(), budget=2048).flags
    assert "steps_merge_chunks" not in subject(engine()).flags


def test_a_prompt_that_died_with_its_engine_may_have_run_in_any_step() -> None:
    """Life 1 ends with a request in progress, life 2 with none: the chunks of the dead one are in no counter.

    Sixty of its chunks may have run beside the 60 small recorded steps, each of which then held thousands of tokens.
    """
    assert value(subject(engine(), budget=2048), "small_step_share") == 0.6  # no prompt is above 2,000 tokens
    first = started(1000) + engine(small=0, large=0, computed=0, generated=0, requests=0)
    s = subject(first, started(1000) + engine(running=1), started(9000) + engine(), budget=2048)
    assert "counter_reset" in s.flags
    assert limits(s, "small_step_share") == (0, 0.6)
    # A step without output runs one full chunk: dead prompts cannot lower 160,120 / (200 + 159,920 / 2048).
    assert limits(s, "tokens_per_step") == (pytest.approx(575.793, rel=1e-5), 2048)
    assert limits(s, "full_step_share")[1] == 1
    assert any("died with it" in c for c in s.readings["small_step_share"].caveats)
    # Recorded steps happened, whatever else did.
    assert value(s, "min_steps") == 200
    # No prompt can be longer than 5,000 tokens: with such a budget it is in one step, and dies unrun or recorded.
    single = subject(first, started(1000) + engine(running=1), started(9000) + engine(), budget=8192)
    assert value(single, "small_step_share") == 0.6


def test_of_a_fleet_only_the_engine_that_restarted_began_empty() -> None:
    """Two pages of each: one engine restarted between them, the other had two requests running at the first."""
    fresh = target(started(1000) + engine(running=3), started(9000) + engine(), address="a")
    busy = engine(small=0, large=0, computed=0, generated=0, requests=2, running=2)
    steady = target(started(1000) + busy, started(1000) + engine(), address="b")
    (s,) = build_subjects(window(fresh, steady, seconds=60.0, budget=2048), Options())
    assert gather_steps(s).running_start == 2
    (alone,) = build_subjects(window(fresh, seconds=60.0, budget=2048), Options())
    assert gather_steps(alone).running_start == 0


@pytest.mark.parametrize(
    ("edge", "above"),
    [(2000, 5000), (5000, 10_000), (131_072, 200_000), (1e5, 2e5), (5e-324, math.inf), (1.7e308, math.inf)],
)
def test_the_longest_prompt_is_below_the_next_step_of_edges(edge: float, above: float) -> None:
    assert next_125(edge) == above
