"""The right values that the design names for single captures, each from the pages or the flags of its server."""

from __future__ import annotations

import pytest

from auditor.model import Options
from tests.captures.support import (
    FIXTURES,
    VLLM,
    audit,
    audit_capture,
    limits,
    only,
    raw_page,
    rise,
    scrape_distance,
    state,
    summary,
    truth,
    value,
    verdict,
)

NEW, OLD = VLLM / "0.32.0", VLLM / "0.11.0"


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("a-decode-heavy", 0.0162),
        ("b-prefill-heavy", 0.1118),
        ("c-shared-prefix", 0.1545),
        ("d-prefix-off", 0.0803),
        ("h-spec-ngram", 0.0739),
        ("i-aborts", 0.0191),
        ("p-preemption", 0.0098),
    ],
)
def test_hidden_wait_share(name: str, share: float) -> None:
    assert value(audit_capture(NEW / name), "hidden_wait_share") == pytest.approx(share, abs=5e-5)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("a-decode-heavy", 0.003106),
        ("b-prefill-heavy", 0.28669),
        ("c-shared-prefix", 0.00702),
        ("d-prefix-off", 0.10834),
        ("i-aborts", 0.002919),
        ("p-preemption", 0.00533),
    ],
)
def test_decode_seconds_per_token(name: str, seconds: float) -> None:
    assert value(audit_capture(NEW / name), "decode_seconds_per_token") == pytest.approx(seconds, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("a-decode-heavy", 8.15),
        ("b-prefill-heavy", 0.688),
        ("c-shared-prefix", 0.044),
        ("d-prefix-off", 0.843),
        ("i-aborts", 13.1),
        ("p-preemption", 6.85),
    ],
)
def test_the_naive_rate_is_wrong_either_way(name: str, error: float) -> None:
    subject = audit_capture(NEW / name)
    assert value(subject, "naive_rate_error") == pytest.approx(error, rel=0.006)
    # 24 requests are too few for a verdict on p, and a rate that happens to be near proves nothing.
    decided = value(subject, "finished_requests") >= 30 and not 0.5 <= error <= 2
    assert verdict(subject, "derived-rates") == ("broken" if decided else "undecided")


def test_tokens_per_output_event() -> None:
    assert value(audit_capture(NEW / "i-aborts"), "tokens_per_output_event") == 1.0
    # 2,880 tokens of 30 requests in 668 gaps.
    assert value(audit_capture(NEW / "h-spec-ngram"), "tokens_per_output_event") == pytest.approx((2880 - 30) / 668)


def test_speculation_counters() -> None:
    folder = NEW / "h-spec-ngram"
    before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")
    drafts, drafted, kept = (
        rise(before, after, f"vllm:spec_decode_num_{x}_total") for x in ("drafts", "draft_tokens", "accepted_tokens")
    )
    subject = audit_capture(folder)
    assert value(subject, "tokens_per_draft_step") == pytest.approx(1 + kept / drafts)
    assert value(subject, "draft_acceptance") == pytest.approx(kept / drafted)
    assert value(subject, "kept_share_of_verified") == pytest.approx((1 + kept / drafts) / (1 + drafted / drafts))
    # Draft tokens are in no counter of steps: nothing is known from below or above.
    assert limits(subject, "tokens_per_step")[1] is None
    assert limits(subject, "full_step_share")[1] == 1
    assert limits(subject, "small_step_share")[0] == 0


def test_share_is_no_bound_c_against_d() -> None:
    """The same requests with the prefix cache on and off."""
    on, off = audit_capture(NEW / "c-shared-prefix"), audit_capture(NEW / "d-prefix-off")
    assert value(on, "prefill_seconds") == pytest.approx(2.34, abs=0.005)
    assert value(on, "decode_seconds") == pytest.approx(4.21, abs=0.005)
    assert value(off, "prefill_seconds") == pytest.approx(37.40, abs=0.005)
    assert value(off, "decode_seconds") == pytest.approx(65.00, abs=0.005)
    assert value(on, "cached_prompt_tokens") == 159_744
    assert value(on, "prefix_hit_share") == pytest.approx(159_744 / 165_446)
    assert value(on, "device_hit_share") == pytest.approx(159_744 / 165_446)
    assert value(on, "host_hit_share") == 0
    assert state(on, "external_hit_share") == "no_traffic"
    assert value(off, "prefix_hit_share") == 0
    assert "cache_off" in off.flags
    assert verdict(off, "prefix-cache") == "broken"
    assert verdict(on, "prefix-cache") == "holds"
    assert "request time" in summary(off, "time-split")


