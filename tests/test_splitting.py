"""Cutting a window into repeats loses nothing: the pieces add up to the whole."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from auditor.collect import Inputs, collect
from auditor.measures.reduce import reduce_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Counter, Histogram, Series, TargetWindow, UsageError, Window
from auditor.sources.files import read_times
from auditor.splitting import split_window

SERIES = Path("fixtures/vllm/0.32.0/l-series")


@pytest.fixture(scope="module")
def window() -> Window:
    pages = tuple(str(p) for p in sorted(SERIES.glob("0*.prom.gz")))
    return collect(Inputs(series=pages, times=tuple(read_times(str(SERIES / "timestamps.json")))))


def _increases(window: Window) -> dict[str, float]:
    (target,) = window.targets
    (part,) = reduce_target(target, load_vocabulary().engine("vllm"))
    out = {}
    for name, quantity in part.quantities.items():
        if isinstance(quantity, Counter):
            out[name] = quantity.increase
        elif isinstance(quantity, Histogram):
            out[name] = quantity.count
    return out


def test_pieces_add_up_to_the_whole(window: Window) -> None:
    pieces = split_window(window, 30.0)
    whole = _increases(window)
    added = dict.fromkeys(whole, 0.0)
    for piece in pieces:
        for name, value in _increases(piece).items():
            added[name] += value
    assert added == pytest.approx(whole, abs=1e-9)
    assert whole["finished_requests"] == 258


def test_pieces_lie_end_to_end_and_have_the_length_asked_for(window: Window) -> None:
    pieces = split_window(window, 30.0)
    assert len(pieces) == 6
    for left, right in pairwise(pieces):
        assert left.end == right.start
    assert pieces[0].start == window.start
    assert pieces[-1].end == window.end
    assert all(piece.seconds == pytest.approx(29, abs=2.1) for piece in pieces)


def test_first_piece_equals_its_pages_read_alone(window: Window) -> None:
    first = split_window(window, 60.0)[0]
    times = json.loads((SERIES / "timestamps.json").read_text(encoding="utf-8"))
    count = sum(t["at"] <= (first.end or 0) + 1e-6 for t in times)
    pages = tuple(str(SERIES / f"{i:03d}.prom.gz") for i in range(count))
    alone = collect(Inputs(series=pages, times=tuple(t["at"] for t in times[:count])))
    assert _increases(first) == _increases(alone)


@pytest.mark.parametrize("length", [200.0, 1000.0])
def test_a_window_shorter_than_two_pieces_is_refused(window: Window, length: float) -> None:
    with pytest.raises(UsageError, match="only 17"):
        split_window(window, length)


def test_two_scrapes_have_no_course_to_cut() -> None:
    pair = collect(Inputs(targets=(str(SERIES / "after.prom"),), before=str(SERIES / "before.prom"), seconds=175.0))
    with pytest.raises(UsageError, match="no course"):
        split_window(pair, 60.0)


def test_each_target_is_cut_by_its_own_times() -> None:
    """Two targets scraped 3 s apart, the second one from the middle on."""
    first = _counting("a:8000", [1000.0 + 10 * i for i in range(13)])
    late = _counting("b:8000", [1063.0 + 10 * i for i in range(6)])
    whole = Window("range", 1000.0, 1120.0, 120.0, (first, late), restarts=0, source="s")
    pieces = split_window(whole, 30.0)
    assert [(p.start, p.end) for p in pieces] == [(1000, 1030), (1030, 1060), (1060, 1090), (1090, 1120)]
    assert [p.targets[0].times[0] for p in pieces] == [1000, 1030, 1060, 1090]
    assert [p.targets[1].state for p in pieces] == ["failed", "failed", "measured", "measured"]
    assert "fewer than two samples" in str(pieces[0].targets[1].reason)
    assert [p.targets[1].times for p in pieces[2:]] == [(1063, 1073, 1083, 1093), (1093, 1103, 1113)]


def _counting(address: str, times: list[float]) -> TargetWindow:
    values = tuple(float(i) for i in range(len(times)))
    series = Series("vllm:prompt_tokens_total", (("engine", "0"), ("model_name", "tiny")), values)
    return TargetWindow(address, "measured", "vllm", times=tuple(times), form="vllm:", series=(series,))


def test_a_restart_belongs_to_the_piece_it_lies_in() -> None:
    target = _counting("a:8000", [1000.0 + 10 * i for i in range(13)])
    fell = replace(target, series=tuple(replace(s, values=(*s.values[:8], 0.0, *s.values[1:5])) for s in target.series))
    pieces = split_window(Window("series", 1000.0, 1120.0, 120.0, (fell,), restarts=1, source="s"), 30.0)
    assert [p.restarts for p in pieces] == [0, 0, 1, 0]


@pytest.mark.parametrize("length", [1.0, 1.4])
def test_pieces_shorter_than_the_distance_of_pages_are_refused(window: Window, length: float) -> None:
    with pytest.raises(UsageError, match=r"cannot be shorter than the time between two pages .* 2\.\d* s here"):
        split_window(window, length)
