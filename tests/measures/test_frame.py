"""The course as a table: busiest hour, idle hours, skew, and the rate by load."""

from __future__ import annotations

import pytest

from auditor.measures.frame import SKEW, frame_of, summarise
from auditor.measures.subject import Subject, WindowFacts
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Counter, Gauge, Options, Part, Quantity

MIDNIGHT = 1_795_910_400.0  # 2026-11-29T00:00:00Z
HALF_HOUR = 1800.0


def level(value: float) -> Gauge:
    return Gauge(value, value, value, value, value)


def subject(
    steps: list[dict[str, Quantity]], *, start: float = MIDNIGHT, step: float = HALF_HOUR, engines: int = 1
) -> Subject:
    engine = load_vocabulary().engine("vllm")

    def make(quantities: dict[str, Quantity], begin: float, end: float) -> Subject:
        part = Part("server", "vllm", "tiny", None, quantities, pooled=True)
        facts = WindowFacts("scrapes", end - begin, begin, end)
        return Subject({}, engine, "vllm:", (part,), facts, Options(), {})

    slices = tuple(make(q, start + i * step, start + (i + 1) * step) for i, q in enumerate(steps))
    parts = tuple(Part(f"a{i}", "vllm", "tiny", "0", {"running_requests": level(1)}) for i in range(engines))
    end = start + len(steps) * step
    return Subject({}, engine, "vllm:", parts, WindowFacts("range", end - start, start, end), Options(), {}, slices)


def tokens(count: float, requests: float = 1, **more: Quantity) -> dict[str, Quantity]:
    return {"generation_tokens": Counter(count), "finished_requests": Counter(requests), **more}


def test_busiest_and_idle_hours() -> None:
    # Hours of (100 + 200), (0 + 0), (500 + 0), (0 + 10) tokens: 300, 0, 500, 10.
    counts = [100, 200, 0, 0, 500, 0, 0, 10]
    found = summarise(subject([tokens(c, requests=float(c > 0)) for c in counts]))
    assert found["busiest_hour"]["start"] == "2026-11-29T02:00:00Z"
    assert found["busiest_hour"]["end"] == "2026-11-29T03:00:00Z"
    assert found["busiest_hour"]["generation_tokens"] == 500
    assert found["busiest_hour"]["share"] == pytest.approx(500 / 810)
    assert (found["idle_hours"], found["known_hours"], found["unknown_hours"]) == (1, 4, 0)


def test_an_hour_without_data_is_unknown_not_idle() -> None:
    steps: list[dict[str, Quantity]] = [tokens(5), tokens(5), {}, {}, tokens(5), tokens(5)]
    found = summarise(subject(steps))
    assert (found["idle_hours"], found["known_hours"], found["unknown_hours"]) == (0, 2, 1)


def test_a_short_window_is_told_in_steps() -> None:
    found = summarise(subject([tokens(1), tokens(3)], step=60.0))
    assert found["busiest_step"]["start"] == "2026-11-29T00:01:00Z"
    assert found["busiest_step"]["share"] == pytest.approx(0.75)
    assert "busiest_hour" not in found


def test_nothing_generated_has_no_busiest_hour() -> None:
    found = summarise(subject([tokens(0, 0)] * 4))
    assert found["idle_hours"] == 2
    assert "busiest_hour" not in found


def test_published_flat_engine() -> None:
    """Published: 127 / 130 / 126 tokens a second at 5-8 / 17-24 / 25 and more running requests."""
    rows = [(127, 6)] * 3 + [(130, 20)] * 3 + [(126, 40)] * 3
    steps = [tokens(rate * 60, running_requests=level(running)) for rate, running in rows]
    found = summarise(subject(steps, step=60.0))
    bands = found["generation_rate_by_running"]
    assert [(b["from"], b["to"], round(b["tokens_per_second"]), b["steps"]) for b in bands] == [
        (5, 8, 127, 3),
        (17, 24, 130, 3),
        (25, None, 126, 3),
    ]
    assert found["flat_under_load"]["flat"] is True
    assert found["flat_under_load"]["spread"] == pytest.approx(4 / 130)
    assert "25 or more running requests an engine are no faster than 5 to 8" in found["flat_under_load"]["summary"]
    assert "127 / 130 / 126" in found["flat_under_load"]["summary"]


def test_an_engine_that_gets_faster_is_not_flat() -> None:
    rows = [(100, 6)] * 3 + [(300, 30)] * 3
    found = summarise(subject([tokens(r * 60, running_requests=level(n)) for r, n in rows], step=60.0))
    assert found["flat_under_load"]["flat"] is False


def test_bands_are_of_one_engine() -> None:
    """24 requests running on four engines are six on each."""
    steps = [tokens(400 * 60, running_requests=level(24))] * 3
    (band,) = summarise(subject(steps, step=60.0, engines=4))["generation_rate_by_running"]
    assert (band["from"], band["to"]) == (5, 8)
    assert band["tokens_per_second"] == pytest.approx(100)


def test_skew_weighs_steps_by_their_requests() -> None:
    steps = [tokens(10, 30, **{SKEW: level(1.0)}), tokens(10, 10, **{SKEW: level(2.0)})]
    found = summarise(subject(steps))
    assert found["skew"] == {"mean": pytest.approx(1.25), "max": 2.0, "at": "2026-11-29T01:00:00Z"}


def test_the_table_has_a_row_a_step() -> None:
    frame = frame_of(subject([tokens(1), tokens(3)]))
    assert list(frame["generation_tokens"]) == [1, 3]
    assert list(frame["seconds"]) == [HALF_HOUR, HALF_HOUR]
    assert summarise(subject([tokens(1)])) == {}
