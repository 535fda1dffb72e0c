"""Rows of answers -> quantities, and ranges cut in two: worked by hand."""

from __future__ import annotations

import math

import pytest

from auditor.measures.vocabulary import load_vocabulary
from auditor.ranges.asking import combine_answers, join_answers
from auditor.ranges.assembling import (
    counter_of,
    histogram_of,
    settle,
    slack_of,
)
from auditor.ranges.natives import Flawed, add_histograms, native_histogram
from auditor.ranges.planning import choose_step, cut_names
from auditor.ranges.truth import addresses
from auditor.sources.prometheus import Answer, Row

ENGINE = load_vocabulary().engine("vllm")
FINISHED = ENGINE.quantities["finished_requests"]
PREFILL = ENGINE.quantities["prefill_seconds"]


def row(value: float, **labels: str) -> Row:
    return Row(labels, ((0.0, value),))


def test_a_counter_by_its_split() -> None:
    counter = counter_of([row(3, finished_reason="stop"), row(1, finished_reason="length"), row(2)], FINISHED)
    assert counter.increase == 6
    assert counter.split == {"stop": 3, "length": 1, "": 2}
    assert counter.at_start is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_what_no_counter_can_be(value: float) -> None:
    with pytest.raises(Flawed):
        counter_of([row(1), row(value)], FINISHED)


def test_rounding_below_zero_is_zero() -> None:
    assert counter_of([row(-1e-9)], FINISHED).increase == 0


def histogram_rows(**buckets: float) -> list[Row]:
    rows = [row(v, le=k) for k, v in buckets.items()]
    return [*rows, row(30, piece="sum"), row(9, piece="count")]


def test_a_histogram_and_one_edge_in_two_spellings() -> None:
    rows = [row(3, le="1"), row(2, le="1.0"), row(9, le="+Inf"), row(30, piece="sum"), row(9, piece="count")]
    h = histogram_of(rows, PREFILL, rebuilt_sum=False, slack=0.0)
    assert h.edges == (1.0, math.inf)
    assert h.counts == (5.0, 4.0)
    assert (h.sum, h.count, h.flaw) == (30.0, 9.0, None)


def test_different_layouts_keep_sum_and_count() -> None:
    h = histogram_of(histogram_rows(**{"1": 5, "+Inf": 9}), PREFILL, rebuilt_sum=False, slack=0, layouts_differ=True)
    assert (h.edges, h.sum, h.count) == ((), 30.0, 9.0)
    assert h.flaw is not None
    assert "bucket layouts" in h.flaw


def test_a_bucket_that_falls_within_the_extrapolation_is_lifted() -> None:
    # 60 s of 15 s scrapes: up to 2.2 x 15 / 60 = 0.5 (the most that is ever allowed).
    assert slack_of(15, 3600) == pytest.approx(2.2 * 15 / 3600)
    assert slack_of(15, 60) == 0.5
    assert settle({1.0: 100.0, 2.0: 99.5, 5.0: 101.0}, 0.01) == {1.0: 100.0, 2.0: 100.0, 5.0: 101.0}
    assert settle({1.0: 100.0, 2.0: 90.0}, 0.01) == {1.0: 100.0, 2.0: 90.0}


def test_a_contradiction_beyond_it_is_a_flaw() -> None:
    rows = histogram_rows(**{"1": 9, "2": 5, "+Inf": 9})
    assert histogram_of(rows, PREFILL, rebuilt_sum=False, slack=0.01).flaw is not None


def test_without_a_sum_there_is_a_flaw_and_no_zero() -> None:
    h = histogram_of([row(9, le="+Inf")], PREFILL, rebuilt_sum=False, slack=0)
    assert h.flaw == "the metrics server has no sum for it"


def test_native_histogram_with_a_gap_and_an_open_end() -> None:
    raw = {"count": "10", "sum": "12.5", "buckets": [[0, "1", "2", "4"], [0, "4", "8", "6"]]}
    h = native_histogram(raw)
    assert h.edges == (1.0, 2.0, 4.0, 8.0, math.inf)
    assert h.counts == (0.0, 4.0, 0.0, 6.0, 0.0)
    assert (h.sum, h.count) == (12.5, 10.0)


def test_native_histogram_with_custom_buckets_reaches_infinity() -> None:
    """Classic histograms stored as native ones (NHCB) have an open last bucket."""
    h = native_histogram({"count": "3", "sum": "9", "buckets": [[0, "-Inf", "1", "2"], [0, "1", "+Inf", "1"]]})
    assert h.edges == (1.0, math.inf)
    assert h.counts == (2.0, 1.0)


@pytest.mark.parametrize("raw", [{}, {"count": "x", "sum": "1"}, {"count": "NaN", "sum": "1"}])
def test_a_native_histogram_of_no_known_form(raw: dict[str, object]) -> None:
    with pytest.raises(Flawed):
        native_histogram(raw)


def test_ranges_side_by_side() -> None:
    a = native_histogram({"count": "4", "sum": "6", "buckets": [[0, "1", "2", "4"]]})
    b = native_histogram({"count": "6", "sum": "30", "buckets": [[0, "4", "8", "6"]]})
    both = add_histograms([a, b])
    assert both.count == 10
    assert dict(zip(both.edges, both.counts, strict=True))[2.0] == 4
    assert dict(zip(both.edges, both.counts, strict=True))[8.0] == 6


def test_increases_of_two_halves_add_and_levels_follow() -> None:
    first, second = Answer((row(1, a="x"),)), Answer((row(2, a="x"), row(5, a="y")))
    added = {r.labels["a"]: r.value for r in combine_answers(first, second, "add").rows}
    assert added == {"x": 3, "y": 5}
    one = Answer((Row({}, ((0.0, 1.0), (10.0, 2.0))),))
    two = Answer((Row({}, ((10.0, 2.0), (20.0, 3.0))),))
    assert join_answers(one, two).rows[0].points == ((0.0, 1.0), (10.0, 2.0), (20.0, 3.0))


@pytest.mark.parametrize(
    ("seconds", "interval", "step"),
    [
        (60, 15, None),  # four scrapes make one step
        (150, 15, 60),
        (3600, 15, 60),
        (86_400, 15, 600),  # 86,400 / 240 = 360
        (30 * 86_400, 300, 3600),  # never coarser than an hour where scrapes allow it
        (7 * 86_400, 3600, 14_400),
    ],
)
def test_steps_of_a_course(seconds: float, interval: float, step: float | None) -> None:
    assert choose_step(seconds, interval) == step


def test_names_are_asked_for_in_groups_of_bounded_size() -> None:
    names = [f"n{i}" for i in range(5)]
    # 20 series each on 4,000 targets are 80,000: two fit below 200,000.
    assert cut_names(names, {}, 4000) == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    assert cut_names(names, {"n0": 60.0}, 4000) == [["n0"], ["n1", "n2"], ["n3", "n4"]]
    assert cut_names(names, {}, 10) == [names]


def test_targets_are_named_by_as_much_as_is_needed() -> None:
    keys = [("a", "h:1"), ("b", "h:1"), ("a", "h:2")]
    assert addresses(keys, ("job", "instance")) == {keys[0]: "a/h:1", keys[1]: "b/h:1", keys[2]: "h:2"}
