"""The vLLM model against a plain second one: every request and every block by itself, in the engine's order.

The model keeps decoding requests as numbers and free blocks as runs. The scheduler below does neither; it is
slow and follows the engine's own loop: running requests in order, one block object each, a queue of free
blocks in the order in which they were freed, a map from content to blocks.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.simulator.cost import Graphs, Linear
from tests.simulator.priors import Priors, random_setting
from tests.simulator.record import Run
from tests.simulator.settings import Jitter, Machine, VllmSetting, emissions
from tests.simulator.vllm import simulate_vllm
from tests.simulator.workload import Arrivals, Lengths, Workload, make_workload


@dataclass
class Plain:
    index: int
    prompt: int
    answer: int
    group: int | None
    shared_tokens: int
    computed: int = 0
    generated: int = 0
    blocks: list[int] = field(default_factory=list)
    scheduled: float = math.nan
    first: float = math.nan
    last: float = math.nan
    cached: int = 0
    preemptions: int = 0
    out: list[int] = field(default_factory=list)

    def content(self, place: int, size: int) -> tuple[object, ...]:
        """What the block at this place holds: equal for requests that share it."""
        if self.group is not None and (place + 1) * size <= self.shared_tokens:
            return ("group", self.group, place)
        return ("own", self.index, place)


class PlainPool:
    def __init__(self, count: int, size: int, caching: bool) -> None:
        self.size, self.caching = size, caching
        self.free: OrderedDict[int, None] = OrderedDict((i, None) for i in range(count))
        self.holders = [0] * count
        self.holds: list[tuple[object, ...] | None] = [None] * count
        self.where: dict[tuple[object, ...], list[int]] = {}

    def hits(self, r: Plain) -> list[int]:
        found: list[int] = []
        if not self.caching:
            return found
        for place in range((r.prompt + r.generated - 1) // self.size):
            blocks = self.where.get(r.content(place, self.size))
            if not blocks:
                break
            found.append(blocks[0])
        return found

    def take(self, count: int) -> list[int]:
        out = []
        for _ in range(count):
            block, _none = self.free.popitem(last=False)
            content = self.holds[block]
            if content is not None:
                self.where[content].remove(block)
                self.holds[block] = None
            self.holders[block] = 1
            out.append(block)
        return out

    def touch(self, blocks: list[int]) -> None:
        for block in blocks:
            self.free.pop(block, None)
            self.holders[block] += 1

    def fill(self, r: Plain, tokens: int) -> None:
        if self.caching:
            for place in range(tokens // self.size):
                block = r.blocks[place]
                if self.holds[block] is None:
                    self.holds[block] = r.content(place, self.size)
                    self.where.setdefault(r.content(place, self.size), []).append(block)

    def leave(self, r: Plain) -> None:
        for block in reversed(r.blocks):
            self.holders[block] -= 1
            if not self.holders[block]:
                self.free[block] = None
        r.blocks = []


def simulate_plainly(setting: VllmSetting, workload: Workload) -> tuple[list[Plain], list[float]]:
    """Requests with their times, and the end of every step."""
    pool = PlainPool(setting.blocks, setting.block_size, setting.prefix_caching)
    size, each, law = setting.block_size, 1 + setting.draft_tokens, setting.machine.law
    jitter, arrivals = Jitter(setting.machine), Arrivals(workload)
    everyone = [
        Plain(i, r.prompt_tokens, r.answer_tokens, r.prefix_group, r.prefix_tokens)
        for i, r in enumerate(workload.requests)
    ]
    waiting: list[Plain] = []
    running: list[Plain] = []
    ends: list[float] = []
    now = 0.0
    while True:
        while arrivals.next_seconds <= now:
            waiting.append(everyone[arrivals.pop()[1]])
        if not waiting and not running:
            if arrivals.next_seconds == math.inf:
                return everyone, ends
            now = arrivals.next_seconds
            continue
        budget, todo, preempted = setting.budget, [], False
        place = 0
        while place < len(running) and budget > 0:
            r = running[place]
            known = r.prompt + r.generated
            decoding = r.generated > 0 and r.computed == known - 1
            new = each if decoding else known - r.computed
            if not decoding and 0 < setting.threshold < new:
                new = setting.threshold
            new = min(new, budget)
            while True:
                need = math.ceil((r.computed + new) / size) - len(r.blocks)
                if need <= len(pool.free):
                    r.blocks += pool.take(max(0, need))
                    break
                victim = running.pop()
                pool.leave(victim)
                victim.computed, preempted = 0, True
                victim.preemptions += 1
                waiting.insert(0, victim)
                if victim is r:
                    break
            if r not in running:
                break
            budget -= new
            pool.fill(r, min(r.computed + new, known))
            todo.append((r, new, decoding))
            place += 1
        while not preempted and waiting and len(running) < setting.seats and budget > 0:
            r = waiting[0]
            found = pool.hits(r)
            known = r.prompt + r.generated
            new = known - len(found) * size
            if 0 < setting.threshold < new:
                new = setting.threshold
            new = min(new, budget)
            woken = sum(1 for block in found if not pool.holders[block])
            whole = math.ceil(known / size) - len(found)
            need = math.ceil((len(found) * size + new) / size) - len(found)
            if woken + (whole if setting.reserve_whole_prompt else need) > len(pool.free):
                break
            waiting.pop(0)
            pool.touch(found)
            r.computed = len(found) * size
            r.blocks = found + pool.take(need)
            if math.isnan(r.scheduled):
                r.scheduled, r.cached = now, r.computed
            running.append(r)
            budget -= new
            pool.fill(r, r.computed + new)
            todo.append((r, new, False))
        streams = [r for r, _, decoding in todo if decoding]
        chunks = [(r, new) for r, new, decoding in todo if not decoding]
        context = sum(r.computed for r in streams)
        tokens = sum(new for _, new in chunks)
        pairs = sum(new * (r.computed + new - new / 2) for r, new in chunks)
        now += law.step_seconds(len(streams), each * len(streams), context, tokens, pairs) * jitter.one()
        ends.append(now)
        over = []
        for r, new, decoding in todo:
            if decoding:
                given = r.out.pop(0) if setting.draft_tokens else 1
                r.computed += given
                r.generated += given
            else:
                r.computed += new
                if r.computed < r.prompt + r.generated:
                    continue
                r.generated += 1
                if r.generated == 1:
                    r.first = now
                r.out, _ = emissions(
                    setting.machine.seed,
                    r.index * 4096 + r.preemptions,
                    r.answer - r.generated,
                    setting.draft_tokens,
                    setting.acceptance,
                )
            r.last = now
            if r.generated >= r.answer:
                over.append((not decoding, r))
        # Answers that end in the same step free their blocks in one fixed order, here as in the model.
        for _, r in sorted(over, key=lambda pair: pair[0]):
            running.remove(r)
            pool.leave(r)
            arrivals.end(now)


def assert_same(run: Run, plain: list[Plain], ends: list[float]) -> None:
    for name in ("scheduled", "first", "last"):
        np.testing.assert_allclose(run.column(name), [getattr(r, name) for r in plain], rtol=1e-9, err_msg=name)
    assert [r.preemptions for r in run.requests] == [r.preemptions for r in plain]
    assert [r.cached for r in run.requests] == [r.cached for r in plain]
    np.testing.assert_allclose(run.steps["end"], ends, rtol=1e-9)


LAW = Linear(0.008, 1e-5, 1e-8, 1e-4, 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_random_settings_are_scheduled_alike(seed: int) -> None:
    priors = Priors(requests=(40, 60), output_mean=(1.5, 60), shared_share=0.5, tight_pool_share=0.0)
    scenario = random_setting(seed, priors)
    assert isinstance(scenario.setting, VllmSetting)
    plain, ends = simulate_plainly(scenario.setting, scenario.workload)
    assert_same(simulate_vllm(scenario.setting, scenario.workload), plain, ends)


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("drafts", [0, 3])
@pytest.mark.parametrize("law", [LAW, Graphs(0.008, 1e-5, 1e-8, 0.002, 1e-4, 1e-9)], ids=["linear", "graphs"])
def test_preemptions_are_scheduled_alike(law: Linear | Graphs, drafts: int, caching: bool) -> None:
    workload = make_workload(
        seed=5, count=60, prompts=Lengths(300), outputs=Lengths(120), clients=16, think_seconds=0.05
    )
    setting = VllmSetting(
        machine=Machine(law=law, jitter=0.1, seed=3),
        budget=512,
        seats=16,
        blocks=120,
        block_size=16,
        prefix_caching=caching,
        draft_tokens=drafts,
        acceptance=0.6,
    )
    run = simulate_vllm(setting, workload)
    assert run.preemption_times.size > 10
    plain, ends = simulate_plainly(setting, workload)
    assert_same(run, plain, ends)


@pytest.mark.parametrize("reserve", [False, True])
def test_shared_prefixes_in_a_small_pool_are_scheduled_alike(reserve: bool) -> None:
    workload = make_workload(
        seed=8,
        count=120,
        prompts=Lengths(200),
        outputs=Lengths(40),
        rate_per_second=3.0,
        prefix_groups=6,
        prefix_share=0.8,
        prefix_tokens=500,
    )
    setting = VllmSetting(
        machine=Machine(law=LAW, seed=1),
        budget=2048,
        seats=4,
        blocks=140,
        block_size=16,
        reserve_whole_prompt=reserve,
    )
    run = simulate_vllm(setting, workload)
    assert 0 < run.column("cached").sum() < 120 * 0.8 * 496, "some prefixes must have been evicted"
    plain, ends = simulate_plainly(setting, workload)
    assert_same(run, plain, ends)


def test_a_threshold_with_prompts_in_progress_is_scheduled_alike() -> None:
    workload = make_workload(seed=2, count=80, prompts=Lengths(900, sigma=1.0), outputs=Lengths(20), clients=24)
    setting = VllmSetting(machine=Machine(law=LAW, jitter=0.2, seed=4), budget=400, seats=24, threshold=150)
    plain, ends = simulate_plainly(setting, workload)
    assert_same(simulate_vllm(setting, workload), plain, ends)


def test_the_plain_scheduler_sees_a_difference() -> None:
    """The comparison can fail: one seat less gives other times."""
    workload = make_workload(seed=2, count=40, prompts=Lengths(200), outputs=Lengths(20), clients=8)
    setting = VllmSetting(machine=Machine(law=LAW), budget=400, seats=8)
    plain, ends = simulate_plainly(replace(setting, seats=7), workload)
    with pytest.raises(AssertionError):
        assert_same(simulate_vllm(setting, workload), plain, ends)
