"""77 pages of one server, two seconds apart: every page is used, and any cut of the series fits the whole."""

from __future__ import annotations

import itertools
import json
import math
import random

import pytest

from auditor.model import Options, SubjectReport, Window
from auditor.pipeline import audit_window
from tests.captures.support import (
    VLLM,
    audit,
    check_limits,
    cut,
    gather,
    limits,
    only,
    raw_page,
    rise,
    state,
    total,
    value,
)

FOLDER = VLLM / "0.32.0" / "l-series"
PAGES = sorted(FOLDER.glob("*.prom.gz"))
TIMES = tuple(t["at"] for t in json.loads((FOLDER / "timestamps.json").read_text()))
RAW = [raw_page(p) for p in PAGES]
BUDGET = 2048
"""The default of this release, as the boot logs beside the other captures print it."""


@pytest.fixture(scope="module")
def window() -> Window:
    return gather(series=PAGES, times=TIMES, settings={"budget": BUDGET})


@pytest.fixture(scope="module")
def subject(window: Window) -> SubjectReport:
    return only(audit_window(window, Options()))


def test_the_ends_are_the_difference_of_first_and_last_page(subject: SubjectReport) -> None:
    assert value(subject, "finished_requests") == rise(RAW[0], RAW[-1], "vllm:request_success_total") == 258
    assert value(subject, "prompt_tokens") == rise(RAW[0], RAW[-1], "vllm:prompt_tokens_total")
    p, d = (rise(RAW[0], RAW[-1], f"vllm:request_{x}_time_seconds_sum") for x in ("prefill", "decode"))
    assert value(subject, "prefill_share") == pytest.approx(p / (p + d), abs=1e-9)


def test_levels_use_every_page(subject: SubjectReport) -> None:
    for reading, name in (
        ("running_requests", "vllm:num_requests_running"),
        ("waiting_requests", "vllm:num_requests_waiting"),
        ("kv_usage", "vllm:kv_cache_usage_perc"),
    ):
        levels = [total(page, name) for page in RAW]
        found = subject.readings[reading]
        assert found.value == pytest.approx(levels[-1])
        assert found.extra["max"] == pytest.approx(max(levels))
        assert found.extra["mean"] == pytest.approx(sum(levels) / len(levels))
    assert value(subject, "kv_usage_peak") == pytest.approx(max(total(p, "vllm:kv_cache_usage_perc") for p in RAW))


def test_the_largest_burst_is_the_largest_run_of_pages(subject: SubjectReport) -> None:
    rows = [
        tuple(
            rise(a, b, f"vllm:request_{x}")
            for x in ("prefill_kv_computed_tokens_sum", "prefill_time_seconds_sum", "prefill_time_seconds_count")
        )
        for a, b in itertools.pairwise(RAW)
    ]
    best = 0.0
    for i in range(len(rows)):
        tokens = seconds = count = 0.0
        for t, p, n in rows[i:]:
            tokens, seconds, count = tokens + t, seconds + p, count + n
            if count >= 30 and seconds > 0:
                best = max(best, tokens / seconds)
    assert value(subject, "peak_computed_tokens_per_prefill_request_second") == pytest.approx(best, rel=1e-9)
    assert best > value(subject, "computed_tokens_per_prefill_request_second")


def test_rates_use_the_scrape_times(subject: SubjectReport) -> None:
    seconds = TIMES[-1] - TIMES[0]
    generated = rise(RAW[0], RAW[-1], "vllm:generation_tokens_total")
    assert value(subject, "generation_tokens_per_wall_second") == pytest.approx(generated / seconds)
    bands = subject.readings["generation_tokens_per_wall_second"].extra["by_running"]
    # Slices that were idle at both of their pages belong to no band.
    busy = [
        (b, t1 - t0)
        for (a, b), (t0, t1) in zip(itertools.pairwise(RAW), itertools.pairwise(TIMES), strict=True)
        if total(a, "vllm:num_requests_running") + total(b, "vllm:num_requests_running") > 0
    ]
    assert sum(b["seconds"] for b in bands) == pytest.approx(sum(t for _, t in busy))
    assert sum(b["count"] for b in bands) == len(busy)


def test_course(window: Window) -> None:
    report = audit_window(window, Options())
    assert report.course is not None
    finished = report.course["readings"]["finished_requests"]
    assert len(report.course["times"]) == len(finished) == len(PAGES) - 1
    assert finished == [rise(a, b, "vllm:request_success_total") for a, b in itertools.pairwise(RAW)]
    running = report.course["readings"]["running_requests"]
    assert running == [total(page, "vllm:num_requests_running") for page in RAW[1:]]


def test_without_times_there_is_no_rate() -> None:
    subject = only(audit(series=PAGES[:20]))
    assert state(subject, "prompt_tokens_per_wall_second") == "absent"
    assert "--times" in (subject.readings["prompt_tokens_per_wall_second"].reason or "")
    every = only(audit(series=PAGES[:20], every_seconds=2.0))
    assert value(every, "prompt_tokens_per_wall_second") == pytest.approx(value(every, "prompt_tokens") / 38)


