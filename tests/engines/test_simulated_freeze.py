"""Limits of frozen passes and of decode time against schedules whose truth is known in full.

The simulator models SGLang's prefill-first scheduler; its pages have the names and labels of 0.5.23.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auditor.collect import Inputs, collect
from auditor.model import SubjectReport
from auditor.pipeline import audit_window
from tests.engines.pages import OPTIONS
from tests.simulator import Run, even_times, page_text, random_setting, simulate, snapshots, true_values
from tests.simulator.settings import SglangSetting

SEEDS = range(24)
CUTS = 5


def _run(seed: int) -> Run:
    scenario = random_setting(seed, engine="sglang")
    assert isinstance(scenario.setting, SglangSetting)
    # With mixed chunks nothing freezes, and no counter says so: that is told in words, not tested here.
    setting = replace(scenario.setting, mixed_chunk=False)
    workload = replace(scenario.workload, requests=scenario.workload.requests[:300])
    return simulate(setting, workload)


def _audit(run: Run, times: list[float], folder: Path) -> SubjectReport:
    paths = []
    for i, snapshot in enumerate(snapshots(run, times)):
        path = folder / f"{i}.prom"
        path.write_text(page_text(snapshot), encoding="utf-8")
        paths.append(str(path))
    window = collect(Inputs(series=tuple(paths), times=tuple(times)))
    (subject,) = audit_window(window, OPTIONS).subjects
    return subject


def _frozen_share(run: Run, start: float, end: float) -> float:
    """Prefill batches at whose beginning some request was between its first and its last token."""
    steps = run.steps
    inside = (steps["end"] > start) & (steps["end"] <= end)
    prefill = inside & (steps["prefill_tokens"] > 0)
    first, last = run.column("first"), run.column("last")
    begins = steps["start"][prefill]
    seated = np.array([np.any((first <= t + 1e-12) & (last > t + 1e-12)) for t in begins], dtype=bool)
    return float(seated.sum() / inside.sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_limits_hold_on_known_schedules(seed: int, tmp_path: Path) -> None:
    run = _run(seed)
    times = even_times(run, CUTS, start=0.15 * float(run.steps["end"][-1]), end=0.85 * float(run.steps["end"][-1]))
    subject = _audit(run, times, tmp_path)
    frozen = subject.readings["frozen_pass_share"]
    if frozen.state == "no_traffic":
        pytest.skip("no pass in this window")
    low = frozen.value if frozen.low is None else frozen.low
    high = frozen.value if frozen.high is None else frozen.high
    assert low is not None
    assert high is not None
    true = _frozen_share(run, times[0], times[-1])
    assert low - 1e-9 <= true <= high + 1e-9

    steps = run.steps
    inside = (steps["end"] > times[0]) & (steps["end"] <= times[-1])
    decode = int((inside & (steps["prefill_tokens"] == 0)).sum())
    assert subject.readings["decode_pass_share"].value == pytest.approx(decode / inside.sum())

    share = subject.readings["prefill_share"]
    if share.state == "bounded":
        truth = true_values(run, (times[0], times[-1]))
        assert share.low is not None
        # Requests in progress at the ends are in one sum and not in the other: within a few of many.
        assert share.low <= truth.prefill_share + 0.05


def test_some_schedules_are_proved_to_freeze(tmp_path: Path) -> None:
    """Limits that are never narrow would hold as well and help nobody."""
    proved = 0
    for seed in SEEDS:
        run = _run(seed)
        end = float(run.steps["end"][-1])
        folder = tmp_path / str(seed)
        folder.mkdir()
        frozen = _audit(run, even_times(run, 9, start=0.3 * end, end=0.7 * end), folder).readings["frozen_pass_share"]
        proved += (frozen.low or 0.0) > 0
    assert proved >= 3
