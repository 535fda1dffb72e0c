"""Baselines by hand: medians, bands, what is comparable, what is noise."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from auditor.history.baseline import Baseline, NoBaseline, make_baseline
from auditor.history.changes import Change, judge
from auditor.history.series import Point

SECONDS = 3600.0


def point(value: float | None, day: int = 0, **more: object) -> Point:
    base = Point(day * 86400.0, "range", "measured", value, seconds=SECONDS, traffic=1.0, count=None)
    return replace(base, **more)  # type: ignore[arg-type]


def nights(values: list[float], **more: object) -> list[Point]:
    return [point(v, i, **more) for i, v in enumerate(values)]


def base(tonight: Point, earlier: list[Point], unit: str = "seconds", **more: int) -> Baseline:
    found = make_baseline(tonight, earlier, unit=unit, **more)
    assert isinstance(found, Baseline)
    return found


def test_the_band_by_hand() -> None:
    """Logarithms 0, +-d, +-2d, +-3d of seven nights: median 0, MAD 2d; seven nights give 13.9 deviations."""
    d = 0.02
    values = [math.exp(k * d) for k in (-3, -2, -1, 0, 1, 2, 3)]
    found = base(point(1.0), nights(values))
    half = 13.9 * 1.4826 * 2 * d
    assert found.median == pytest.approx(1.0)
    assert found.low == pytest.approx(math.exp(-half))
    assert found.high == pytest.approx(math.exp(half))
    assert found.nights == 7


def test_shares_are_compared_as_log_odds() -> None:
    """Log-odds -2 +- {0, .1, .2, .3} at a million events, where the half event added counts for next to nothing."""
    values = [1 / (1 + math.exp(2 - k * 0.1)) for k in (-3, -2, -1, 0, 1, 2, 3)]
    found = base(point(0.12, count=1e6), nights(values, count=1e6), unit="ratio")
    half = 13.9 * 1.4826 * 0.2
    assert found.median == pytest.approx(1 / (1 + math.exp(2)))
    assert found.low == pytest.approx(1 / (1 + math.exp(2 + half)), rel=5e-3)
    assert found.high == pytest.approx(1 / (1 + math.exp(2 - half)), rel=5e-3)
    assert 0 < found.low < found.high < 1


def test_the_band_is_never_narrower_than_the_nights_own_interval() -> None:
    """Nights that happen to agree to the digit, each known to a factor of 1.5 either way at 95 %."""
    wide = {"low": 1 / 1.5, "high": 1.5}
    found = base(point(1.0, **wide), nights([1.0] * 10, **wide))
    one = math.log(1.5) / 1.959964
    half = 3.09 * math.sqrt(1 + math.pi / 20) * one
    assert found.high == pytest.approx(math.exp(half), rel=1e-6)
    assert found.low == pytest.approx(math.exp(-half), rel=1e-6)


def test_not_enough_history_is_an_answer() -> None:
    found = make_baseline(point(1.0), nights([1.0] * 6), unit="seconds")
    assert found == NoBaseline("not enough history: 6 of 7 comparable nights", 6)
    assert isinstance(make_baseline(point(1.0), nights([1.0] * 6), unit="seconds", min_nights=6), Baseline)


@pytest.mark.parametrize(
    "other",
    [
        {"traffic": 0.6},
        {"traffic": 1.6},
        {"traffic": None},
        {"kind": "lifetime"},
        {"seconds": 600.0},
        {"state": "partial"},
        {"value": None, "state": "no_traffic"},
    ],
)
def test_only_comparable_nights_count(other: dict[str, object]) -> None:
    """Seven like nights, and nine unlike ones whose value is far off: the median is that of the seven."""
    like, unlike = nights([1.0, 1.02, 0.98, 1.01, 0.99, 1.0, 1.0]), nights([5.0] * 9)
    unlike = [replace(p, **other) for p in unlike]  # type: ignore[arg-type]
    found = base(point(1.0), [*unlike, *like])
    assert (found.median, found.nights) == (1.0, 7)
    refused = make_baseline(point(1.0), [*unlike, *like[:6]], unit="seconds")
    assert isinstance(refused, NoBaseline)
    assert refused.nights == 6


def test_a_partial_night_may_be_held_against_whole_ones() -> None:
    whole = nights([1.0, 1.02, 0.98, 1.01, 0.99, 1.0, 1.0])
    assert base(point(1.0, state="partial"), whole).nights == 7


def test_one_odd_night_moves_neither_median_nor_band_much() -> None:
    calm = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99]
    without, with_odd = base(point(1.0), nights(calm)), base(point(1.0), nights([*calm, 40.0]))
    assert with_odd.median == pytest.approx(without.median, rel=0.02)
    assert with_odd.high < 1.5


def change(
    value: float, values: list[float], *, better: str | None = "lower", unit: str = "seconds", **more: object
) -> Change:
    return judge("r", point(value, 99, **more), nights(values), unit=unit, better=better)


CALM = [1.0, 1.02, 0.98, 1.01, 0.99, 1.0, 1.02, 0.98, 1.01, 0.99] * 2


def test_direction_decides_the_word() -> None:
    assert change(2.0, CALM).verdict == "worse"
    assert change(2.0, CALM, better="higher").verdict == "better"
    assert change(0.5, CALM).verdict == "better"
    assert change(0.5, CALM, better="higher").verdict == "worse"
    assert change(2.0, CALM, better=None).verdict == "changed"
    assert change(1.03, CALM).verdict == "same"


def test_a_tiny_change_is_none_however_quiet_the_nights_were() -> None:
    quiet = [1.0 + 1e-6 * (i % 3) for i in range(20)]
    assert change(1.045, quiet).verdict == "same"
    assert change(1.06, quiet).verdict == "worse"


def test_since_when() -> None:
    """Three nights outside the band and tonight: the first of them, and the last quiet night before it."""
    found = change(2.0, [*CALM, 2.1, 1.9, 2.0])
    assert found.verdict == "worse"
    assert (found.since, found.nights_out, found.last_good) == (20 * 86400.0, 4, 19 * 86400.0)
    assert change(2.0, [*CALM, 2.1, 1.0]).nights_out == 1


def test_a_reading_that_went_away_is_not_the_same() -> None:
    gone = Point(0.0, "range", "not_exported", reason="not in this release", seconds=SECONDS, traffic=1.0)
    found = judge("r", gone, nights(CALM), unit="seconds", better="lower")
    assert found.verdict == "undecided"
    assert found.reason == "no value tonight (not_exported: not in this release); it had one on 20 of 20 nights"


def test_a_night_with_three_requests_makes_no_alarm() -> None:
    """Its interval is as wide as three requests make it; its traffic is another than that of the other nights."""
    three = point(2.5, 99, low=0.6, high=10.0, count=3.0, traffic=0.001)
    assert judge("r", three, nights(CALM), unit="seconds", better="lower").verdict == "undecided"
    crowded = replace(three, traffic=1.0)
    assert judge("r", crowded, nights(CALM), unit="seconds", better="lower").verdict == "same"


@pytest.mark.parametrize("count", [7, 10, 20, 28])
@pytest.mark.parametrize("kind", ["log-normal", "share", "counts"])
def test_quiet_nights_are_seldom_outside(count: int, kind: str) -> None:
    """1,000 draws of quiet nights: fewer than one in a hundred outside the band, for each number of nights."""
    chance = random.Random(count)
    draw = {
        "log-normal": lambda: chance.lognormvariate(0, 0.4),
        "share": lambda: 1 / (1 + math.exp(-chance.gauss(-3, 0.3))),
        "counts": lambda: float(sum(chance.random() < 0.02 for _ in range(100))),
    }[kind]
    unit = {"log-normal": "seconds", "share": "ratio", "counts": "preemptions"}[kind]
    alarms = 0
    for _ in range(1000):
        values = [draw() for _ in range(count + 1)]
        alarms += base(point(values[-1]), nights(values[:-1]), unit=unit).deviations > 1
    assert alarms / 1000 < 0.01


def test_a_real_change_is_found_with_four_weeks_of_nights() -> None:
    """Noise of 10 % a night: a factor of 1.6 is outside; power by simulation, not luck of one draw."""
    chance = random.Random(1)
    found = 0
    for _ in range(300):
        values = [chance.lognormvariate(0, 0.1) for _ in range(28)]
        found += base(point(1.6 * chance.lognormvariate(0, 0.1)), nights(values)).deviations > 1
    assert found / 300 > 0.6
