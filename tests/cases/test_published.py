"""The audit that started the project, on pages made from its published figures (fixtures/published/README.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditor.model import Options, SubjectReport
from tests.captures.support import FIXTURES, audit, limits, only, raw_page, rise, summary, value, verdict

FOLDER = FIXTURES / "published"
PAGES = [FOLDER / f"p{i}.prom.gz" for i in range(9)]


@pytest.fixture(scope="module")
def subject() -> SubjectReport:
    return only(
        audit(
            FOLDER / "t1.prom",
            before=FOLDER / "t0.prom",
            seconds=3600.0,
            options=Options(claims={"prefill_rate": 1860}),
        )
    )


@pytest.fixture(scope="module")
def series() -> SubjectReport:
    return only(audit(series=PAGES, every_seconds=450.0, settings={"budget": 8192}))


def test_the_pages_are_what_their_script_makes(tmp_path: Path) -> None:
    script = tmp_path / "make.py"
    script.write_text((FOLDER / "make.py").read_text())
    subprocess.run([sys.executable, str(script)], check=True, timeout=60)
    for name in ("t0.prom", "t1.prom"):
        assert (tmp_path / name).read_text() == (FOLDER / name).read_text()
    for page in PAGES:
        assert raw_page(tmp_path / page.name) == raw_page(page)


def test_decode_is_where_request_time_goes(subject: SubjectReport) -> None:
    reading = subject.readings["prefill_share"]
    assert reading.value == pytest.approx(0.134, abs=1e-9)
    assert value(subject, "decode_share") == pytest.approx(0.866, abs=1e-9)
    assert reading.count == 401
    assert reading.low is not None
    assert reading.high is not None
    assert 0.10 < reading.low < 0.134 < reading.high < 0.17
    assert verdict(subject, "time-split") == "broken"
    assert "13.4" in summary(subject, "time-split")
    assert "86.6" in summary(subject, "time-split")
    # Taken off the text by other means.
    before, after = raw_page(FOLDER / "t0.prom"), raw_page(FOLDER / "t1.prom")
    p, d = (rise(before, after, f"vllm:request_{x}_time_seconds_sum") for x in ("prefill", "decode"))
    assert reading.value == pytest.approx(p / (p + d), abs=1e-12)


def test_405_reasons_are_not_401_requests(subject: SubjectReport) -> None:
    assert value(subject, "finished_requests") == 405
    assert value(subject, "length_share") == pytest.approx(280 / 405)
    assert value(subject, "stop_share") == pytest.approx(125 / 405)
    assert "finish_counts_disagree" in subject.flags
    assert "405 finish reasons" in subject.facts["finish_counts_disagree"]
    assert "401 timed requests" in subject.facts["finish_counts_disagree"]
    assert verdict(subject, "length-truncation") == "broken"
    assert "280 of 405" in summary(subject, "length-truncation")


def test_the_cache_saved_nothing_whatever_look_ups_say(subject: SubjectReport) -> None:
    assert value(subject, "computed_prompt_tokens") == value(subject, "prompt_tokens") == 1860 * 3600
    assert value(subject, "prefix_hit_share") == 0
    assert value(subject, "lookup_hit_share") == pytest.approx(0.037, abs=1e-6)
    assert "lookups_contradict_computed" in subject.flags
    assert "3.7" in subject.facts["lookups_contradict_computed"]
    assert verdict(subject, "prefix-cache") == "broken"


def test_most_recorded_steps_are_small(subject: SubjectReport) -> None:
    low, high = limits(subject, "small_step_share")
    assert high == pytest.approx(0.838, abs=1e-9)
    assert low is not None
    assert low < 0.838
    assert verdict(subject, "step-fill") == "broken"


def test_the_number_in_the_notes_is_no_prefill_rate(subject: SubjectReport) -> None:
    assert value(subject, "prompt_tokens_per_wall_second") == pytest.approx(1860)
    (claim,) = subject.claims
    assert claim.claim == "prefill_rate"
    assert claim.matches == ("prompt_tokens_per_wall_second",)
    assert claim.is_what_it_says is False
    assert claim.right == ("computed_tokens_per_prefill_request_second", value(subject, claim.right[0]))
    assert value(subject, "naive_rate_error") == pytest.approx(6_696_000 / 405 * 401 / 1030 / 1860, rel=0.02)
    assert verdict(subject, "derived-rates") == "broken"


def test_the_burst_is_six_times_the_number(series: SubjectReport) -> None:
    burst = value(series, "peak_computed_tokens_per_prefill_request_second")
    assert burst == pytest.approx(11_000, rel=1e-6)
    assert series.readings["peak_computed_tokens_per_prefill_request_second"].count == 60
    assert burst / value(series, "prompt_tokens_per_wall_second") == pytest.approx(5.9, abs=0.05)
    assert any("burst" in c for c in series.readings["peak_computed_tokens_per_prefill_request_second"].caveats)


def test_kv_was_never_the_limit(series: SubjectReport) -> None:
    assert value(series, "kv_usage_peak") == 0.5
    assert value(series, "kv_pool_tokens") == 1_110_893
    assert value(series, "max_model_len") == 768_000
    assert value(series, "kv_max_concurrency") == pytest.approx(1.4465, abs=1e-4)
    assert "kv_bound" not in series.flags
    assert verdict(series, "kv-pool") == "holds"
    assert verdict(series, "queueing") in ("holds", "undecided")
