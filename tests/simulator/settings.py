"""Engine settings: what an operator chose, and the machine under it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .cost import CostLaw, Floats


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The cost of a step, with noise: each step is longer or shorter by a log-normal factor of mean 1."""

    law: CostLaw
    jitter: float = 0.0
    """Relative spread of a step (0.2: about 20 %)."""
    draft_seconds: float = 0.0
    """Added to every step that verifies drafts."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class VllmSetting:
    """A vLLM V1 engine."""

    machine: Machine
    budget: int = 2048
    """max_num_batched_tokens"""
    seats: int = 128
    """max_num_seqs"""
    threshold: int = 0
    """long_prefill_token_threshold, 0 is off"""
    blocks: int = 100_000
    """Usable KV blocks (the page shows one more: vLLM keeps a null block)."""
    block_size: int = 16
    prefix_caching: bool = True
    draft_tokens: int = 0
    acceptance: float = 0.0
    """Chance that a draft token is right, given that those before it were."""
    max_model_len: int = 32_768
    reserve_whole_prompt: bool = True
    """Admit a prompt only where all of it fits the free blocks (scheduler_reserve_full_isl)."""
    free_prefill: bool = False
    """The counterfactual: prompt tokens cost neither time nor budget, each prompt still takes one step."""

    def __post_init__(self) -> None:
        if self.budget < self.seats * (1 + self.draft_tokens):
            raise ValueError(
                f"a budget of {self.budget} cannot hold {self.seats} seats of {1 + self.draft_tokens} tokens"
            )
        if not 0.0 <= self.acceptance <= 1.0:
            raise ValueError(f"acceptance {self.acceptance} is not a probability")

    @property
    def engine(self) -> str:
        return "vllm"


@dataclass(frozen=True, kw_only=True)
class SglangSetting:
    """An SGLang engine (page size 1)."""

    machine: Machine
    chunk: int = 8192
    """chunked_prefill_size"""
    seats: int = 128
    """max_running_requests"""
    pool_tokens: int = 1_600_000
    """max_total_num_tokens"""
    prefix_caching: bool = True
    mixed_chunk: bool = False
    """enable_mixed_chunk: decode rides along with prefill batches"""
    prefill_decode_interval: int = 0
    """Decode batches that must follow a prefill batch before the next one."""
    max_prefill_tokens: int = 16_384
    reserve_ratio: float = 0.7
    """Share of each running request's remaining cap that admission keeps free (new_token_ratio); it falls to
    0.14 of this over 600 decode batches."""
    max_model_len: int = 32_768
    free_prefill: bool = False
    """As for vLLM: prompts ride in the next decode batch at no cost."""

    @property
    def engine(self) -> str:
        return "sglang"


Setting = VllmSetting | SglangSetting


class Jitter:
    """The noise of one machine: a factor per step, the same sequence for the same seed."""

    def __init__(self, machine: Machine) -> None:
        self._sigma = float(np.sqrt(np.log1p(machine.jitter**2)))
        self._rng = np.random.default_rng([machine.seed, 2])
        self._values: Floats = np.ones(0)
        self._list: list[float] = []
        self._next = 0

    def _refill(self, least: int) -> None:
        more = max(4096, least)
        normal = self._rng.standard_normal(more)
        fresh = np.exp(self._sigma * normal - self._sigma**2 / 2)
        self._values = np.concatenate([self._values[self._next :], fresh])
        self._list = self._values.tolist()
        self._next = 0

    def one(self) -> float:
        if self._next >= len(self._list):
            self._refill(1)
        self._next += 1
        return self._list[self._next - 1]

    def peek(self, count: int) -> Floats:
        """The next ``count`` factors, without using them up."""
        if self._next + count > len(self._list):
            self._refill(count)
        return self._values[self._next : self._next + count]

    def skip(self, count: int) -> None:
        self._next += count


def emissions(seed: int, index: int, tokens: int, draft_tokens: int, acceptance: float) -> tuple[list[int], list[int]]:
    """(tokens out, drafts accepted) of each verified step of one request that has ``tokens`` to come.

    A step gives the accepted drafts and one more token; the last one is cut at the end of the answer, while
    the accepted count is not (as in the engine's counters).
    """
    if tokens <= 0:
        return [], []
    rng = np.random.default_rng([seed, 3, index])
    wins = np.cumprod(rng.random((tokens, draft_tokens)) < acceptance, axis=1).sum(axis=1)
    until = int(np.searchsorted(np.cumsum(wins + 1), tokens)) + 1
    accepted = [int(x) for x in wins[:until]]
    out = [x + 1 for x in accepted]
    out[-1] -= sum(out) - tokens
    return out, accepted


def with_law(setting: Setting, law: CostLaw) -> Setting:
    return replace(setting, machine=replace(setting.machine, law=law))
