"""Restarts, balancers and pages in the wrong order, told apart."""

from __future__ import annotations

import pytest

from auditor.model import UsageError
from tests.captures.support import state, value
from tests.measures.pages import counter, gauge, report, started, subject, target, window

RISES = "lora_requests_seen"


def test_one_falling_counter_resets_the_whole_process() -> None:
    """One counter fell, another rose past its old value: both start from 0 again."""
    before = started(100) + counter("prompt_tokens", 50) + counter("generation_tokens", 10)
    after = started(200) + counter("prompt_tokens", 80) + counter("generation_tokens", 3)
    s = subject(before, after)
    assert value(s, "prompt_tokens") == 80  # not 30
    assert value(s, "generation_tokens") == 3
    assert state(s, "prompt_tokens") == "partial"
    assert "counter_reset" in s.flags


def test_a_moved_start_time_alone_is_a_restart() -> None:
    before = started(100) + counter("prompt_tokens", 50)
    after = started(200) + counter("prompt_tokens", 80)
    s = subject(before, after)
    assert value(s, "prompt_tokens") == 80
    assert state(s, "prompt_tokens") == "partial"


def test_a_moved_created_is_a_restart() -> None:
    def page(total: float, created: float) -> str:
        return counter("prompt_tokens", total) + gauge("prompt_tokens_created", created)

    s = subject(page(50, 100.0), page(80, 200.0))
    assert value(s, "prompt_tokens") == 80
    assert "counter_reset" in s.flags


def test_without_start_times_a_fall_is_a_restart() -> None:
    s = subject(counter("prompt_tokens", 50), counter("prompt_tokens", 20))
    assert value(s, "prompt_tokens") == 20
    assert "counter_reset" in s.flags


def test_falling_counters_of_one_process_are_the_wrong_order() -> None:
    pages = (started(100) + counter("prompt_tokens", 50), started(100) + counter("prompt_tokens", 20))
    with pytest.raises(UsageError, match="wrong order"):
        target(*pages, saved=True)
    # A live server cannot be read backwards: it is a balancer.
    found = target(*pages, saved=False)
    assert found.state == "not_one_process"
    assert "balancer" in (found.reason or "")


def test_a_start_time_or_created_that_goes_back_is_the_wrong_order() -> None:
    with pytest.raises(UsageError, match="wrong order"):
        target(started(200) + counter("prompt_tokens", 5), started(100) + counter("prompt_tokens", 50), saved=True)

    def page(total: float, created: float) -> str:
        return counter("prompt_tokens", total) + gauge("prompt_tokens_created", created)

    with pytest.raises(UsageError, match="wrong order"):
        target(page(5, 200.0), page(50, 100.0), saved=True)


def test_alternating_start_times_are_a_balancer() -> None:
    pages = [started(t) + counter("prompt_tokens", v) for t, v in ((100, 5), (200, 900), (100, 6), (200, 905))]
    found = report(*pages)
    assert found.targets[0]["state"] == "not_one_process"
    assert "2 different start times" in found.targets[0]["reason"]


def test_counters_that_fall_and_rise_again_are_a_balancer() -> None:
    pages = [counter("prompt_tokens", v) + counter("generation_tokens", v) for v in (900, 5, 905, 6)]
    assert report(*pages).targets[0]["state"] == "not_one_process"


def test_lives_of_a_series_are_added_up() -> None:
    pages = [started(t) + counter("prompt_tokens", v) for t, v in ((100, 10), (100, 30), (200, 5), (200, 12))]
    s = subject(*pages)
    assert value(s, "prompt_tokens") == 20 + 12
    assert state(s, "prompt_tokens") == "partial"


def test_a_window_after_a_restart_is_as_long_as_the_new_life() -> None:
    """Scrapes at 0 s and 100 s, the process started at 60 s: 400 tokens in 40 s."""
    pages = [started(-500) + counter("prompt_tokens", 900), started(60) + counter("prompt_tokens", 400)]
    from auditor.model import Options
    from auditor.pipeline import audit_window

    (s,) = audit_window(window(target(*pages, times=(0.0, 100.0))), Options()).subjects
    assert value(s, "prompt_tokens_per_wall_second") == 10


def test_a_series_that_appears_counts_from_zero() -> None:
    """A finish reason or a label value that is created on first use has no value on the first page."""
    first = counter("prompt_tokens", 5)
    second = first.replace(" 5", " 9") + counter(
        "request_success", 4, 'engine="0",model_name="m",finished_reason="stop"'
    )
    s = subject(first, second)
    assert value(s, "finished_requests") == 4
    assert value(s, "prompt_tokens") == 4


def test_the_process_of_a_fleet_restarts_alone() -> None:
    steady = [started(100) + counter("prompt_tokens", v) for v in (50, 80)]
    fresh = [started(t) + counter("prompt_tokens", v) for t, v in ((300, 70), (400, 20))]
    from auditor.model import Options
    from auditor.pipeline import audit_window

    both = window(target(*steady, address="a"), target(*fresh, address="b"), seconds=60)
    (s,) = audit_window(both, Options()).subjects
    assert value(s, "prompt_tokens") == 30 + 20
    assert state(s, "prompt_tokens") == "partial"
    # One counts for a minute and the other for less: no length belongs to the 50.
    assert "1 of 2 engines restarted" in (s.readings["prompt_tokens_per_wall_second"].reason or "")


def test_a_series_that_was_away_for_a_page_may_have_restarted_meanwhile() -> None:
    """10, away, 3: three since a restart, not minus seven. 10, away, 13 is no restart."""
    other = counter("generation_tokens", 1)
    s = subject(counter("prompt_tokens", 10) + other, other, counter("prompt_tokens", 3) + other)
    assert value(s, "prompt_tokens") == 3
    assert state(s, "prompt_tokens") == "partial"
    same = subject(counter("prompt_tokens", 10) + other, other, counter("prompt_tokens", 13) + other)
    assert value(same, "prompt_tokens") == 3
    assert state(same, "prompt_tokens") == "measured"