def test_the_cache_of_the_old_release_by_look_ups() -> None:
    """0.11 has no computed tokens; each prompt was looked up once, so hits over look-ups may be used."""
    subject = audit_capture(OLD / "c-shared-prefix")
    reading = subject.readings["prefix_hit_share"]
    assert reading.value == pytest.approx(159_744 / 165_446)
    assert "prefix_hit_tokens" in reading.sources
    assert value(subject, "query_inflation") == 1
    assert state(subject, "prefill_ms_per_computed_token") == "not_exported"
    assert "old_and_new_names" in subject.flags


def test_api_servers_record_each_step_twice() -> None:
    folder = NEW / "g-api-servers-2"
    subject = audit_capture(folder)
    for name in ("steps", "tokens_per_step", "small_step_share", "full_step_share", "min_steps"):
        assert state(subject, name) == "invalid"
        assert "1.59 times the window" in (subject.readings[name].reason or "")
    assert "steps_per_front_end" in subject.flags
    assert verdict(subject, "step-fill") == "undecided"
    assert value(subject, "kv_pool_tokens") == 524_288
    # Without the window's length nobody can see it by time.
    unknown = only(audit(folder / "after.prom", before=folder / "before.prom"))
    assert "steps_per_front_end" not in unknown.flags


def test_two_data_parallel_engines() -> None:
    folder = NEW / "g-data-parallel-2"
    before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")
    each = [rise(before, after, "vllm:request_success_total", engine=e) for e in ("0", "1")]
    subject = audit_capture(folder)
    assert value(subject, "kv_pool_tokens") == 1_048_576
    assert value(subject, "finished_requests") == sum(each) == 40
    assert value(subject, "engine_skew") == pytest.approx(max(each) / 20) == pytest.approx(1.1)
    assert [p["labels"]["rank"] for p in subject.parts] == ["0", "1"]
    assert [p["readings"]["finished_requests"]["value"] for p in subject.parts] == each
    # API servers default to the number of engines: two front ends each record the steps of both.
    assert state(subject, "steps") == "invalid"
    steps = rise(before, after, "vllm:iteration_tokens_total_count")
    gap = rise(before, after, "vllm:inter_token_latency_seconds_sum") / rise(
        before, after, "vllm:inter_token_latency_seconds_count"
    )
    busy = steps * gap / scrape_distance(truth(folder)) / 2
    assert busy == pytest.approx(1.36, abs=0.005)
    assert f"{busy:.2f} times the window" in (subject.readings["steps"].reason or "")
    report = audit(folder / "after.prom", before=folder / "before.prom", options=Options(by="rank"))
    assert [s.labels["rank"] for s in report.subjects] == ["0", "1"]
    assert [value(s, "admission_rejections") for s in report.subjects] == [0, 0]
    assert [value(s, "finished_requests") for s in report.subjects] == each
    assert [value(s, "kv_pool_tokens") for s in report.subjects] == [524_288, 524_288]


def test_two_served_names_are_one_model() -> None:
    """The page knows the first name only; requests to both count under it."""
    subject = audit_capture(NEW / "m-two-names")
    assert subject.labels["model"] == "tiny"
    assert value(subject, "finished_requests") == 20


def test_restart_counts_from_the_restart() -> None:
    folder = NEW / "f-restart"
    client = truth(folder / "boot2")
    report = audit(folder / "after.prom", before=folder / "before.prom")
    subject = only(report)
    assert report.window["restarts"] == 1
    assert {"counter_reset", "cold_start"} <= set(subject.flags)
    assert state(subject, "finished_requests") == "partial"
    assert value(subject, "finished_requests") == client["requests"] == 20
    assert value(subject, "prompt_tokens") == client["prompt_tokens_usage"]
    assert value(subject, "generation_tokens") == client["completion_tokens_usage"]
    boot2 = audit_capture(folder / "boot2")
    for name in ("prefill_share", "hidden_wait_share", "decode_seconds_per_token", "small_step_share"):
        assert value(subject, name) == pytest.approx(value(boot2, name), rel=1e-9), name


