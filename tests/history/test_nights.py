"""Nights by the time between them: missed ones, repeats, and changes of the clocks."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

from auditor.compare import compare_tonight
from auditor.history.document import Tonight, make_nights
from auditor.history.nights import find_gaps, group_nights, load_runs
from auditor.history.store import Store, open_store
from auditor.history.views import list_runs
from tests.history.documents import CHAT, DAY, night, report, subject

BETTER: dict[str, str | None] = {"ttft_seconds": "lower"}
COMPARE = partial(compare_tonight, better=BETTER)


def store_with(tmp_path: Path, ends: list[float]) -> Store:
    store = open_store(str(tmp_path / "a.db"), create=True)
    for i, end in enumerate(ends):
        store.append(report(subject({"ttft_seconds": 0.5 + 0.001 * (i % 5)})), end=end, ran=end + 60)
    return store


def local_three_o_clock(days: list[str]) -> list[float]:
    zone = ZoneInfo("Europe/Berlin")
    return [datetime.fromisoformat(f"{day}T03:30:00").replace(tzinfo=zone).timestamp() for day in days]


def test_a_change_of_the_clocks_is_neither_a_missed_nor_a_second_night(tmp_path: Path) -> None:
    """Berlin, 29 March and 25 October 2026: 23 and 25 hours between two jobs at 03:30."""
    spring = local_three_o_clock(["2026-03-27", "2026-03-28", "2026-03-29", "2026-03-30"])
    autumn = local_three_o_clock(["2026-10-23", "2026-10-24", "2026-10-25", "2026-10-26"])
    assert [round((b - a) / 3600) for a, b in pairwise(spring)] == [24, 23, 24]
    assert [round((b - a) / 3600) for a, b in pairwise(autumn)] == [24, 25, 24]
    for i, ends in enumerate((spring, autumn)):
        (tmp_path / str(i)).mkdir()
        with store_with(tmp_path / str(i), ends) as store:
            nights = group_nights(load_runs(store))
            assert len(nights) == 4
            assert find_gaps(nights) == []


def test_jobs_around_midnight_are_one_a_night(tmp_path: Path) -> None:
    """A job at midnight that starts a few minutes early or late: a calendar would count two nights and none."""
    with store_with(tmp_path, [night(0) + 60, night(1) - 120, night(2) + 90]) as store:
        nights = group_nights(load_runs(store))
    assert [len(n.runs) for n in nights] == [1, 1, 1]
    assert find_gaps(nights) == []


def test_missed_nights_are_counted(tmp_path: Path) -> None:
    with store_with(tmp_path, [night(0), night(1), night(4)]) as store:
        (gap,) = find_gaps(group_nights(load_runs(store)))
        assert (gap.after, gap.before, gap.nights) == (night(1), night(4), 2)
        assert list_runs(store)[-1]["remarks"] == ["2 nights without a run before"]
        made = make_nights(
            store, Tonight(report(subject({"ttft_seconds": 0.5})), night(6), night(6)), better=BETTER, compare=COMPARE
        )
    assert made["notes"] == [
        "one night without a run before this one (the last was 2026-03-05T03:00:00Z)",
        "2 earlier nights without a run in the nights shown",
    ]
    states = made["subjects"][0]["trends"]["ttft_seconds"]["states"]
    assert states == ["measured", "measured", "no run", "no run", "measured", "no run", "measured"]


def test_two_runs_in_one_night_are_one_night_of_the_baseline(tmp_path: Path) -> None:
    ends = [night(i) for i in range(8)]
    with store_with(tmp_path, [*ends, night(7) + 3600]) as store:
        assert len(group_nights(load_runs(store))) == 8
        assert list_runs(store)[-1]["remarks"] == ["another run of the same night"]
        again = Tonight(report(subject({"ttft_seconds": 0.5})), night(7) + 7200, night(8))
        made = make_nights(store, again, better=BETTER, compare=COMPARE)
    assert made["nights_before"] == 7
    assert made["same_night"] == ["2026-03-08T03:00:00Z", "2026-03-08T04:00:00Z"]
    assert "another run of this night ended" in made["notes"][0]


def test_the_run_that_measured_stands_for_its_night(tmp_path: Path) -> None:
    """The engine was down, the job was run again an hour later: and the other way round."""
    with open_store(str(tmp_path / "a.db"), create=True) as store:
        store.append(report(exit_code=3), end=night(0), ran=night(0))
        store.append(report(subject({"ttft_seconds": 0.5})), end=night(0) + 3600, ran=night(0))
        store.append(report(subject({"ttft_seconds": 0.6})), end=night(1), ran=night(1))
        idle = subject({"ttft_seconds": {"state": "no_traffic", "reason": "nothing"}}, requests=0, flags=["no_traffic"])
        store.append(report(idle, exit_code=3), end=night(1) + 3600, ran=night(1))
        tonight = Tonight(report(subject({"ttft_seconds": 0.5})), night(2), night(2))
        made = make_nights(store, tonight, better=BETTER, compare=COMPARE)
    assert made["subjects"][0]["trends"]["ttft_seconds"]["values"] == [0.5, 0.6, 0.5]


def test_a_night_on_which_the_engine_was_down(tmp_path: Path) -> None:
    failed = {"address": "http://a/metrics", "state": "failed", "engine": None, "version": None, "reason": "refused"}
    with store_with(tmp_path, [night(0), night(1)]) as store:
        dead = report(exit_code=3, targets=[failed])
        made = make_nights(store, Tonight(dead, night(2), night(2)), better=BETTER, compare=COMPARE)
        assert made["subjects"] == []
        assert made["missing_subjects"] == [{"labels": CHAT, "last_seen": "2026-03-02T03:00:00Z"}]
        store.append(dead, end=night(2), ran=night(2))
        after = make_nights(
            store, Tonight(report(subject({"ttft_seconds": 0.5})), night(3), night(3)), better=BETTER, compare=COMPARE
        )
        assert list_runs(store)[-1]["remarks"] == ["no engine measured"]
    assert after["subjects"][0]["trends"]["ttft_seconds"]["states"] == [
        "measured", "measured", "subject not seen", "measured",
    ]  # fmt: skip
    assert after["notes"] == []
    assert after["missing_subjects"] == []


def test_nights_that_end_later_are_left_out(tmp_path: Path) -> None:
    """Old pages handed in with --at are held against what was known before them."""
    with store_with(tmp_path, [night(i) for i in (0, 1, 2, 10, 11)]) as store:
        made = make_nights(
            store, Tonight(report(subject({"ttft_seconds": 0.5})), night(3), night(20)), better=BETTER, compare=COMPARE
        )
    assert made["nights_before"] == 3
    assert made["notes"] == []
    assert made["ran"] == "2026-03-21T03:00:00Z"


def test_a_week_without_runs_is_seven_nights_less_one(tmp_path: Path) -> None:
    with store_with(tmp_path, [night(0), night(0) + 7 * DAY]) as store:
        assert [g.nights for g in find_gaps(group_nights(load_runs(store)))] == [6]


def test_a_night_after_a_long_pause_is_not_called_the_first(tmp_path: Path) -> None:
    with store_with(tmp_path, [night(0), night(1)]) as store:
        late = Tonight(report(subject({"ttft_seconds": 0.5}), end=night(200)), night(200), night(200))
        made = make_nights(store, late, better=BETTER, compare=COMPARE)
    assert made["notes"] == [
        "the last night before this one was 2026-03-02T03:00:00Z, 199 days ago: too long to compare with"
    ]
    assert "first night" not in made["subjects"][0]["reason"]


def test_an_idle_night_tells_nothing_of_what_is_exported(tmp_path: Path) -> None:
    """Without traffic a reading that is not exported says no_traffic; the next busy night says not_exported again."""
    missing = {"state": "not_exported", "reason": "switched off"}
    idle = {"state": "no_traffic", "reason": "nothing ran"}
    nights = [
        subject({"achieved_tflops_per_gpu": missing}),
        subject({"achieved_tflops_per_gpu": idle}, flags=["no_traffic"]),
        subject({"achieved_tflops_per_gpu": missing}),
    ]
    with open_store(str(tmp_path / "a.db"), create=True) as store:
        found = []
        for i, one in enumerate(nights):
            made = make_nights(store, Tonight(report(one), night(i), night(i)), better=BETTER, compare=COMPARE)
            found += [*made["subjects"][0]["events"], *made["subjects"][0]["earlier_events"]]
            store.append(report(one), end=night(i), ran=night(i))
    assert found == []


def test_the_same_pages_as_another_night_are_said_to_be_that(tmp_path: Path) -> None:
    sums = {"prompt_tokens": 9000.0, "generation_tokens": 812.0, "prefill_seconds": 12.25}
    other = {**sums, "prefill_seconds": 12.5}
    with open_store(str(tmp_path / "a.db"), create=True) as store:
        store.append(report(subject(sums)), end=night(0), ran=night(0))
        again, new = (
            make_nights(store, Tonight(report(subject(s)), night(1), night(1)), better=BETTER, compare=COMPARE)
            for s in (sums, other)
        )
    assert again["subjects"][0]["remarks"] == [
        "its sums are those of the night of 2026-03-01T03:00:00Z to the last digit: the same pages?"
    ]
    assert new["subjects"][0]["remarks"] == []


def test_an_engine_that_started_after_its_night_is_doubted(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db"), create=True) as store:
        one = subject({"ttft_seconds": 0.5}, started="2026-03-09T00:00:00Z")
        made = make_nights(store, Tonight(report(one), night(0), night(0)), better=BETTER, compare=COMPARE)
    assert made["subjects"][0]["remarks"] == [
        "the engine was started 2026-03-09T00:00:00Z, after this night ended: is --at the right time?"
    ]
