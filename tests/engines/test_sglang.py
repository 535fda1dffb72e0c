"""SGLang 0.5.23: recorded loads against what their client saw."""

from __future__ import annotations

import pytest

from auditor.model import Options
from tests.engines.pages import FIXTURES, audit_capture, audit_pages, client_truth, value, verdicts

RECORDED = FIXTURES / "sglang" / "0.5.23"
TWO_RANKS = FIXTURES / "sglang" / "0.5.23-dp2" / "mixed-dp2-priority"
# Loads in which each request is one sequence and no client went away.
PLAIN = ("mixed", "prefix-hit", "prefix-miss", "overload-queue", "retracted", "stopped", "truncated")


@pytest.mark.parametrize("name", PLAIN)
def test_tokens_and_requests_are_what_the_client_saw(name: str) -> None:
    truth = client_truth(RECORDED / name)
    subject = audit_capture(RECORDED / name, seconds=truth["wall_s"])
    assert value(subject, "prompt_tokens") == truth["prompt_tokens"]
    assert value(subject, "cached_prompt_tokens") == truth["cached_tokens"]
    assert value(subject, "computed_prompt_tokens") == truth["prompt_tokens"] - truth["cached_tokens"]
    assert value(subject, "generation_tokens") == truth["completion_tokens"]
    assert value(subject, "finished_requests") == truth["requests"]
    assert value(subject, "first_tokens") == truth["requests"]
    assert value(subject, "prefix_hit_share") == pytest.approx(truth["cached_tokens"] / truth["prompt_tokens"])
    assert value(subject, "generation_tokens_per_wall_second") == pytest.approx(
        truth["completion_tokens"] / truth["wall_s"]
    )
    assert value(subject, "unfinished_prompt_tokens") == 0
    assert value(subject, "user_requests") == truth["requests"]


@pytest.mark.parametrize("name", PLAIN)
def test_the_page_hides_nothing_of_its_times(name: str) -> None:
    """Client-side request time contains the engine's; non-streaming clients see no first token of their own."""
    truth = client_truth(RECORDED / name)
    subject = audit_capture(RECORDED / name)
    seen = sum(r["e2e"] for r in truth["records"])
    e2e = subject.readings["e2e_seconds"]
    assert e2e.value is not None
    assert e2e.count == truth["requests"]
    assert 0.5 * seen < e2e.value * truth["requests"] <= seen * 1.01


def test_decode_time_is_a_range() -> None:
    """overload-queue: 730.418 s end to end, 207.750 s to first tokens, 5.127 s in prefill, 196.318 s in the queue."""
    subject = audit_capture(RECORDED / "overload-queue")
    decode = subject.readings["decode_seconds"]
    assert (decode.state, decode.value, decode.low) == ("bounded", None, 0.0)
    assert decode.high == pytest.approx(730.4181 - 207.7500, abs=0.001)
    assert "no decode time" in (decode.reason or "")
    prefill = subject.readings["prefill_share"]
    assert (prefill.state, prefill.high) == ("bounded", 1.0)
    assert prefill.low == pytest.approx(5.12676 / (5.12676 + 522.6681), rel=1e-4)
    queue = subject.readings["queue_share"]
    assert queue.low == pytest.approx(196.31774 / (196.31774 + 5.12676 + 522.6681), rel=1e-4)
    assert queue.high == pytest.approx(196.31774 / (196.31774 + 5.12676), rel=1e-4)
    # (time to first token - queue - prefill) / end to end: decode, whatever it is, cancels.
    assert value(subject, "hidden_wait_share") == pytest.approx((207.7500 - 196.31774 - 5.12676) / 730.4181, abs=1e-5)


def test_a_queue_breaks_its_premise_though_decode_is_a_range() -> None:
    subject = audit_capture(RECORDED / "overload-queue", options=Options(min_requests=20))
    assert verdicts(subject)["queueing"] == "broken"
    assert verdicts(subject)["time-split"] == "undecided"


def test_passes_give_what_a_step_holds() -> None:
    """13 prefill passes of 2,980 tokens (chunk 256), 898 decode passes of 8,980 tokens (10 streams)."""
    subject = audit_capture(RECORDED / "overload-queue")
    assert value(subject, "prefill_tokens_per_pass") == pytest.approx(2980 / 13)
    assert value(subject, "decode_tokens_per_pass") == pytest.approx(10.0)
    assert value(subject, "steps") == 911
    assert value(subject, "tokens_per_step") == pytest.approx((2980 + 8980) / 911)
    assert subject.readings["small_step_share"].state == "not_exported"


def test_a_retraction_is_no_hit() -> None:
    """109 retractions: the live counters claim 14,566 cached tokens, the client saw 0."""
    subject = audit_capture(RECORDED / "retracted")
    assert value(subject, "preemptions") == 109
    assert value(subject, "prefix_hit_share") == 0
    assert value(subject, "cached_prompt_tokens") == 0
    assert subject.readings["preemptions_per_request"].value == pytest.approx(109 / 8)
    assert verdicts(subject)["preemption"] == "broken"


