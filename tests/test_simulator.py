"""Schedules worked out by hand, laws that every run keeps, and pages equal to what they are made of.

Steps of the hand-worked schedules last one second unless said.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.simulator import (
    COUNTERFACTUALS,
    SHIFTED,
    Priors,
    Run,
    Scenario,
    Workload,
    counterfactual,
    even_times,
    page_text,
    random_setting,
    simulate,
    snapshots,
    speedup,
    true_values,
)
from tests.simulator.cost import CostLaw, Graphs, Linear, Roofline, scale
from tests.simulator.pool import Owner, Pool
from tests.simulator.priors import LawName
from tests.simulator.settings import Machine, SglangSetting, VllmSetting, emissions
from tests.simulator.truth import pool as add_up
from tests.simulator.workload import Lengths, Request, make_workload

FIXTURES = Path(__file__).parent.parent / "fixtures"
SECOND = Machine(law=Linear(1.0, 0.0, 0.0, 0.0, 0.0))


def vllm(machine: Machine = SECOND, **changes: object) -> VllmSetting:
    return replace(VllmSetting(machine=machine, budget=100, seats=8), **changes)  # type: ignore[arg-type]


def sglang(machine: Machine = SECOND, **changes: object) -> SglangSetting:
    return replace(SglangSetting(machine=machine, chunk=100, seats=8), **changes)  # type: ignore[arg-type]


def of(*requests: Request) -> Workload:
    return Workload(requests)


def ask(prompt: int, answer: int, at: float = 0.0, **more: object) -> Request:
    return replace(Request(prompt, answer, 10_000, arrival_seconds=at), **more)  # type: ignore[arg-type]


def column(run: Run, name: str) -> list[float]:
    return [float(x) for x in run.steps[name]]


def gaps_of(run: Run) -> list[tuple[float, float]]:
    """(seconds, count) of all gaps in the order of their ends."""
    return [(float(s), float(n)) for s, n in zip(run.gaps["seconds"], run.gaps["count"], strict=True)]


# --------------------------------------------------------------------------- vLLM by hand


def test_a_prompt_of_10_with_budget_4_takes_chunks_4_4_2_then_one_decode() -> None:
    run = simulate(vllm(budget=4, seats=4), of(ask(10, 2)))
    assert column(run, "prefill_tokens") == [4, 4, 2, 0]
    assert column(run, "decode_tokens") == [0, 0, 0, 1]
    assert column(run, "recorded") == [-1, -1, 11, 1], "a step without output is not recorded"
    page = snapshots(run, [run.seconds])[0]
    steps = page.histogram("vllm:iteration_tokens_total")
    assert (steps.count, steps.sum) == (2, 12)
    assert steps.counts[:3].tolist() == [1, 0, 1], "1 in (0, 1], 11 in (8, 16]"
    assert page.histogram("vllm:request_prefill_time_seconds").sum == 3.0
    assert page.histogram("vllm:request_decode_time_seconds").sum == 1.0


def test_eight_seats_with_four_drafts_run_forty_tokens() -> None:
    run = simulate(vllm(draft_tokens=4, acceptance=0.0), of(*(ask(5, 3) for _ in range(8))))
    assert column(run, "decode_tokens") == [0, 40, 40]
    assert column(run, "generated") == [8, 8, 8], "no draft is right: one token each"
    page = snapshots(run, [run.seconds])[0]
    assert page.value("vllm:spec_decode_num_drafts_total") == 16
    assert page.value("vllm:spec_decode_num_draft_tokens_total") == 64
    assert page.value("vllm:spec_decode_num_accepted_tokens_total") == 0


def test_right_drafts_shorten_the_answer_and_the_last_step_is_cut() -> None:
    # First token, then 5 and 5 of the remaining 8: the last step is cut to 3, its accepted count is not.
    run = simulate(vllm(draft_tokens=4, acceptance=1.0), of(ask(5, 9)))
    assert column(run, "generated") == [1, 5, 3]
    page = snapshots(run, [run.seconds])[0]
    assert page.value("vllm:spec_decode_num_accepted_tokens_total") == 8
    assert page.value("vllm:spec_decode_num_accepted_tokens_per_pos_total", position="3") == 2
    assert page.histogram("vllm:inter_token_latency_seconds").count == 2, "a gap per output, not per token"
    assert page.histogram("vllm:request_generation_tokens").sum == 9


def test_seats_times_draft_tokens_must_fit_the_budget() -> None:
    with pytest.raises(ValueError, match="cannot hold 8 seats of 5 tokens"):
        vllm(budget=39, draft_tokens=4)


def test_running_requests_come_first_and_chunks_fill_the_rest() -> None:
    # A decodes from step 2 on; B's ten tokens get the other three of the budget: 3, 3, 3, 1.
    run = simulate(vllm(budget=4, seats=4), of(ask(1, 6), ask(10, 1, at=0.5)))
    assert column(run, "decode_tokens") == [0, 1, 1, 1, 1, 1]
    assert column(run, "prefill_tokens") == [1, 3, 3, 3, 1, 0]
    assert column(run, "recorded") == [2, 1, 1, 1, 12, 1], "all of B lands on the step of its first token"
    assert true_values(run).full_step_share == 3 / 6


def test_the_threshold_cuts_chunks() -> None:
    assert column(simulate(vllm(threshold=3), of(ask(10, 1))), "prefill_tokens") == [3, 3, 3, 1]


def test_two_long_prompts_share_a_step_under_a_threshold() -> None:
    run = simulate(vllm(budget=8, threshold=3), of(ask(5, 1), ask(5, 1)))
    assert column(run, "prefill_tokens") == [6, 4]


def test_one_seat_makes_the_second_request_wait() -> None:
    run = simulate(vllm(seats=1), of(ask(4, 3), ask(4, 2)))
    assert [r.scheduled for r in run.requests] == [0.0, 3.0]
    page = snapshots(run, [2.0, run.seconds])
    assert (page[0].value("vllm:num_requests_running"), page[0].value("vllm:num_requests_waiting")) == (1, 1)
    assert page[1].histogram("vllm:request_queue_time_seconds").sum == 3.0
    assert page[1].histogram("vllm:time_to_first_token_seconds").sum == 1.0 + 4.0


def test_a_preemption_by_hand() -> None:
    # Pool of 5 blocks of 4. After step 5 both hold 8 tokens in 2 blocks; in step 6 A takes the last block and
    # B, the last admitted, goes. A ends at 8; B computes 4 + 5 tokens again in step 9 and ends at 11.
    setting = vllm(blocks=5, block_size=4, prefix_caching=False)
    run = simulate(setting, of(ask(4, 8), ask(4, 8)))
    assert column(run, "streams") == [0, 2, 2, 2, 2, 1, 1, 1, 0, 1, 1]
    assert column(run, "prefill_tokens") == [8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0]
    assert column(run, "used_blocks") == [2, 4, 4, 4, 4, 3, 3, 0, 3, 3, 0]
    assert [r.ended for r in run.requests] == [8.0, 11.0]
    assert [r.preemptions for r in run.requests] == [0, 1]
    before, after = snapshots(run, [8.5, 11.0])
    assert before.value("vllm:num_preemptions_total") == 0, "told with the request's next output"
    assert after.value("vllm:num_preemptions_total") == 1
    assert after.value("vllm:prompt_tokens_total") == 8, "recompute is in no token counter"
    gaps = after.histogram("vllm:inter_token_latency_seconds")
    assert (gaps.count, gaps.sum) == (14, 7 * 1 + 4 * 1 + 4 + 2 * 1)
    truth = true_values(run)
    assert truth.interrupted_seconds == 4.0
    assert truth.bare_gap_seconds == 13.0
    assert truth.computed_prompt_tokens == 17
    assert truth.stretch_share == 0.0


def test_with_the_cache_a_preempted_request_finds_its_own_full_blocks() -> None:
    # As above, but B's two full blocks are still there when it comes back at 8: one token is computed.
    run = simulate(vllm(blocks=5, block_size=4), of(ask(4, 8), ask(4, 8)))
    assert column(run, "prefill_tokens")[8] == 1
    page = snapshots(run, [run.seconds])[0]
    assert page.value("vllm:prefix_cache_hits_total") == 0, "look-ups of resumed requests are not counted"


def test_prefixes_hit_in_whole_blocks() -> None:
    first, later = (ask(50, 1, at=t, prefix_group=1, prefix_tokens=40) for t in (0.0, 5.0))
    run = simulate(vllm(block_size=16), of(first, later))
    assert [r.cached for r in run.requests] == [0, 32]
    assert column(run, "prefill_tokens") == [50, 18]
    page = snapshots(run, [run.seconds])[0]
    assert page.value("vllm:prefix_cache_queries_total") == 100
    assert page.value("vllm:prefix_cache_hits_total") == 32
    assert page.value("vllm:prompt_tokens_by_source_total", source="local_compute") == 68
    assert page.value("vllm:prompt_tokens_by_source_total", source="local_cache_hit") == 32
    assert page.value("vllm:prompt_tokens_cached_total") == 32
    assert page.histogram("vllm:request_prefill_kv_computed_tokens").sum == 68
    assert true_values(run).prefix_hit_share == 0.32


def test_a_prompt_is_never_hit_whole() -> None:
    run = simulate(vllm(block_size=16), of(*(ask(32, 1, t, prefix_group=1, prefix_tokens=32) for t in (0, 5))))
    assert [r.cached for r in run.requests] == [0, 16]


def test_a_prefix_computed_in_the_same_step_is_hit() -> None:
    run = simulate(vllm(block_size=16), of(*(ask(40, 1, prefix_group=1, prefix_tokens=32) for _ in range(2))))
    assert [r.cached for r in run.requests] == [0, 32]
    assert column(run, "prefill_tokens") == [48]


def test_a_forgotten_prefix_is_computed_again() -> None:
    # Six blocks; the prefix's two stay behind, until a stranger needs all six.
    share = {"prefix_group": 1, "prefix_tokens": 32}
    requests = of(ask(40, 1, **share), ask(90, 1, at=5.0), ask(40, 1, at=10.0, **share))
    assert [r.cached for r in simulate(vllm(block_size=16, blocks=6), requests).requests] == [0, 0, 0]
    assert [r.cached for r in simulate(vllm(block_size=16, blocks=9), requests).requests] == [0, 0, 32]


def test_a_hit_takes_a_prefixs_first_blocks_out_of_the_queue() -> None:
    # Ten blocks. Request 1 computes four of a prefix, 2 shares the first two; 1 goes (blocks 3 and 4 are free),
    # a stranger gives one back, 2 goes. Request 3 hits blocks 1 and 2: 3 and 4 stay in front of the stranger's.
    kv, prefix = Pool(10), Owner(64)
    kv.take(5)
    kv.grow(prefix, 1, 4)
    kv.hold(prefix, 2, 2)
    kv.leave(prefix, 1)
    kv.put(1)
    kv.leave(prefix, 2)
    assert (kv.free, prefix.cached, prefix.held) == (10, 4, 0)
    kv.hold(prefix, 3, 2)
    assert kv.free == 8
    kv.take(6)
    assert prefix.cached == 3, "five blocks never used, then block 4"
    kv.take(1)
    assert prefix.cached == 2
    kv.take(1)
    assert (prefix.cached, kv.free) == (2, 0)
    with pytest.raises(RuntimeError, match="1 blocks wanted, 0 free"):
        kv.take(1)


def test_nothing_is_hit_with_the_cache_off() -> None:
    shared = of(*(ask(50, 1, at=t, prefix_group=1, prefix_tokens=40) for t in (0.0, 5.0)))
    run = simulate(vllm(prefix_caching=False), shared)
    assert [r.cached for r in run.requests] == [0, 0]
    assert snapshots(run, [9.0])[0].value("vllm:prefix_cache_queries_total") == 0


def test_the_whole_prompt_must_fit_before_it_is_admitted() -> None:
    # A holds 2 of 4 blocks; B needs 3 in all but 1 for its first chunk.
    setting = vllm(budget=4, seats=4, block_size=4, blocks=4, prefix_caching=False)
    requests = of(ask(4, 4), ask(9, 1, at=1.0))
    assert simulate(setting, requests).requests[1].scheduled == 4.0
    early = simulate(replace(setting, reserve_whole_prompt=False), requests)
    assert early.requests[1].scheduled == 1.0


def test_a_closed_loop_sends_when_an_answer_ends() -> None:
    requests = (ask(2, 2), ask(2, 2), ask(2, 2, think_seconds=0.25))
    run = simulate(vllm(), Workload(requests, clients=1))
    assert [r.arrival for r in run.requests] == [0.0, 2.0, 4.25]


def test_disconnects_leave_no_trace_in_finished_series() -> None:
    gone = ask(4, 10, disconnect_after_tokens=3)
    queued = ask(4, 10, at=0.5, disconnect_after_seconds=0.25)
    run = simulate(vllm(seats=1), of(gone, queued, ask(4, 2, at=0.6)))
    assert [r.outcome for r in run.requests] == ["gone", "gone", "stop"]
    assert [r.generated for r in run.requests] == [3, 0, 2]
    page = snapshots(run, [run.seconds])[0]
    assert page.value("vllm:request_success_total", finished_reason="abort") == 0
    assert page.histogram("vllm:e2e_request_latency_seconds").count == 1
    assert page.histogram("vllm:time_to_first_token_seconds").count == 2
    assert page.value("vllm:prompt_tokens_total") == 8
    assert page.histogram("vllm:request_prompt_tokens").sum == 4
    assert true_values(run).gone == 2


def test_finish_reasons_follow_the_cap() -> None:
    capped, exact, free = Request(4, 9, 5), Request(4, 5, 5), Request(4, 3, 5)
    page = snapshots(simulate(vllm(), of(capped, exact, free)), [99.0])[0]
    assert page.value("vllm:request_success_total", finished_reason="length") == 1
    assert page.value("vllm:request_success_total", finished_reason="stop") == 2
    assert page.histogram("vllm:request_params_max_tokens").sum == 15


def test_a_request_larger_than_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="request 0 needs"):
        simulate(vllm(blocks=2, block_size=4), of(ask(8, 2)))


def test_stretch_and_ceiling_by_hand() -> None:
    # 1 s a step, half a second a prompt token, budget 4. Step 1: A whole and 3 of B's 6 (3 s). Step 2: A and
    # B's other 3 (2.5 s, bare 1 s). Then A's and B's tokens at 1 s: gaps A 2.5, 1, 1, 1 and B 1.
    machine = Machine(law=Linear(1.0, 0.0, 0.0, 0.5, 0.0))
    setting, requests = vllm(machine, budget=4, seats=4), of(ask(1, 5), ask(6, 2))
    run = simulate(setting, requests)
    truth = true_values(run)
    assert (truth.gaps, truth.gap_seconds, truth.bare_gap_seconds) == (5, 6.5, 5.0)
    assert truth.stretch_share == pytest.approx(1.5 / 6.5)
    assert truth.prefill_seconds == 3.0 + 5.5
    assert truth.mean_service_seconds == (8.5 + 6.5) / 2
    # Free: both prompts in one step of 1 s; A serves 5 s, B 2 s.
    free = counterfactual("free_prefill", setting, requests)
    assert [r.ended - r.scheduled for r in free.requests] == [5.0, 2.0]
    assert column(free, "prefill_tokens")[0] == 7, "larger than the budget, still one step"
    assert speedup(run, free) == pytest.approx(7.5 / 3.5)


def test_a_window_holds_the_events_after_its_start_up_to_its_end() -> None:
    run = simulate(vllm(), of(ask(2, 4), ask(2, 4, at=1.5)))
    truth = true_values(run, (1.0, 4.0))
    assert (truth.finished, truth.steps, truth.generation_tokens) == (1, 3, 5)
    first, second = snapshots(run, [1.0, 4.0])
    assert second.value("vllm:generation_tokens_total") - first.value("vllm:generation_tokens_total") == 5


# --------------------------------------------------------------------------- SGLang by hand


def test_sglang_admits_nothing_before_a_prompts_last_chunk_and_freezes_streams() -> None:
    # Chunks of 4: A 4, A 4, A 2 with B's first 2, B's last 1; A's stream stands still until B is done.
    run = simulate(sglang(chunk=4), of(ask(10, 2), ask(3, 3)))
    assert column(run, "prefill_tokens") == [4, 4, 4, 1, 0, 0]
    assert column(run, "streams") == [0, 0, 0, 0, 2, 1]
    assert [r.scheduled for r in run.requests] == [0.0, 2.0]
    assert [r.first for r in run.requests] == [3.0, 4.0]
    assert gaps_of(run) == [(2.0, 1.0), (1.0, 1.0), (1.0, 1.0)]
    assert true_values(run).stretch_share == 0.25, "one of four gap seconds is B's last chunk"


def test_sglang_mixed_chunks_let_streams_ride_along() -> None:
    run = simulate(sglang(chunk=4, mixed_chunk=True), of(ask(10, 2), ask(3, 3)))
    assert column(run, "prefill_tokens") == [4, 4, 4, 1, 0, 0]
    assert column(run, "streams") == [0, 0, 0, 1, 1, 1]
    assert [r.ended for r in run.requests] == [4.0, 6.0]


def test_sglang_interval_lets_decode_batches_come_first() -> None:
    requests = of(ask(3, 4), ask(3, 1, at=0.5))
    plain = simulate(sglang(), requests)
    assert column(plain, "streams") == [0, 0, 1, 1, 1]
    assert gaps_of(plain) == [(2.0, 1.0), (1.0, 1.0), (1.0, 1.0)]
    spaced = simulate(sglang(prefill_decode_interval=2), requests)
    assert column(spaced, "streams") == [0, 1, 1, 0, 1]
    assert gaps_of(spaced) == [(1.0, 1.0), (1.0, 1.0), (2.0, 1.0)]


def test_sglang_retracts_the_shortest_answer_and_computes_it_again() -> None:
    # 24 tokens of KV, nothing reserved for running requests. At t = 10 both hold 12 tokens and have said 9; B
    # goes back. A takes 3 of its tokens and ends at 13; B finds 9 of its own and computes 4, until 14.
    setting = sglang(pool_tokens=24, reserve_ratio=0.0)
    run = simulate(setting, of(Request(4, 12, 12), Request(4, 12, 12, arrival_seconds=0.5)))
    assert [r.preemptions for r in run.requests] == [0, 1]
    assert [r.ended for r in run.requests] == [13.0, 16.0]
    assert column(run, "prefill_tokens") == [4, 4, *[0] * 11, 4, 0, 0]
    page = snapshots(run, [run.seconds])[0]
    assert page.value("sglang:num_retracted_requests_total") == 1
    assert page.value("sglang:num_retracted_input_tokens_total") == 4
    assert page.value("sglang:num_retracted_output_tokens_total") == 9
    assert page.value("sglang:realtime_tokens_total", mode="prefill_compute") == 12
    assert page.value("sglang:realtime_tokens_total", mode="prefill_cache") == 9, "hits that no client saw"
    assert page.value("sglang:prefill_effective_tokens_total", mode="input") == 8
    assert page.value("sglang:prefill_effective_tokens_total", mode="device_hit") == 0
    assert page.value("sglang:generation_tokens_total", is_streaming="true") == 24
    assert true_values(run).interrupted_seconds == 4.0


def test_sglang_hits_token_by_token_and_not_within_a_batch() -> None:
    share = {"prefix_group": 1, "prefix_tokens": 40}
    run = simulate(sglang(), of(ask(50, 1, **share), ask(50, 1, **share), ask(50, 1, at=5.0, **share)))
    assert [r.cached for r in run.requests] == [0, 0, 40]
    assert column(run, "prefill_tokens") == [100, 10]


def test_sglang_series_appear_with_their_first_event() -> None:
    run = simulate(sglang(), of(ask(5, 2)))
    before, after = snapshots(run, [0.0, run.seconds])
    assert ("sglang:prompt_tokens_total", (("is_streaming", "true"),)) not in before.values
    assert after.value("sglang:prompt_tokens_total", is_streaming="true") == 5
    assert ("sglang:cached_tokens_total", (("cache_source", "device"),)) not in after.values


# --------------------------------------------------------------------------- cost laws

LAWS: list[CostLaw] = [
    Linear(0.008, 1e-4, 1e-7, 1e-4, 1e-8),
    Roofline(0.001, 0.007, 1e-6, 1e-4, 1e-9),
    Graphs(0.008, 1e-4, 1e-7, 0.002, 1e-4, 1e-8),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law.name))
@pytest.mark.parametrize("streams", [1, 3, 64, 600])
def test_runs_of_steps_cost_what_their_steps_cost(law: CostLaw, streams: int) -> None:
    context = np.array([0, 17, 5_000, 900_000], dtype=np.int64)
    assert law.run_seconds(streams, context).tolist() == [
        law.step_seconds(streams, streams, int(c), 0, 0.0) for c in context
    ]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law.name))
def test_prompt_tokens_never_shorten_a_step(law: CostLaw) -> None:
    for streams, context in ((0, 0), (1, 50), (200, 400_000)):
        bare = law.step_seconds(streams, streams, context, 0, 0.0)
        costs = [law.step_seconds(streams, streams, context, n, n * n / 2) for n in (1, 64, 500, 8000)]
        assert bare <= costs[0] <= costs[1] <= costs[2] <= costs[3]


def test_laws_by_hand() -> None:
    linear, roofline, graphs = LAWS
    assert linear.step_seconds(2, 2, 1000, 100, 5000) == pytest.approx(0.008 + 2e-4 + 1e-4 + 0.01 + 5e-5)
    assert roofline.step_seconds(2, 2, 1000, 0, 0) == pytest.approx(0.001 + 0.007 + 0.001)
    assert roofline.step_seconds(2, 2, 0, 998, 0) == pytest.approx(0.001 + 0.1), "arithmetic decides"
    assert graphs.step_seconds(9, 9, 0, 0, 0) == pytest.approx(0.008 + 16e-4), "padded from 9 to 16"
    chunk = 1e-4 * math.hypot(128, 256)
    assert graphs.step_seconds(0, 0, 0, 100, 0) == pytest.approx(0.002 + 0.008 + chunk - 0.5 * 0.008)
    assert scale(linear, 2).step_seconds(2, 2, 1000, 100, 5000) == pytest.approx(
        2 * linear.step_seconds(2, 2, 1000, 100, 5000)
    )


def test_drafts_are_right_as_often_as_told() -> None:
    out, accepted = emissions(1, 0, 200_000, 3, 0.5)
    assert sum(out) == 200_000
    assert np.mean(accepted) == pytest.approx(0.5 + 0.25 + 0.125, rel=0.02)


def test_jitter_has_mean_one_and_the_given_spread() -> None:
    machine = Machine(law=Linear(1.0, 0, 0, 0, 0), jitter=0.2, seed=4)
    run = simulate(vllm(machine), of(ask(4, 20_000)))
    took = run.steps["end"] - run.steps["start"]
    assert took.mean() == pytest.approx(1.0, abs=0.01)
    assert took.std() == pytest.approx(0.2, abs=0.01)


# --------------------------------------------------------------------------- workloads


def test_poisson_arrivals_and_lengths_have_their_means() -> None:
    workload = make_workload(
        seed=3, count=20_000, prompts=Lengths(100, sigma=0.5, second_mean=1000, second_share=0.25),
        outputs=Lengths(50, geometric=True), rate_per_second=4.0,
    )  # fmt: skip
    requests = workload.requests
    assert np.mean([r.prompt_tokens for r in requests]) == pytest.approx(0.75 * 100 + 0.25 * 1000, rel=0.03)
    assert np.mean([r.output_tokens for r in requests]) == pytest.approx(50, rel=0.03)
    gaps = np.diff([r.arrival_seconds for r in requests])
    assert gaps.mean() == pytest.approx(0.25, rel=0.03)
    assert gaps.std() == pytest.approx(0.25, rel=0.05)


def test_a_workload_is_open_or_closed() -> None:
    with pytest.raises(ValueError, match="not both"):
        make_workload(seed=1, count=1, prompts=Lengths(5), outputs=Lengths(5))


# --------------------------------------------------------------------------- laws every run keeps

LAW_NAMES: tuple[LawName, ...] = ("linear", "roofline", "graphs")
WIDE = Priors(
    laws=LAW_NAMES, speculation_share=0.3, disconnect_share=0.3, tight_pool_share=0.4, requests=(80, 200),
    output_mean=(1.5, 200),
)  # fmt: skip
CASES = [("vllm", seed) for seed in range(25)] + [("sglang", seed) for seed in range(25)]


def drawn(engine: str, seed: int) -> tuple[Scenario, Run]:
    scenario = random_setting(seed, WIDE, engine="sglang" if engine == "sglang" else "vllm")
    return scenario, simulate(scenario.setting, scenario.workload)


@pytest.mark.parametrize(("engine", "seed"), CASES)
def test_conservation(engine: str, seed: int) -> None:
    scenario, run = drawn(engine, seed)
    truth, steps = true_values(run), run.steps
    outcomes = {r.outcome for r in run.requests}
    assert "unfinished" not in outcomes
    served = [r for r in run.requests if r.generated]
    assert truth.gap_seconds == pytest.approx(sum(r.last - r.first for r in served), rel=1e-9)
    assert truth.gaps == sum(r.events - 1 for r in served)
    assert truth.generation_tokens == sum(r.generated for r in served)
    wanted = sum(r.prompt_tokens - r.cached for r in served)
    if truth.preemptions:
        assert truth.computed_prompt_tokens >= wanted
    else:
        assert truth.computed_prompt_tokens == wanted
    assert (steps["start"][1:] >= steps["end"][:-1] - 1e-12).all(), "one step at a time"
    assert (steps["end"] > steps["start"]).all()
    assert (steps["bare"] <= steps["end"] - steps["start"] + 1e-9).all()
    assert 0 <= truth.stretch_share < 1 if truth.gaps else True
    assert steps["used_blocks"][-1] == 0, "all KV is given back"
    setting = scenario.setting
    if isinstance(setting, VllmSetting):
        assert (steps["decode_tokens"] + steps["prefill_tokens"]).max() <= setting.budget
        assert steps["used_blocks"].max() <= setting.blocks
        if not truth.preemptions:
            # A step without output holds at least one whole chunk.
            silent = truth.steps - truth.recorded_steps
            chunk = min(setting.budget, setting.threshold or setting.budget)
            assert silent * chunk <= truth.computed_prompt_tokens
    else:
        riding = steps["streams"] * (steps["prefill_tokens"] > 0)
        assert (riding + steps["prefill_tokens"]).max() <= setting.chunk
        assert setting.mixed_chunk or not riding.any()
        assert steps["used_blocks"].max() <= setting.pool_tokens
    assert steps["running"].max() <= setting.seats + (engine == "sglang")
    for r, request in zip(run.requests, scenario.workload.requests, strict=True):
        if r.outcome in ("stop", "length"):
            assert r.generated == request.answer_tokens
            assert r.arrival <= r.scheduled < r.first <= r.last == r.ended


@pytest.mark.parametrize("seed", range(25))
def test_a_vllm_page_keeps_the_engines_identities(seed: int) -> None:
    scenario, run = drawn("vllm", seed)
    first, last = snapshots(run, scenario.window(run), layout=scenario.layout)
    for page in (first, last):
        by_source = sum(
            page.value("vllm:prompt_tokens_by_source_total", source=source)
            for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
        )
        prompt, tokens = page.value("vllm:prompt_tokens_total"), page.value("vllm:generation_tokens_total")
        assert by_source == prompt
        computed = page.value("vllm:prompt_tokens_by_source_total", source="local_compute")
        assert page.histogram("vllm:iteration_tokens_total").sum == computed + tokens
        times = {
            name: page.histogram(f"vllm:request_{name}_time_seconds").sum
            for name in ("queue", "prefill", "decode", "inference")
        }
        assert times["prefill"] + times["decode"] == pytest.approx(times["inference"], rel=1e-9)
        e2e = page.histogram("vllm:e2e_request_latency_seconds")
        assert times["queue"] + times["inference"] == pytest.approx(e2e.sum, rel=1e-9)
        reasons = sum(v for (name, _), v in page.values.items() if name == "vllm:request_success_total")
        assert reasons == e2e.count
    truth = true_values(run, scenario.window(run))

    def moved(name: str) -> float:
        return last.histogram(name).minus(first.histogram(name)).sum

    assert moved("vllm:request_prefill_time_seconds") == pytest.approx(truth.prefill_seconds, abs=1e-6)
    assert moved("vllm:request_decode_time_seconds") == pytest.approx(truth.decode_seconds, abs=1e-6)
    assert moved("vllm:inter_token_latency_seconds") == pytest.approx(truth.gap_seconds, abs=1e-6)
    steps = last.histogram("vllm:iteration_tokens_total").count
    assert steps - first.histogram("vllm:iteration_tokens_total").count == truth.recorded_steps


@pytest.mark.parametrize("seed", range(10))
def test_an_sglang_page_keeps_the_engines_identities(seed: int) -> None:
    _, run = drawn("sglang", seed)
    page = snapshots(run, [run.seconds])[0]
    gone_early = sum(r.outcome == "gone" and not r.generated for r in run.requests)
    ends, firsts = (
        page.histogram(f"sglang:{name}", is_streaming="true")
        for name in ("e2e_request_latency_seconds", "time_to_first_token_seconds")
    )
    assert ends.count == firsts.count == len(run.requests) - gone_early
    gaps = page.histogram("sglang:inter_token_latency_seconds")
    assert ends.sum - firsts.sum == pytest.approx(gaps.sum, rel=1e-9)
    tokens = page.value("sglang:generation_tokens_total", is_streaming="true")
    assert gaps.count == tokens - ends.count
    passes = sum(v for (name, _), v in page.values.items() if name == "sglang:cuda_graph_passes_total")
    assert passes == len(run.steps["end"])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_series_never_fall_and_add_up(engine: str) -> None:
    _, run = drawn(engine, 3)
    pages = snapshots(run, [0.0, *even_times(run, 40)])
    for early, late in itertools.pairwise(pages):
        for key, histogram in early.histograms.items():
            assert (late.histograms[key].counts >= histogram.counts).all()
        for key, value in early.values.items():
            if key[0].endswith("_total"):
                assert late.values[key] >= value
    alone = snapshots(run, [pages[20].seconds])[0]
    assert alone.values == pages[20].values
    assert all((alone.histograms[k].counts == h.counts).all() for k, h in pages[20].histograms.items())


def test_pages_are_taken_in_order() -> None:
    _, run = drawn("vllm", 1)
    with pytest.raises(ValueError, match="in order"):
        snapshots(run, [2.0, 1.0])


# --------------------------------------------------------------------------- text


@pytest.mark.parametrize(("engine", "seed"), [("vllm", 0), ("vllm", 7), ("sglang", 0), ("sglang", 4)])
@pytest.mark.parametrize("shift", ["", "finer buckets", "coarser buckets"])
def test_the_text_says_what_the_snapshot_holds(engine: str, seed: int, shift: str) -> None:
    priors = replace(SHIFTED[shift] if shift else Priors(), speculation_share=0.5, requests=(50, 80))
    scenario = random_setting(seed, priors, engine="sglang" if engine == "sglang" else "vllm")
    run = simulate(scenario.setting, scenario.workload)
    for page in snapshots(run, scenario.window(run), layout=scenario.layout):
        text = page_text(page)
        assert text.endswith("\n")
        read = {
            (s.name, tuple(sorted(s.labels.items()))): s.value
            for family in text_string_to_metric_families(text)
            for s in family.samples
            if not s.name.endswith("_created")
        }
        assert read == {(name, labels): value for name, labels, value in page.samples()}


def series_of(text: str) -> set[str]:
    """Names and labels of a page, model names and cache_config_info values left out."""
    names = {line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")}
    names = {re.sub(r'model_name="[^"]*"', 'model_name="m"', name) for name in names}
    return {name for name in names if not name.startswith(("http_", "python_", "vllm:cache_config_info"))}


def test_vllm_names_labels_and_buckets_are_those_of_a_recorded_page() -> None:
    recorded = (FIXTURES / "vllm/0.32.0/h-spec-ngram/after.prom").read_text()
    run = simulate(vllm(draft_tokens=4, acceptance=0.5, max_model_len=16_384), of(ask(50, 9)))
    ours, theirs = series_of(page_text(snapshots(run, [run.seconds])[0])), series_of(recorded)
    assert ours - theirs == set()
    missing = {re.split(r"[{ ]", name)[0] for name in theirs - ours}
    assert missing == {f"process_{x}" for x in ("max_fds", "open_fds", "resident_memory_bytes",
                                                "virtual_memory_bytes")}  # fmt: skip
    config = re.search(r"^vllm:cache_config_info\{(.*)\}", recorded, re.M)
    mine = re.search(r"^vllm:cache_config_info\{(.*)\}", page_text(snapshots(run, [1.0])[0]), re.M)
    assert config is not None
    assert mine is not None
    labels = {pair.split("=")[0] for pair in config[1].split('",')}
    assert {pair.split("=")[0] for pair in mine[1].split('",')} <= labels


def test_sglang_names_labels_and_buckets_are_those_of_recorded_pages() -> None:
    folder = FIXTURES / "sglang/0.5.23"
    recorded: set[str] = set()
    for name in ("mixed", "aborted", "retracted", "overload-queue", "prefix-hit"):
        recorded |= series_of((folder / name / "after.prom").read_text())
    shared = {"prefix_group": 1, "prefix_tokens": 40}
    requests = of(ask(50, 9, **shared), ask(50, 9, 2.0, disconnect_after_tokens=4, **shared), ask(300, 3, 3.0))
    run = simulate(sglang(), requests)
    assert series_of(page_text(snapshots(run, [run.seconds])[0])) - recorded == set()


# --------------------------------------------------------------------------- seeds and counterfactuals


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_seed_determines_everything(engine: str) -> None:
    first, second = drawn(engine, 11), drawn(engine, 11)
    assert first[0] == second[0]
    assert page_text(snapshots(first[1], [5.0])[0]) == page_text(snapshots(second[1], [5.0])[0])
    assert drawn(engine, 12)[0] != first[0]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_free_prefill_is_never_slower(engine: str) -> None:
    """Queue and service together never take longer, nor does service alone where nobody queues.

    In a full open queue service alone can: free prompts leave the queue sooner and decode in a larger batch.
    """
    checked = 0
    for seed in range(60):
        priors = Priors(jitter=(0.0, 1e-12), requests=(60, 120), output_mean=(1.5, 120), tight_pool_share=0.0)
        scenario = random_setting(seed, priors, engine="sglang" if engine == "sglang" else "vllm")
        run = simulate(scenario.setting, scenario.workload)
        free = counterfactual("free_prefill", scenario.setting, scenario.workload)

        def in_system(which: Run) -> float:
            return float((which.column("last") - which.column("arrival")).mean())

        assert in_system(free) <= in_system(run) * (1 + 1e-6), seed
        if true_values(run).queue_share < 1e-3:
            checked += 1
            assert speedup(run, free) >= 1 - 1e-6, seed
    assert checked >= 5


def test_counterfactuals_change_what_they_say() -> None:
    share = {"prefix_group": 1, "prefix_tokens": 64}
    requests = of(*(ask(100, 9, at=5.0 * i, **share) for i in range(4)))
    setting = vllm(prefix_caching=False, draft_tokens=2, acceptance=1.0, budget=40)
    runs = {name: counterfactual(name, setting, requests) for name in COUNTERFACTUALS}
    base = true_values(simulate(setting, requests))
    truths = {name: true_values(run) for name, run in runs.items()}
    assert base.cached_tokens == 0
    assert truths["cache_on"].cached_tokens == 3 * 64
    assert truths["budget_doubled"].prefill_seconds < base.prefill_seconds
    assert truths["speculation_off"].gaps == 4 * 8
    assert truths["outputs_halved"].finished_generation_tokens == 4 * 5
    assert truths["free_prefill"].prefill_seconds == 4 * 1.0


def test_pooled_truth_adds_up() -> None:
    runs = [drawn("vllm", seed)[1] for seed in (1, 2)]
    one, two = (true_values(run) for run in runs)
    both = add_up([one, two])
    assert both.prefill_share == pytest.approx(
        (one.prefill_seconds + two.prefill_seconds)
        / (one.prefill_seconds + two.prefill_seconds + one.decode_seconds + two.decode_seconds)
    )
    assert both.finished == one.finished + two.finished
