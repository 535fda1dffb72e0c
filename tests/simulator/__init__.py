"""A discrete-event model of LLM engine schedulers with known truth.

workload      what clients ask, and when (open or closed loop)
cost          what a step costs: linear, roofline, graphs
settings      engine settings and machine noise
priors        random whole settings from a seed, with shifted priors
pool, blocks  KV blocks, prefix hits, eviction
streams       requests inside an engine, decoding ones in lockstep
vllm, sglang  the two schedulers
record        everything that happened in a run
truth         the true values of a window, speed-ups between runs
counterfactual  the same workload on a changed engine
layouts, snapshot, vllm_page, sglang_page   what a scrape at any moment reads
exposition    the same as text, by prometheus-client
"""

from __future__ import annotations

from collections.abc import Sequence

from .counterfactual import COUNTERFACTUALS
from .exposition import page_text
from .layouts import SGLANG, VLLM, Layout
from .priors import SHIFTED, Priors, Scenario, random_setting
from .record import Run
from .settings import Setting, VllmSetting
from .sglang import simulate_sglang
from .sglang_page import sglang_snapshots
from .snapshot import Snapshot, even_times
from .truth import Truth, speedup, true_values
from .vllm import simulate_vllm
from .vllm_page import vllm_snapshots
from .workload import Workload

__all__ = [
    "COUNTERFACTUALS",
    "SHIFTED",
    "Layout",
    "Priors",
    "Run",
    "Scenario",
    "Setting",
    "Snapshot",
    "Truth",
    "Workload",
    "counterfactual",
    "even_times",
    "page_text",
    "random_setting",
    "simulate",
    "snapshots",
    "speedup",
    "true_values",
]


def simulate(setting: Setting, workload: Workload) -> Run:
    """Run a workload to its end on the engine of the setting."""
    if isinstance(setting, VllmSetting):
        return simulate_vllm(setting, workload)
    return simulate_sglang(setting, workload)


def counterfactual(name: str, setting: Setting, workload: Workload) -> Run:
    """Run the same arrivals and lengths under one of COUNTERFACTUALS."""
    return simulate(*COUNTERFACTUALS[name](setting, workload))


def snapshots(run: Run, times: Sequence[float], *, layout: Layout | None = None) -> list[Snapshot]:
    """What scrapes at these seconds of the run read, as objects; :func:`page_text` makes text of one."""
    if run.engine == "vllm":
        return vllm_snapshots(run, times, layout=layout or VLLM)
    return sglang_snapshots(run, times, layout=layout or SGLANG)
