"""Random whole settings: engine, machine, workload, buckets and window, all from one seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .cost import CostLaw, Graphs, Linear, Roofline
from .layouts import SGLANG, VLLM, Layout, coarser, finer
from .record import Run
from .settings import Machine, Setting, SglangSetting, VllmSetting
from .workload import Lengths, Workload, make_workload

LawName = Literal["linear", "roofline", "graphs"]


@dataclass(frozen=True, kw_only=True)
class Priors:
    """Ranges are log-uniform unless said. Costs other than the base are relative to it."""

    base_seconds: tuple[float, float] = (0.0005, 0.08)
    stream: tuple[float, float] = (0.0005, 0.02)
    context: tuple[float, float] = (1e-7, 2e-5)
    prefill: tuple[float, float] = (0.002, 0.05)
    pair_at_8k: tuple[float, float] = (0.02, 1.0)
    """Attention cost of a prompt token behind 8,000 others, in units of the token's own cost."""
    jitter: tuple[float, float] = (0.0, 0.2)
    """Uniform."""
    laws: tuple[LawName, ...] = ("linear", "roofline")
    budgets: tuple[int, ...] = (256, 512, 1024, 2048, 4096, 8192, 16384)
    seats: tuple[float, float] = (8, 256)
    threshold_share: float = 0.2
    caching_share: float = 0.6
    shared_share: float = 0.4
    """Share of workloads in which requests share prefixes."""
    tight_pool_share: float = 0.2
    speculation_share: float = 0.0
    prompt_mean: tuple[float, float] = (30, 8000)
    bimodal_share: float = 0.25
    output_mean: tuple[float, float] = (1.5, 800)
    load: tuple[float, float] = (0.1, 1.1)
    """Open workloads: arrival rate over the engine's capacity, uniform."""
    open_share: float = 0.5
    requests: tuple[float, float] = (150, 600)
    disconnect_share: float = 0.0
    """Share of workloads in which a tenth of the clients hang up."""
    capped_share: float = 0.3
    """Share of workloads with a max_tokens near the mean answer."""
    whole_share: float = 0.5
    """Share of windows that hold the whole run; the others are cut out of it."""
    buckets: Literal["engine", "finer", "coarser"] = "engine"
    mixed_chunk_share: float = 0.3
    """SGLang only."""


FAST = Priors(base_seconds=(0.0002, 0.003))
SLOW = Priors(base_seconds=(0.05, 0.4))
OTHER_LAW = Priors(laws=("graphs",))
FINER = Priors(buckets="finer")
COARSER = Priors(buckets="coarser")
SHIFTED: Mapping[str, Priors] = {
    "fast steps": FAST,
    "slow steps": SLOW,
    "other cost law": OTHER_LAW,
    "finer buckets": FINER,
    "coarser buckets": COARSER,
}


@dataclass(frozen=True)
class Scenario:
    """One drawn setting with its workload, buckets and window."""

    seed: int
    setting: Setting
    workload: Workload
    layout: Layout
    window_share: tuple[float, float]
    """Where the window begins and ends, as shares of the run; (0, 1) is the whole run."""

    def window(self, run: Run) -> tuple[float, float]:
        """The window's scrape times in seconds of the run."""
        low, high = self.window_share
        return low * run.seconds, high * run.seconds


class _Draw:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 0])

    def log(self, span: tuple[float, float]) -> float:
        return float(math.exp(self.rng.uniform(math.log(span[0]), math.log(span[1]))))

    def even(self, span: tuple[float, float]) -> float:
        return float(self.rng.uniform(*span))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)


def random_setting(seed: int, priors: Priors | None = None, *, engine: Literal["vllm", "sglang"] = "vllm") -> Scenario:
    """A whole setting; the same seed and priors always give the same one."""
    priors, draw = priors or Priors(), _Draw(seed)
    law = _law(draw, priors)
    machine = Machine(law=law, jitter=draw.even(priors.jitter), seed=seed)
    prompt, output = draw.log(priors.prompt_mean), draw.log(priors.output_mean)
    second = draw.log(priors.prompt_mean) if draw.chance(priors.bimodal_share) else None
    prompts = Lengths(
        prompt,
        sigma=draw.even((0.1, 1.0)),
        second_mean=second,
        second_share=draw.even((0.05, 0.5)),
        low=4,
        high=24_000,
    )
    outputs = Lengths(output, sigma=draw.even((0.1, 1.0)), geometric=draw.chance(0.5), high=6_000)
    shares = draw.chance(priors.shared_share)
    prefix = int(draw.log((64, 4096))) if shares else 0
    setting = _setting(draw, priors, machine, engine)
    mean_prompt = prompt + prefix if second is None else (prompt + second) / 2 + prefix
    count = int(draw.log(priors.requests))
    tight = draw.chance(priors.tight_pool_share)
    rate = draw.even(priors.load) * _capacity(setting, mean_prompt, output)
    clients = max(1, int(draw.log((1, min(2 * setting.seats, 256, count / 3)))))
    is_open = draw.chance(priors.open_share)
    workload = make_workload(
        seed=seed,
        count=count,
        prompts=prompts,
        outputs=outputs,
        rate_per_second=rate if is_open else None,
        clients=None if is_open else clients,
        think_seconds=draw.log((0.1, 100)) * law.step_seconds(1, 1, 0, 0, 0.0) if draw.chance(0.5) else 0.0,
        cap_tokens=max(1, int(output * draw.log((0.5, 4)))) if draw.chance(priors.capped_share) else None,
        prefix_groups=max(1, int(draw.log((1, 20)))) if shares else 0,
        prefix_share=draw.even((0.3, 1.0)),
        prefix_tokens=prefix,
        disconnect_share=0.1 if draw.chance(priors.disconnect_share) else 0.0,
    )
    cut = (draw.even((0.05, 0.35)), draw.even((0.65, 0.95)))
    whole = draw.chance(priors.whole_share)
    layout = VLLM if engine == "vllm" else SGLANG
    if priors.buckets != "engine":
        layout = finer(layout) if priors.buckets == "finer" else coarser(layout)
    return Scenario(
        seed=seed,
        setting=_fit_pool(draw, setting, workload, tight),
        workload=workload,
        layout=layout,
        window_share=(0.0, 1.0) if whole else cut,
    )