ADD_UP = (
    "finished_requests",
    "prompt_tokens",
    "generation_tokens",
    "first_tokens",
    "prefill_seconds",
    "decode_seconds",
    "queue_seconds",
    "steps",
    "computed_prompt_tokens",
    "finished_prompt_tokens",
    "finished_generation_tokens",
    "unmatched_first_tokens",
    "unfinished_prompt_tokens",
    "user_requests",
    "preemptions",
)


def test_a_whole_is_the_sum_of_its_halves(window: Window) -> None:
    pick = random.Random(3)
    for _ in range(12):
        a, b, c = sorted(pick.sample(range(len(PAGES)), 3))
        whole, first, second = (only(audit_window(cut(window, *ends), Options())) for ends in ((a, c), (a, b), (b, c)))
        for name in ADD_UP:
            assert value(whole, name) == pytest.approx(value(first, name) + value(second, name), rel=1e-9, abs=1e-9), (
                name
            )
        p = value(first, "prefill_seconds") + value(second, "prefill_seconds")
        d = value(first, "decode_seconds") + value(second, "decode_seconds")
        if p + d > 0:
            assert value(whole, "prefill_share") == pytest.approx(p / (p + d), rel=1e-9)
        for subject in (whole, first, second):
            check_limits(subject.readings.values())


def test_bounds_of_a_cut_contain_what_the_whole_run_implies(window: Window) -> None:
    """The run begins and ends idle and nothing was cached, so the tokens of all steps are known for the whole.

    Whatever a cut's bounds say, steps and tokens of neighbouring cuts must be able to add up to the whole: the tokens
    that ran are shared out over windows, so the weighted lows stay below, and the weighted highs above, the truth.
    """
    folder = FOLDER
    before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")
    n = rise(before, after, "vllm:iteration_tokens_total_count")
    ran = rise(before, after, "vllm:prompt_tokens_total") + rise(before, after, "vllm:generation_tokens_total") - 260
    pick = random.Random(5)
    for _ in range(8):
        edges = sorted({0, len(PAGES) - 1, *pick.sample(range(1, len(PAGES) - 1), 4)})
        most = least = 0.0
        recorded = 0.0
        for a, b in itertools.pairwise(edges):
            subject = only(audit_window(cut(window, a, b), Options()))
            reading = subject.readings["tokens_per_step"]
            if reading.state == "no_traffic":
                continue
            steps = value(subject, "steps")
            low, high = reading.low, reading.high
            assert low is not None
            assert high is not None
            assert 1 <= low <= high <= BUDGET
            recorded += steps
            # high = (Y + E1) / N, so N x high is the most tokens that ran; low counts hidden steps as well.
            most += steps * high
            least += steps * low
        tail = rise(RAW[-1], after, "vllm:prompt_tokens_total") + rise(RAW[-1], after, "vllm:generation_tokens_total")
        assert recorded <= n
        assert least <= ran
        assert most >= ran - tail - 1


def test_recorded_small_steps_are_the_histogram(subject: SubjectReport) -> None:
    n8 = rise(RAW[0], RAW[-1], "vllm:iteration_tokens_total_bucket", le="8.0")
    n = rise(RAW[0], RAW[-1], "vllm:iteration_tokens_total_count")
    low, high = limits(subject, "small_step_share")
    assert high == pytest.approx(n8 / n)
    assert low is not None
    assert 0 <= low < n8 / n
    assert not math.isclose(low, 0)


def test_a_damaged_page_is_named_and_the_others_are_used(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("cut")
    cut_page = folder / "cut.prom"
    cut_page.write_bytes(b'# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine="0"} 12')
    window = gather(series=[PAGES[10], cut_page, PAGES[12], PAGES[14]], every_seconds=2.0)
    assert len(window.warnings) == 1
    assert window.warnings[0].startswith("cut.prom: ")
    assert window.coverage == pytest.approx(3 / 4)
    assert window.seconds == 6
    subject = only(audit_window(window, Options()))
    assert state(subject, "prompt_tokens") == "partial"
    assert value(subject, "prompt_tokens") == rise(RAW[10], RAW[14], "vllm:prompt_tokens_total")


def test_pages_in_the_wrong_order_are_the_callers_mistake() -> None:
    from auditor.model import UsageError

    with pytest.raises(UsageError, match="wrong order"):
        audit(series=[PAGES[30], PAGES[10]])


def test_a_page_that_jumps_back_and_forth_is_a_balancer() -> None:
    """Pages of two moments in turn look like two processes behind one address."""
    report = audit(series=[PAGES[10], PAGES[40], PAGES[11], PAGES[41]])
    (target,) = report.targets
    assert target["state"] == "not_one_process"
    assert "balancer" in target["reason"]
    assert report.exit_code == 3