def test_restart_leaves_no_rate_over_a_length_that_began_earlier() -> None:
    folder = NEW / "f-restart"
    subject = only(audit(folder / "after.prom", before=folder / "before.prom", seconds=100.0))
    assert state(subject, "prompt_tokens_per_wall_second") == "invalid"
    assert "restarted" in (subject.readings["generation_tokens_per_wall_second"].reason or "")


def test_lives_of_a_series_are_added() -> None:
    """boot 1 start, boot 1 end, boot 2 start, boot 2 end: both boots' requests, nothing twice."""
    folder = NEW / "f-restart"
    pages = [folder / boot / page for boot in ("boot1", "boot2") for page in ("before.prom", "after.prom")]
    report = audit(series=pages, every_seconds=10.0)
    subject = only(report)
    assert report.window["restarts"] == 1
    assert value(subject, "finished_requests") == 30 + 20
    assert value(subject, "prompt_tokens") == 670 + 452
    assert value(subject, "generation_tokens") == 3345 + 2006
    assert state(subject, "prefill_share") == "partial"
    one, two = audit_capture(folder / "boot1"), audit_capture(folder / "boot2")
    both = value(one, "prefill_seconds") + value(two, "prefill_seconds")
    assert value(subject, "prefill_seconds") == pytest.approx(both, abs=1e-9)
    assert report.course is not None
    assert [v or 0 for v in report.course["readings"]["finished_requests"]] == [30, 0, 20]


def test_pool_of_each_boot() -> None:
    """Three boots sized their pools alike: 16,685 and twice 16,686 blocks of 128 tokens; all are idle."""
    blocks = (16_685, 16_686, 16_686)
    for i, count in enumerate(blocks, 1):
        report = audit(NEW / "k-boot" / f"auto-boot-{i}.prom")
        subject = only(report)
        assert report.exit_code == 3
        assert value(subject, "kv_pool_tokens") == count * 128
        assert value(subject, "kv_usage") == 0
        assert "lifetime_only" in subject.flags
    fleet = only(audit(*(NEW / "k-boot" / f"auto-boot-{i}.prom" for i in (1, 2, 3))))
    assert value(fleet, "kv_pool_tokens") == sum(blocks) * 128


def test_preemption_widens_every_bound_on_steps() -> None:
    for release in (NEW, OLD):
        folder = release / "p-preemption"
        before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")
        subject = audit_capture(folder, budget=2048)
        count = rise(before, after, "vllm:num_preemptions_total")
        assert value(subject, "preemptions") == count > 0
        assert value(subject, "preemptions_per_request") == pytest.approx(count / 24)
        assert "kv_bound" in subject.flags
        assert limits(subject, "tokens_per_step") == (0, 2048)
        assert limits(subject, "full_step_share") == (0, 1)
        assert limits(subject, "small_step_share")[0] == 0


def test_repeated_look_ups_are_refused_as_a_hit_share() -> None:
    """0.11 looks every waiting request up again: 21,600 prompt tokens gave 4,350,677 look-ups."""
    subject = audit_capture(OLD / "p-preemption")
    before, after = (raw_page(OLD / "p-preemption" / f"{x}.prom") for x in ("before", "after"))
    assert rise(before, after, "vllm:prefix_cache_queries_total") == 4_350_677
    assert state(subject, "prefix_hit_share") == "invalid"
    assert value(subject, "lookup_hit_share") == pytest.approx(1_559_424 / 4_350_677)
    assert value(subject, "query_inflation") == pytest.approx(4_350_677 / 21_600)
    assert {"queries_inflated", "recompute_may_count_as_hits"} <= set(subject.flags)
    assert verdict(subject, "prefix-cache") == "undecided"
    # 0.32 records at admission and counts computed tokens.
    new = audit_capture(NEW / "p-preemption")
    assert value(new, "prefix_hit_share") == 0
    assert value(new, "query_inflation") == 1
    assert "queries_inflated" not in new.flags