def _law(draw: _Draw, priors: Priors) -> CostLaw:
    name = priors.laws[int(draw.rng.integers(len(priors.laws)))]
    base = draw.log(priors.base_seconds)
    stream, context, prefill = (base * draw.log(x) for x in (priors.stream, priors.context, priors.prefill))
    pair = prefill * draw.log(priors.pair_at_8k) / 8000
    overhead = draw.even((0.05, 0.5))
    if name == "linear":
        return Linear(base, stream, context, prefill, pair)
    if name == "roofline":
        return Roofline(base * overhead, base * (1 - overhead), context, prefill, pair)
    return Graphs(base, stream, context, base * overhead, prefill, pair, knee_tokens=draw.log((64, 512)))


def _setting(draw: _Draw, priors: Priors, machine: Machine, engine: str) -> Setting:
    seats = int(draw.log(priors.seats))
    drafts = int(draw.rng.integers(1, 6)) if draw.chance(priors.speculation_share) else 0
    fitting = [b for b in priors.budgets if b >= seats * (1 + drafts)]
    budget = int(draw.rng.choice(fitting or [priors.budgets[-1]]))
    threshold = int(draw.log((64, max(65, budget)))) if draw.chance(priors.threshold_share) else 0
    caching = draw.chance(priors.caching_share)
    acceptance = draw.even((0.2, 0.9))
    block = int(draw.rng.choice([16, 32, 64, 128]))
    mixed = draw.chance(priors.mixed_chunk_share)
    interval = int(draw.rng.integers(1, 20)) if draw.chance(0.2) else 0
    if engine == "vllm":
        return VllmSetting(
            machine=machine,
            budget=budget,
            seats=seats,
            threshold=threshold,
            block_size=block,
            prefix_caching=caching,
            draft_tokens=drafts,
            acceptance=acceptance if drafts else 0.0,
        )
    return SglangSetting(
        machine=machine,
        chunk=budget,
        seats=seats,
        prefix_caching=caching,
        mixed_chunk=mixed,
        prefill_decode_interval=interval,
    )


def _capacity(setting: Setting, prompt: float, output: float) -> float:
    """Requests per second with all seats taken, roughly: each needs its prefill and its part of the steps."""
    law, streams = setting.machine.law, setting.seats
    context = int(streams * (prompt + output / 2))
    chunk = setting.budget if isinstance(setting, VllmSetting) else setting.chunk
    step = law.step_seconds(streams, streams, context, 0, 0.0)
    tokens = int(min(prompt, max(1, chunk - streams) if isinstance(setting, VllmSetting) else chunk)) or 1
    with_chunk = law.step_seconds(streams, streams, context, tokens, tokens * prompt / 2)
    if isinstance(setting, VllmSetting):
        emitted = 1 + setting.draft_tokens * setting.acceptance**2
        return 1.0 / ((with_chunk - step) * max(1.0, prompt / tokens) + output / emitted * step / streams)
    alone = law.step_seconds(0, 0, 0, tokens, tokens * prompt / 2)
    return 1.0 / (alone * max(1.0, prompt / tokens) + output * step / streams)


def _fit_pool(draw: _Draw, setting: Setting, workload: Workload, tight: bool) -> Setting:
    """A pool that holds any single request; a tight one binds before the seats do."""
    sizes = sorted(r.prompt_tokens + r.answer_tokens + 16 for r in workload.requests)
    mean = sum(sizes) / len(sizes)
    ample = max(sizes[-1] * 2, 1.5 * mean * setting.seats, 50_000)
    small = max(sizes[-1] * 1.05, mean * setting.seats * draw.even((0.1, 0.7)))
    tokens = small if tight else ample
    if isinstance(setting, VllmSetting):
        return replace(setting, blocks=math.ceil(tokens / setting.block_size) + 1)
    return replace(setting, pool_tokens=math.ceil(tokens))
