"""Published reports about SGLang: cases 07, 08 and 09, and the freeze on schedules of our own making."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.model import SubjectReport
from tests.engines.pages import FIXTURES, audit_pages, value, verdicts, write_page

CASES = FIXTURES / "cases"
CASE_09 = json.loads((CASES / "09-sglang-prefill-first-starvation" / "input.json").read_text(encoding="utf-8"))


def test_case_07_ranks_add() -> None:
    (subject,) = audit_pages(CASES / "07-sglang-dp-ranks-add" / "input.prom").subjects
    rate = subject.readings["reported_generation_rate"]
    assert rate.value == pytest.approx(772.4739, abs=1e-4)
    assert "kept when idle" in " ".join(rate.caveats)
    assert value(subject, "running_requests") == 9


def test_case_08_the_share_comes_from_counters() -> None:
    folder = CASES / "08-sglang-hit-gauge-vs-counters"
    (subject,) = audit_pages(folder / "input.t1.prom", before=folder / "input.t0.prom").subjects
    assert value(subject, "prefix_hit_share") == pytest.approx(0.60)
    assert value(subject, "device_hit_share") == pytest.approx(0.42)
    assert value(subject, "host_hit_share") == pytest.approx(0.18)
    assert "cache_hit_rate" not in subject.readings["prefix_hit_share"].sources
    assert "0 after every decode log line" in (subject.readings["lookup_hit_share"].reason or "")


def _case_09(folder: Path, decode_batches: int, *, finished: int = 0, seconds: float = 900) -> SubjectReport:
    """The published window as a pair of pages: its batches, its streams, one token a stream and decode batch."""
    streams = CASE_09["running_streams_min"]
    kinds = {"sglang:cuda_graph_passes_total": "counter", "sglang:num_requests_total": "counter"}

    def page(name: str, prefill: float, decode: float, done: float) -> Path:
        return write_page(
            folder / name,
            {
                'sglang:cuda_graph_passes_total{mode="prefill_none",model_name="m"}': 100 + prefill,
                'sglang:cuda_graph_passes_total{mode="decode_cuda_graph",model_name="m"}': 900 + decode,
                'sglang:realtime_tokens_total{mode="prefill_compute",model_name="m"}': 8192 * (100 + prefill),
                'sglang:realtime_tokens_total{mode="decode",model_name="m"}': streams * (900 + decode),
                'sglang:num_running_reqs{model_name="m"}': streams,
                'sglang:num_queue_reqs{model_name="m"}': 40,
                'sglang:token_usage{model_name="m"}': 0.31,
                'sglang:num_requests_total{model_name="m"}': 500 + done,
                'sglang:num_aborted_requests_total{model_name="m"}': 1,
                'sglang:num_retracted_requests_total{model_name="m"}': 1,
                'sglang:time_to_first_token_seconds_count{model_name="m"}': 760,
                'sglang:time_to_first_token_seconds_sum{model_name="m"}': 900,
                'sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"}': 760,
            },
            kinds=kinds,
        )

    before = page("t0.prom", 0, 0, 0)
    after = page("t1.prom", CASE_09["prefill_batches"], decode_batches, finished)
    (subject,) = audit_pages(after, before=before, seconds=seconds).subjects
    return subject


@pytest.mark.parametrize(
    ("decode_batches", "share", "apart"),
    [(CASE_09["decode_batches_low"], 0.0124, 25.0), (CASE_09["decode_batches_high"], 0.0131, 23.68)],
)
def test_case_09_streams_starve(tmp_path: Path, decode_batches: int, share: float, apart: float) -> None:
    subject = _case_09(tmp_path, decode_batches)
    assert value(subject, "decode_pass_share") == pytest.approx(share, abs=5e-5)
    assert value(subject, "seconds_per_decode_pass") == pytest.approx(apart, abs=5e-3)
    assert value(subject, "frozen_pass_share") == pytest.approx(2863 / (2863 + decode_batches))
    audit = next(v for v in subject.audits if v.audit == "decode-freeze")
    assert audit.verdict == "broken"
    assert f"one decode pass every {apart:.3g} s" in audit.summary
    advice = " ".join(audit.next)
    assert "scheduling is the cause" in advice
    assert "KV pool, queue size and hit rate are not the lever" in advice
    assert "mixed chunking is reported to have no effect together with speculative decoding" in advice
    # 36 x 250 tokens in 900 s with 250 streams: nothing finished, so the engine counts as starved too.
    assert "scheduler_starvation" in subject.flags
    assert "kv_bound" not in subject.flags
    # Few passes for many streams say that they are frozen; they say nothing about request time.
    assert subject.readings["prefill_share"].state == "not_exported"


def test_without_a_stream_seated_for_sure_it_is_a_range(tmp_path: Path) -> None:
    """300 requests left a batch of 250: it may have been empty in between."""
    subject = _case_09(tmp_path, 36, finished=300)
    frozen = subject.readings["frozen_pass_share"]
    assert (frozen.state, frozen.low) == ("bounded", 0.0)
    assert frozen.high == pytest.approx(2863 / 2899)
    assert verdicts(subject)["decode-freeze"] == "undecided"


def test_an_old_gauge_proves_nobody_seated(tmp_path: Path) -> None:
    """The gauge says 250 at the start, and the decode passes held 4 streams: it was left over from before."""
    rows = {"prefill": (10, 210), "decode": (10, 110)}
    pages = []
    for i in (0, 1):
        pages.append(
            write_page(
                tmp_path / f"t{i}.prom",
                {
                    'sglang:cuda_graph_passes_total{mode="prefill_none",model_name="m"}': rows["prefill"][i],
                    'sglang:cuda_graph_passes_total{mode="decode_none",model_name="m"}': rows["decode"][i],
                    'sglang:realtime_tokens_total{mode="prefill_compute",model_name="m"}': 256 * rows["prefill"][i],
                    'sglang:realtime_tokens_total{mode="decode",model_name="m"}': 4 * rows["decode"][i],
                    'sglang:num_running_reqs{model_name="m"}': 250,
                    'sglang:num_requests_total{model_name="m"}': 7,
                    'sglang:num_aborted_requests_total{model_name="m"}': 1,
                    'sglang:num_retracted_requests_total{model_name="m"}': 1,
                },
            )
        )
    (subject,) = audit_pages(pages[1], before=pages[0], seconds=60).subjects
    assert subject.readings["frozen_pass_share"].low == 0.0


def _timed(folder: Path, category: dict[str, float], name: str = "forward_execution_seconds_total") -> SubjectReport:
    pages = []
    for i in (0, 1):
        samples = {
            f'sglang:{name}{{category="{kind}",model_name="m",tp_rank="0"}}': 5.0 + seconds * i
            for kind, seconds in category.items()
        }
        samples |= {
            'sglang:cuda_graph_passes_total{mode="prefill_none",model_name="m"}': 100 * i,
            'sglang:cuda_graph_passes_total{mode="decode_none",model_name="m"}': 900 * i,
            'sglang:num_running_reqs{model_name="m"}': 8,
            'sglang:num_requests_total{model_name="m"}': 2,
            'sglang:num_aborted_requests_total{model_name="m"}': 1,
            'sglang:num_retracted_requests_total{model_name="m"}': 1,
        }
        pages.append(write_page(folder / f"t{i}.prom", samples))
    (subject,) = audit_pages(pages[1], before=pages[0], seconds=60).subjects
    return subject


@pytest.mark.parametrize(
    ("name", "prefill", "decode"),
    [
        ("forward_execution_seconds_total", "extend", "decode"),
        ("gpu_execution_seconds_total", "forward_extend", "forward_decode"),
        ("gpu_execution_seconds_total", "forward_prefill", "forward_decode"),
        ("forward_execution_seconds_total", "extend", "target_verify"),
    ],
)
def test_timed_passes_split_the_engine_not_the_requests(tmp_path: Path, name: str, prefill: str, decode: str) -> None:
    """36 of 60 busy seconds in prefill: one pass in ten, and most of the time."""
    subject = _timed(tmp_path, {prefill: 36.0, decode: 24.0}, name)
    assert value(subject, "engine_prefill_share") == pytest.approx(0.6)
    assert value(subject, "frozen_time_share") == pytest.approx(0.6)
    assert value(subject, "frozen_pass_share") == pytest.approx(0.1)
    assert verdicts(subject)["decode-freeze"] == "broken"


def test_mixed_passes_make_engine_time_a_range(tmp_path: Path) -> None:
    subject = _timed(tmp_path, {"extend": 6.0, "mixed": 30.0, "decode": 24.0})
    share = subject.readings["engine_prefill_share"]
    assert share.state == "bounded"
    assert share.low == pytest.approx(0.1)
    assert share.high == pytest.approx(0.6)
    assert value(subject, "frozen_time_share") == pytest.approx(0.1)


def test_untimed_passes_say_what_would_time_them() -> None:
    folder = FIXTURES / "sglang" / "0.5.23" / "overload-queue"
    (subject,) = audit_pages(folder / "after.prom", before=folder / "before.prom").subjects
    assert subject.readings["frozen_time_share"].state == "not_exported"
    assert "SGLANG_ENABLE_METRICS_DEVICE_TIMER=1" in (subject.readings["frozen_time_share"].reason or "")
    frozen = subject.readings["frozen_pass_share"]
    assert frozen.low == 0.0
    assert frozen.high == pytest.approx(13 / 911)
    audit = next(v for v in subject.audits if v.audit == "decode-freeze")
    assert audit.verdict == "holds"
    assert "passes are not timed" in audit.summary


def test_releases_that_count_decode_passes_only_show_no_share(tmp_path: Path) -> None:
    pages = [
        write_page(
            tmp_path / f"t{i}.prom",
            {
                'sglang:cuda_graph_passes_total{mode="decode_cuda_graph",model_name="m"}': 100 + 50 * i,
                'sglang:realtime_tokens_total{mode="prefill_compute",model_name="m"}': 1000 + 4000 * i,
                'sglang:num_running_reqs{model_name="m"}': 8,
            },
        )
        for i in (0, 1)
    ]
    (subject,) = audit_pages(pages[1], before=pages[0], seconds=60).subjects
    for name in ("decode_pass_share", "frozen_pass_share", "steps", "tokens_per_step"):
        assert subject.readings[name].state == "not_exported", name
        assert "decode passes only" in (subject.readings[name].reason or "")


def test_vllm_shares_its_steps_so_nothing_freezes() -> None:
    folder = FIXTURES / "vllm" / "0.32.0" / "a-decode-heavy"
    (subject,) = audit_pages(folder / "after.prom", before=folder / "before.prom").subjects
    assert subject.readings["frozen_pass_share"].state == "not_exported"
    assert verdicts(subject)["decode-freeze"] == "not_applicable"
