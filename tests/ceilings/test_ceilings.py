"""The ceilings: arithmetic worked out by hand, real pairs, and a sample of the proof."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auditor.collect import Inputs, collect
from auditor.measures.ceilings.baseline import find_baseline
from auditor.measures.ceilings.coefficients import ALONE_95, ALONE_99, AT_95, AT_99, LULLS_95, LULLS_99, TERMS
from auditor.measures.ceilings.evidence import Evidence
from auditor.measures.ceilings.lulls import lull_base
from auditor.measures.ceilings.ranges import find_ceiling, kind_of, terms
from auditor.measures.ceilings.valley import bucket_means, chunk_shares, coarsened, find_valley, lower_mean, mean_limits
from auditor.measures.ceilings.wording import sentence, shown_range
from auditor.measures.readings.stretch import gather
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram, Options, Reading, Setting
from auditor.pipeline import build_subjects
from tests.ceilings.cases import known_settings, subject_of
from tests.ceilings.prove import covers, groups, judge
from tests.simulator import Run, VllmSetting, Workload, random_setting, simulate
from tests.simulator.cost import Linear
from tests.simulator.layouts import VLLM
from tests.simulator.settings import Machine
from tests.simulator.workload import Request

REAL = Path(__file__).parents[2] / "fixtures" / "vllm" / "0.32.0"
INF = math.inf


def subject(name: str, settings: Mapping[str, float] | None = None, *, seconds: bool = True) -> Subject:
    """The subject of a recorded pair of pages."""
    folder = REAL / name
    workload: dict[str, Any] = json.loads((folder / "workload.json").read_text())
    length = workload["window_end"] - workload["window_start"] if seconds else None
    window = collect(Inputs(targets=(str(folder / "after.prom"),), before=str(folder / "before.prom"), seconds=length))
    given = {key: Setting(value, "flag") for key, value in (settings or {}).items()}
    return build_subjects(window, Options(), settings=given)[0]


def reading(name: str, settings: Mapping[str, float] | None = None, *, seconds: bool = True) -> Reading:
    return subject(name, settings, seconds=seconds).read("decode_stretch_share")


def evidence(gaps: Histogram, **changes: Any) -> Evidence:
    """100 requests of 11 outputs, 10 s of prefill, over 100 s."""
    usual = Evidence(
        gaps=gaps,
        prefill_seconds=10.0,
        decode_seconds=gaps.sum,
        finished=100.0,
        own_gaps=gaps.count,
        computed_tokens=10_000.0,
        first_tokens=100.0,
        steps=500.0,
        wall_seconds=100.0,
        longest_prefill_seconds=0.3,
    )
    return replace(usual, **changes)


# Two humps: 800 plain gaps of 20 ms (0.01, 0.025] and 200 stretched ones of 400 ms (0.3, 0.5], nothing between.
TWO_HUMPS = Histogram((0.01, 0.025, 0.05, 0.1, 0.3, 0.5, INF), (0.0, 800.0, 0.0, 0.0, 0.0, 200.0, 0.0), 96.0, 1000.0)


# --------------------------------------------------------------------------- arithmetic


def test_share_of_gaps_without_a_chunk() -> None:
    # 100 chunks over 500 steps, not crowded (0.1 s x 500 steps = 50 s of 100): 1 - e^-0.2 = 0.1813 of steps have one.
    likely, worst = chunk_shares(100.0, 500.0, mean_gap=0.1, gaps=1000.0, wall=100.0)
    assert likely == pytest.approx(math.exp(-0.2))
    assert worst == pytest.approx(0.8)


def test_crowded_gaps_share_more_chunks() -> None:
    # 0.1 s x 500 steps over 25 s: a gap is in a step that is twice as likely to be a long one.
    likely, worst = chunk_shares(100.0, 500.0, mean_gap=0.1, gaps=1000.0, wall=25.0)
    assert likely == pytest.approx(1 - 2 * (1 - math.exp(-0.2)))
    assert worst == pytest.approx(0.6)


def test_steps_that_nobody_counts_are_wall_over_gap() -> None:
    assert chunk_shares(100.0, None, mean_gap=0.1, gaps=1000.0, wall=50.0) == pytest.approx((math.exp(-0.2), 0.8))


def test_valley_between_two_humps_tells_the_share_below_it() -> None:
    assert find_valley(TWO_HUMPS, 0.75) == pytest.approx(0.8)


def test_no_valley_where_the_expected_share_is_elsewhere() -> None:
    assert find_valley(TWO_HUMPS, 0.3) is None


def test_no_valley_in_one_hump() -> None:
    hump = Histogram((0.01, 0.025, 0.05, 0.1, INF), (100.0, 600.0, 250.0, 50.0, 0.0), 24.0, 1000.0)
    assert find_valley(hump, 0.7) is None


def test_narrow_buckets_are_put_together_before_a_valley_is_looked_for() -> None:
    fine = Histogram((0.01, 0.011, 0.012, 0.014, 0.02, INF), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 1.0, 21.0)
    # 0.011 is not 1.3 times the first bucket's assumed lower edge 0.004 ... the first edge is, 0.014 is 1.3 x 0.01.
    assert coarsened(fine).edges == (0.01, 0.014, 0.02, INF)
    assert coarsened(fine).counts == (1.0, 9.0, 5.0, 6.0)


def test_bucket_means_give_the_exact_sum() -> None:
    means = bucket_means(TWO_HUMPS)
    assert 800 * means[0] + 200 * means[1] == pytest.approx(96.0)
    # One geometric position p in both: 0.01 x 2.5^p and 0.3 x (5/3)^p.
    position = math.log(means[0] / 0.01) / math.log(2.5)
    assert means[1] == pytest.approx(0.3 * (5 / 3) ** position)


def test_lower_mean_takes_the_smallest_gaps_first() -> None:
    assert lower_mean(TWO_HUMPS, [0.02, 0.4], 0.8) == pytest.approx(0.02)
    # 900 of 1000: 800 x 0.02 + 100 x 0.4 = 56 s.
    assert lower_mean(TWO_HUMPS, [0.02, 0.4], 0.9) == pytest.approx(56 / 900)


def test_limits_of_the_plain_mean_come_from_edges_and_the_sum() -> None:
    # The 200 others take 60 to 100 s of 96 s, so the 800 plain ones 0 to 36 s; by their edges 8 to 20 s.
    least, most = mean_limits(TWO_HUMPS, 0.8)
    assert least == pytest.approx(0.01)
    assert most == pytest.approx(0.025)
    # A sum of 116 s leaves at least 16 s to them: 0.02 s each.
    assert mean_limits(replace(TWO_HUMPS, sum=116.0), 0.8)[0] == pytest.approx(0.02)


def test_the_ceiling_is_service_time_over_steps_without_prefill() -> None:
    e = evidence(TWO_HUMPS)
    base = find_baseline(e, 2048.0)
    assert kind_of(base) == "valley"
    assert base.clean.share == pytest.approx(0.8)
    found = find_ceiling(e, budget=2048.0, threshold=None)
    centre = (10.0 + 96.0) / (base.seconds * (1000 + 100))
    assert found.at_99[0] <= centre <= (found.at_99[1] or 0.0)
    # Whatever the margins: the plain mean is at least 10 ms, so no more than 106 / (0.01 x 1100) by these counts.
    assert found.at_99[0] < 106 / (0.01 * 1100)


def test_terms_are_named_and_not_negative() -> None:
    e = evidence(TWO_HUMPS)
    values = terms(e, find_baseline(e, 2048.0))
    assert len(values) == len(TERMS)
    assert min(values) >= 0
    for table in (AT_99, AT_95, ALONE_99, ALONE_95):
        for low, high in table.values():
            assert len(low) == len(TERMS)
            assert min(low) >= 0
            assert high is None or (len(high) == len(TERMS) and min(high) >= 0)
    assert all(len(end or ()) == len(TERMS) for margins in (LULLS_99, LULLS_95) for end in margins)


def test_light_prefill_load_bounds_above_without_any_baseline() -> None:
    # P/W = 0.04 and only one hump, every gap crowded by chunks: no baseline, yet at most exp(0.03 + 0.08).
    one = Histogram((0.01, 0.1, 0.5, INF), (0.0, 0.0, 1000.0, 0.0), 300.0, 1000.0)
    e = evidence(one, prefill_seconds=4.0, computed_tokens=5e6, steps=400.0)
    found = find_ceiling(e, budget=2048.0, threshold=None)
    assert (
        found.at_99[1] == pytest.approx(304 / (0.3 * 1100) * math.exp(0.03 + 0.08), rel=1e-9) or found.at_99[1] == 1.0
    )


def test_no_upper_end_where_chunks_cover_the_gaps() -> None:
    one = Histogram((0.01, 0.1, 0.5, INF), (0.0, 0.0, 1000.0, 0.0), 300.0, 1000.0)
    found = find_ceiling(evidence(one, prefill_seconds=90.0, computed_tokens=5e6), budget=2048.0, threshold=None)
    assert found.at_99[1] is None
    assert found.why_no_upper == "nearly every gap may share its step with prefill"


def test_a_few_odd_short_gaps_raise_no_low_end() -> None:
    # 10 gaps of 1 ms among 1000 of 0.3 s, all of which may be stretched.
    odd = Histogram((0.01, 0.1, 0.5, INF), (10.0, 0.0, 1000.0, 0.0), 300.0, 1010.0)
    found = find_ceiling(evidence(odd, prefill_seconds=90.0, computed_tokens=5e6), budget=2048.0, threshold=None)
    assert found.at_99[0] <= (90 + 300) / (300 / 1010 * 1110) + 1e-9


def test_a_lull_gives_an_upper_end_where_the_page_has_none() -> None:
    one = Histogram((0.01, 0.1, 0.5, INF), (0.0, 0.0, 1000.0, 0.0), 300.0, 1000.0)
    e = evidence(one, prefill_seconds=90.0, computed_tokens=5e6)
    found = find_ceiling(e, budget=2048.0, threshold=None, lull_seconds=0.15)
    # 390 s over 1100 steps of 0.15 s is 2.36.
    assert found.at_99[1] is not None
    assert found.at_99[0] <= 390 / (0.15 * 1100) <= found.at_99[1]


def test_the_95_range_lies_inside_the_99_range() -> None:
    for budget in (256.0, 2048.0, None):
        found = find_ceiling(evidence(TWO_HUMPS), budget=budget, threshold=None)
        assert found.at_95[0] >= found.at_99[0]
        assert found.at_99[1] is None or (found.at_95[1] or INF) <= found.at_99[1]


def test_without_a_budget_the_hull_of_the_usual_ones_is_taken() -> None:
    e = evidence(TWO_HUMPS, computed_tokens=400_000.0)
    hull = find_ceiling(e, budget=None, threshold=None).at_99
    for budget in (256.0, 512.0, 2048.0, 8192.0, 16384.0):
        low, high = find_ceiling(e, budget=budget, threshold=None).at_99
        assert hull[0] <= low
        assert hull[1] is None or high is None or hull[1] >= high


def test_the_chunk_that_counts_is_the_smaller_of_budget_and_threshold() -> None:
    e = evidence(TWO_HUMPS, computed_tokens=400_000.0)
    assert find_ceiling(e, budget=8192.0, threshold=512.0) == find_ceiling(e, budget=512.0, threshold=None)


def test_an_unknown_window_length_gives_no_upper_end() -> None:
    found = find_ceiling(evidence(TWO_HUMPS, wall_seconds=None), budget=2048.0, threshold=None)
    assert found.at_99[1] is None
    assert found.why_no_upper == "the length of the window is unknown"


# --------------------------------------------------------------------------- words


def test_sentences_name_both_ends_or_the_reason() -> None:
    both = find_ceiling(evidence(TWO_HUMPS), budget=2048.0, threshold=None)
    low, high = shown_range(both)[0]
    text = sentence(both, 1.1, prefill_alone=False, budget_known=True)
    assert f"{low:.3g}"[:3] in text
    assert "95 % range, calibrated on simulated schedulers, not on servers" in text
    assert "The plain 1.1x is too low: decode time contains other requests' prefill." in text
    assert high is not None
    open_ended = replace(both, at_99=(2.0, None), at_95=(2.0, None), why_no_upper="nearly every gap may share its step")
    text = sentence(open_ended, None, prefill_alone=False, budget_known=False)
    assert text.startswith("At least 2x; no upper limit")
    assert "--budget" in text


def test_very_short_steps_are_told_by_the_99_range() -> None:
    both = find_ceiling(evidence(TWO_HUMPS), budget=2048.0, threshold=None)
    assert shown_range(replace(both, base_seconds=0.003)) == (both.at_99, "99 %")
    assert shown_range(replace(both, base_seconds=0.004)) == (both.at_95, "95 %")


# --------------------------------------------------------------------------- real pairs


def test_cache_off_against_cache_on() -> None:
    # The same requests took 6.55 request-seconds with the cache on instead of 102.4: 15.6 times less.
    found = reading("d-prefix-off", {"budget": 2048.0})
    low, high = found.extra["ceiling_99"]
    assert low > 1.575
    assert high >= 15.6
    assert found.extra["plain_speedup"] == pytest.approx(102.4 / 65.0, rel=0.001)
    assert found.state == "bounded"
    assert found.extra["mechanism"] == "shared steps"


def test_nearly_every_gap_stretched_has_a_low_end_only() -> None:
    found = reading("b-prefill-heavy", {"budget": 2048.0})
    assert found.extra["ceiling_99"][0] >= 2.0
    assert found.extra["ceiling_99"][1] is None
    assert found.high == 1.0
    assert "nearly every gap" in found.extra["sentence"]


@pytest.mark.parametrize(
    ("name", "widest"),
    [("a-decode-heavy", (1.0, 1.5)), ("c-shared-prefix", (1.2, 6.4)), ("g-data-parallel-2", (2.0, 30.0))],
)
def test_recorded_pages_stay_inside_what_was_worked_out_before(name: str, widest: tuple[float, float]) -> None:
    low, high = reading(name, {"budget": 2048.0}).extra["ceiling_99"]
    assert widest[0] <= low < high <= widest[1]


def test_two_budgets_on_one_workload_agree_on_the_step_without_prefill() -> None:
    # The service time of a request with free prefill does not depend on the budget, so the ranges of
    # service / ceiling must overlap between the two arms.
    spans = []
    for budget in (256, 2048):
        for boot in (1, 2, 3):
            s = subject(f"j-batched-tokens/{budget}-r{boot}", {"budget": float(budget)})
            e = gather(s)
            low, high = s.read("decode_stretch_share").extra["ceiling_99"]
            service = e.service_seconds / e.finished
            spans.append((service / high, service / low))
    assert max(a for a, _ in spans) <= min(b for _, b in spans)


def test_the_arms_of_a_real_change_stay_below_the_ceiling() -> None:
    arms = {}
    for budget in (256, 2048):
        e = [gather(subject(f"j-batched-tokens/{budget}-r{boot}")) for boot in (1, 2, 3)]
        arms[budget] = sum(x.service_seconds for x in e) / sum(x.finished for x in e)
    for budget, other in ((256, 2048), (2048, 256)):
        gained = arms[budget] / arms[other]
        for boot in (1, 2, 3):
            high = reading(f"j-batched-tokens/{budget}-r{boot}", {"budget": float(budget)}).extra["ceiling_99"][1]
            assert high is None or gained <= high


def test_preemptions_leave_no_answer() -> None:
    found = reading("p-preemption", {"budget": 2048.0})
    assert found.state == "invalid"
    assert "preempted" in (found.reason or "")


def test_budget_and_length_unknown_are_said() -> None:
    found = reading("d-prefix-off", seconds=False)
    assert any("--budget" in text for text in found.caveats)
    assert found.extra["ceiling_99"][1] is None
    assert "length of the window is unknown" in found.extra["why_no_upper"]


def test_an_idle_window_has_no_ceiling() -> None:
    assert reading("e-idle").state == "no_traffic"


def test_impossible_times_have_no_ceiling() -> None:
    assert reading("q-engine-abort").state == "invalid"


def test_gathered_evidence_of_a_recorded_page() -> None:
    # 40 requests of 16 tokens: 600 gaps; 165,446 prompt tokens, all computed.
    e = gather(subject("d-prefix-off"))
    assert (e.finished, e.own_gaps, e.gap_count) == (40, 600, 600)
    assert e.computed_tokens == 165_446
    assert e.wall_seconds == pytest.approx(31.0086, abs=0.001)
    assert e.service_seconds == pytest.approx(102.4, abs=0.05)


def test_engines_side_by_side_count_the_wall_each() -> None:
    s = subject("g-data-parallel-2")
    assert s.window.seconds is not None
    assert gather(s).wall_seconds == pytest.approx(2 * s.window.seconds)


def test_missing_histograms_are_said() -> None:
    case = REAL.parents[1] / "cases" / "19-plain-split-and-ceilings"
    window = collect(Inputs(targets=(str(case / "input.t1.prom"),), before=str(case / "input.t0.prom")))
    with pytest.raises(Missing):
        gather(build_subjects(window, Options())[0])


# --------------------------------------------------------------------------- a sample of the proof


def test_a_sample_of_the_proof() -> None:
    """60 workloads of the proof set: with a true coverage of 99 % three misses or more happen once in 50 times."""
    group = groups(1.0)[0]
    outcomes = [o for seed in range(51_900_000, 51_900_060) if (o := judge((group, seed))) is not None]
    upper = [o for o in outcomes if o.at_99[1] is not None]
    assert len(upper) > 0.4 * len(outcomes)
    assert sum(not covers(o.at_99, o.truth) for o in outcomes) <= 2
    assert sum((o.at_99[1] or 0.0) < max(1.0, o.real.get("budget_doubled", 0.0)) * 0.999 for o in upper) <= 1


# --------------------------------------------------------------------------- other engines, series


def test_prefill_alone_needs_no_budget_and_names_its_mechanism() -> None:
    scenario = random_setting(8_900_001, engine="sglang")
    run = simulate(scenario.setting, scenario.workload)
    window = scenario.window(run)
    blind = subject_of(run, window, scenario.layout).read("decode_stretch_share")
    told = subject_of(run, window, scenario.layout, known_settings(run)).read("decode_stretch_share")
    assert blind.extra["ceiling_99"] == told.extra["ceiling_99"]
    assert blind.extra["mechanism"] == "frozen streams"
    assert not any("--budget" in caveat for caveat in blind.caveats)


def lonely_run(prompt: int) -> Run:
    """One client, 40 requests of 50 outputs, steps of exactly 20 ms and 1 ms more a prompt token, a pause of 2 s."""
    law = Linear(0.02, 0.0, 0.0, 0.001, 0.0)
    setting = VllmSetting(machine=Machine(law=law, jitter=0.0), prefix_caching=False)
    requests = tuple(Request(prompt, 50, 50, think_seconds=2.0) for _ in range(40))
    return simulate(setting, Workload(requests, clients=1))


def test_moments_without_prompts_show_the_step_itself() -> None:
    run = lonely_run(200)
    times = [float(t) for t in np.linspace(0.0, run.seconds, 400)]
    s = subject_of(run, times, VLLM)
    found = lull_base(s, 0.3)
    assert found is not None
    assert found[0] == pytest.approx(0.02, rel=1e-6)
    assert found[1] >= 30


def test_a_slice_before_a_long_prefill_is_no_lull() -> None:
    # A prompt of 4,000 tokens takes 4 s before its first token counts; whoever ignores that calls those seconds quiet.
    s = subject_of(lonely_run(200), [float(t) for t in np.linspace(0.0, 125.0, 120)], VLLM)
    few, many = lull_base(s, 3.0), lull_base(s, 0.01)
    assert many is not None
    assert (few[1] if few else 0.0) < many[1]


def test_alone_the_ceiling_of_a_lonely_client_is_its_service_over_its_steps() -> None:
    # 50 outputs of 20 ms and 200 ms of prompt: 1.2 s against 1.0 s, a ceiling of 1.2 exactly.
    run = lonely_run(200)
    s = subject_of(run, [0.0, run.seconds + 1], VLLM, {"budget": Setting(2048.0, "flag")})
    low, high = s.read("decode_stretch_share").extra["ceiling_99"]
    assert low <= 1.2 <= high
    assert high / low < 1.35