def test_steps_under_two_budgets() -> None:
    """The same 60 requests at 256 and at 2,048 tokens a step: chunks are merged into single observations."""
    for run in ("256-r1", "256-r2", "256-r3", "2048-r1", "2048-r2", "2048-r3"):
        folder = NEW / "j-batched-tokens" / run
        budget = float(run.split("-")[0])
        subject = audit_capture(folder, budget=budget)
        assert "steps_merge_chunks" in subject.flags
        before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")
        n = rise(before, after, "vllm:iteration_tokens_total_count")
        # All ran and ended in the window: the model ran every prompt token and one token for each generated one but
        # the first of each request.
        ran = 104_840 + 4_368 - 60
        reading = subject.readings["tokens_per_step"]
        assert reading.high == pytest.approx(ran / n)
        assert reading.low is not None
        # Fewest tokens a step: one chunk of each prompt's whole budgets went unrecorded.
        chunks = sum((r["prompt_len"] - 1) // budget for r in truth(folder)["per_request"])
        assert reading.low <= ran / (n + chunks) <= reading.high
        full = subject.readings["full_step_share"]
        assert full.low is not None
        assert full.high is not None
        assert full.low <= full.high
        assert verdict(subject, "step-fill") == ("holds" if budget == 256 else "broken")


def test_estimates_of_the_engine() -> None:
    folder = NEW / "n-mfu"
    before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")
    seconds = truth(folder)["after"]["at"] - truth(folder)["before"]["at"]
    flops = rise(before, after, "vllm:estimated_flops_per_gpu_total")
    assert value(audit_capture(folder), "achieved_tflops_per_gpu") == pytest.approx(flops / seconds / 1e12)
    # Elsewhere the counter exists at 0: switched off, not idle.
    off = audit_capture(NEW / "a-decode-heavy")
    assert state(off, "achieved_tflops_per_gpu") == "not_exported"
    assert "--enable-mfu-metrics" in (off.readings["achieved_tflops_per_gpu"].reason or "")
    assert state(audit_capture(NEW / "e-idle"), "achieved_tflops_per_gpu") == "no_traffic"


def test_the_context_follows_from_pool_and_concurrency() -> None:
    for name, context in (("a-decode-heavy", 16_384), ("p-preemption", 4_096), ("g-data-parallel-2", 16_384)):
        subject = audit_capture(NEW / name)
        assert value(subject, "max_model_len") == context
        assert subject.settings["context"].source == "page (pool over concurrency)"


def test_ray_rebuilds_sums_so_they_are_ranges() -> None:
    """Fed: 10 iterations of 100 prompt tokens with 60 hits, 4 stop and 6 length, 0.2 s prefill, 1.2 s decode each."""
    subject = only(audit(FIXTURES / "ray" / "2.60.0" / "driven" / "after.prom"))
    assert value(subject, "prompt_tokens") == 1000
    assert value(subject, "generation_tokens") == 200
    assert value(subject, "finished_requests") == 10
    assert value(subject, "length_share") == 0.6
    assert value(subject, "abort_share") == 0
    assert value(subject, "prefix_hit_share") == pytest.approx(0.6)
    assert value(subject, "steps") == 40
    low, high = limits(subject, "prefill_seconds")
    assert (low, high) == (0, 3)
    assert low <= 10 * 0.2 <= high  # the page's own sum says 1.5
    assert limits(subject, "decode_seconds") == (10, 15)  # 12.0 was fed, the page says 12.5
    low, high = limits(subject, "prefill_share")
    assert low is not None
    assert high is not None
    assert low <= 2.0 / 14.0 <= high
    # The distribution's quantiles rest on counts, which are exact.
    assert subject.readings["decode_time_seconds"].extra["p50"]["low"] == 1
    assert subject.readings["decode_time_seconds"].extra["mean"] is None


def test_slo_share_is_exact_at_an_edge_and_bounded_between() -> None:
    folder = NEW / "b-prefill-heavy"
    before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")

    def at_most(edge: str) -> float:
        return rise(before, after, "vllm:time_to_first_token_seconds_bucket", le=edge)

    n = at_most("+Inf")
    subject = audit_capture(folder, options=Options(slo={"ttft_seconds": 2.5}))
    reading = subject.readings["ttft_seconds_slo_share"]
    assert reading.value == pytest.approx(at_most("2.5") / n)
    assert reading.extra["limit"] == 2.5
    between = audit_capture(folder, options=Options(slo={"ttft_seconds": 3.0})).readings["ttft_seconds_slo_share"]
    assert between.state == "bounded"
    assert between.low == pytest.approx(at_most("2.5") / n)
    assert between.high == pytest.approx(at_most("5.0") / n)
    assert between.low < between.high