def test_older_pages_with_retractions_do_not_believe_live_hits(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without the counter that leaves retractions out, tokens counted at finish are used: 0 of 205, not 14,566."""
    folder = tmp_path_factory.mktemp("older")
    for name in ("before.prom", "after.prom"):
        text = (RECORDED / "retracted" / name).read_text(encoding="utf-8")
        kept = [line for line in text.splitlines() if "prefill_effective" not in line and "uncached" not in line]
        (folder / name).write_text("\n".join(kept) + "\n", encoding="utf-8")
    subject = audit_capture(folder)
    hits = subject.readings["prefix_hit_share"]
    assert (hits.value, hits.count) == (0.0, 205.0)
    assert hits.sources == ("prompt_tokens", "cached_tokens")


def test_live_tokens_serve_where_nothing_was_retracted(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("older")
    for name in ("before.prom", "after.prom"):
        text = (RECORDED / "prefix-hit" / name).read_text(encoding="utf-8")
        kept = [line for line in text.splitlines() if "prefill_effective" not in line and "uncached" not in line]
        kept.append('sglang:num_retracted_requests_total{model_name="tiny-llama"} 3.0')
        (folder / name).write_text("\n".join(kept) + "\n", encoding="utf-8")
    hits = audit_capture(folder).readings["prefix_hit_share"]
    assert hits.sources == ("scheduled_prompt_tokens",)
    assert hits.value == pytest.approx(2318 / 2808)


def test_several_sequences_a_request_are_told_from_requests() -> None:
    """3 requests with n = 4: 15 sequences and 605 prompt tokens where the client sent 3 and 121."""
    subject = audit_capture(RECORDED / "n4-parallel")
    assert value(subject, "user_requests") == 3
    assert value(subject, "sequences") == 15
    assert value(subject, "prompt_tokens") == 605
    assert "parallel_sampling_inflates_counts_and_hits" in subject.flags
    assert (
        "15 sequences ended for at most 3 POST requests" in subject.facts["parallel_sampling_inflates_counts_and_hits"]
    )
    assert verdicts(subject)["prefix-cache"] == "undecided"


@pytest.mark.parametrize("name", PLAIN)
def test_one_sequence_a_request_sets_no_flag(name: str) -> None:
    assert "parallel_sampling_inflates_counts_and_hits" not in audit_capture(RECORDED / name).flags


def test_aborts_are_counted_and_are_no_finish_reason() -> None:
    """5 of 8 clients went away after three chunks."""
    subject = audit_capture(RECORDED / "aborted")
    assert value(subject, "aborted_requests") == 5
    assert value(subject, "finished_requests") == 8
    for name in ("length_share", "stop_share", "error_share", "abort_share"):
        assert subject.readings[name].state == "not_exported"
        assert "in no release" in (subject.readings[name].reason or "")
    assert verdicts(subject)["length-truncation"] == "not_applicable"


def test_too_long_prompts_show_in_http_answers_only() -> None:
    subject = audit_capture(RECORDED / "too-long")
    assert value(subject, "http_error_responses") == 3
    assert value(subject, "finished_requests") == 0
    assert "no_traffic" in subject.flags


def test_nothing_ran_yet_is_zero_and_not_missing() -> None:
    """A fresh server writes most of its series with their first event."""
    (subject,) = audit_pages(RECORDED / "fresh" / "after.prom").subjects
    assert value(subject, "prompt_tokens") == 0
    assert value(subject, "finished_requests") == 0
    assert subject.readings["prefill_share"].state == "no_traffic"
    assert subject.readings["decode_seconds"].value == 0
    assert subject.readings["length_share"].state == "not_exported"


def test_an_idle_window_has_no_traffic() -> None:
    subject = audit_capture(RECORDED / "idle-40s", seconds=40)
    assert "no_traffic" in subject.flags
    assert value(subject, "finished_requests") == 0
    assert subject.readings["prefix_hit_share"].state == "no_traffic"


def test_no_hit_yet_is_a_share_of_zero() -> None:
    """before.prom of ``mixed`` has no cached_tokens_total at all; prefix-miss hits nothing."""
    subject = audit_capture(RECORDED / "prefix-miss")
    assert value(subject, "prefix_hit_share") == 0
    assert value(subject, "device_hit_share") == 0
    assert verdicts(subject)["prefix-cache"] == "broken"


def test_data_parallel_ranks_add_and_priorities_do_not() -> None:
    """16 requests over two ranks of 4,096 tokens each; gauges show a total beside its parts by priority."""
    truth = client_truth(TWO_RANKS)
    subject = audit_capture(TWO_RANKS, seconds=truth["wall_s"])
    assert value(subject, "prompt_tokens") == truth["prompt_tokens"] == 977
    assert value(subject, "cached_prompt_tokens") == truth["cached_tokens"] == 9
    assert value(subject, "generation_tokens") == truth["completion_tokens"]
    assert value(subject, "finished_requests") == 16
    assert value(subject, "kv_pool_tokens") == 8192
    assert value(subject, "steps") == 7 + 55 + 7 + 92
    assert value(subject, "engine_skew") == 1.0
    assert subject.settings["context"].value == 2048
    assert len(subject.parts) == 2


def test_the_total_beside_its_priorities_is_not_added(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("priority")
    gauge = 'sglang:num_running_reqs{{dp_rank="{rank}",model_name="m",priority="{priority}"}} {value}'
    rows = [
        gauge.format(rank=rank, priority=priority, value=value)
        for rank in "01"
        for priority, value in (("", 5), ("0", 2), ("1", 3))
    ]
    page = folder / "page.prom"
    page.write_text("\n".join(["# TYPE sglang:num_running_reqs gauge", *rows]) + "\n", encoding="utf-8")
    (subject,) = audit_pages(page).subjects
    assert value(subject, "running_requests") == 10


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_tensor_parallel_copies_are_one_engine(tmp_path_factory: pytest.TempPathFactory, copies: int) -> None:
    """Scheduler series carry tp_rank: with metrics for all schedulers every rank shows the same work."""
    folder = tmp_path_factory.mktemp("tp")
    for name in ("before.prom", "after.prom"):
        lines = (RECORDED / "overload-queue" / name).read_text(encoding="utf-8").splitlines()
        out = []
        for line in lines:
            out.append(line)
            if 'tp_rank="0"' in line and not line.startswith("#"):
                out += [line.replace('tp_rank="0"', f'tp_rank="{i}"') for i in range(1, copies)]
        (folder / name).write_text("\n".join(out) + "\n", encoding="utf-8")
    subject, plain = audit_capture(folder), audit_capture(RECORDED / "overload-queue")
    assert {k: r.value for k, r in subject.readings.items()} == {k: r.value for k, r in plain.readings.items()}
    assert {k: r.low for k, r in subject.readings.items()} == {k: r.low for k, r in plain.readings.items()}


def test_gauges_that_keep_the_last_batch_decide_nothing() -> None:
    """cache_hit_rate says 0.975 after n4-parallel and 0.893 after prefix-hit; no reading comes from it."""
    subject = audit_capture(RECORDED / "prefix-hit")
    assert subject.readings["lookup_hit_share"].state == "not_exported"
    assert "cache_hit_rate" in (subject.readings["lookup_hit_share"].reason or "")
    assert "cache_hit_rate" in " ".join(subject.readings["prefix_hit_share"].caveats)


def test_not_a_number_on_the_page_reaches_no_reading() -> None:
    """fwd_occupancy is NaN while its timer is off."""
    assert "} nan" in (RECORDED / "mixed" / "after.prom").read_text(encoding="utf-8").lower()
    subject = audit_capture(RECORDED / "mixed")
    assert all(r.state != "failed" for r in subject.readings.values())
    assert not [name for name, r in subject.readings.items() if r.reason and "NaN" in r.reason]


@pytest.mark.parametrize("folder", sorted(p.parent for p in RECORDED.glob("*/after.prom")), ids=lambda p: p.name)
def test_every_reading_is_a_number_or_a_reason(folder) -> None:  # type: ignore[no-untyped-def]
    before = folder / "before.prom"
    report = audit_pages(folder / "after.prom", before=before if before.exists() else None)
    for subject in report.subjects:
        for reading in subject.readings.values():
            assert reading.value is not None or reading.reason, reading.name
        assert "error" not in verdicts(subject).values()


def test_gaps_of_streams_are_not_divided_into_all_tokens() -> None:
    """mixed: 96 gaps of 6 streaming requests, 198 tokens after the first of all 12."""
    subject = audit_capture(RECORDED / "mixed")
    assert subject.readings["itl_seconds"].count == 96
    assert subject.readings["tokens_per_output_event"].state == "not_exported"
    per_token = subject.readings["decode_seconds_per_token"]
    assert per_token.state == "bounded"
    assert per_token.high == pytest.approx(55.68649 / 198, rel=1e-5)


def test_work_in_progress_is_divided_by_itself(tmp_path_factory: pytest.TempPathFactory) -> None:
    """1,000 prompt tokens were prefilled, 600 of them hits, and 200 belong to requests that ended: 0.6, not 3."""
    folder = tmp_path_factory.mktemp("in-progress")
    rows = {
        'sglang:prefill_effective_tokens_total{mode="input",model_name="m"}': (50, 450),
        'sglang:prefill_effective_tokens_total{mode="device_hit",model_name="m"}': (10, 610),
        'sglang:prompt_tokens_total{model_name="m"}': (40, 240),
        'sglang:num_requests_total{model_name="m"}': (1, 3),
        'sglang:num_running_reqs{model_name="m"}': (4, 9),
    }
    for i, name in enumerate(("before.prom", "after.prom")):
        text = "\n".join(f"{series} {values[i]}" for series, values in rows.items())
        (folder / name).write_text(text + "\n", encoding="utf-8")
    subject = audit_capture(folder)
    hits = subject.readings["prefix_hit_share"]
    assert (hits.value, hits.count) == (0.6, 1000.0)
    assert value(subject, "prompt_tokens") == 200
