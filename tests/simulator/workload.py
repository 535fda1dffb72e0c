"""Who asks what, and when: open (Poisson) or closed (clients that wait for their answer) workloads."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .cost import Ints

Reason = Literal["stop", "length"]


@dataclass(frozen=True)
class Request:
    """One request as the client sends it. Times in seconds, lengths in tokens."""

    prompt_tokens: int
    output_tokens: int
    """Tokens the model would say before it stops by itself; at least 1."""
    max_tokens: int
    think_seconds: float = 0.0
    """Closed loop: pause of the client before it sends this request."""
    arrival_seconds: float = 0.0
    """Open workload: when it is sent."""
    prefix_group: int | None = None
    """Requests of one group share their first ``prefix_tokens`` tokens."""
    prefix_tokens: int = 0
    disconnect_after_tokens: int | None = None
    """The client hangs up after this many tokens (at least 1)."""
    disconnect_after_seconds: float | None = None
    """The client hangs up this long after it sent the request, wherever the request is then."""

    @property
    def answer_tokens(self) -> int:
        """Tokens of a full answer: what the model says, cut at the cap."""
        return min(self.output_tokens, self.max_tokens)

    @property
    def reason(self) -> Reason:
        """Finish reason of a full answer. Stopping exactly at the cap counts as a stop, as engines do."""
        return "stop" if self.output_tokens <= self.max_tokens else "length"


@dataclass(frozen=True)
class Workload:
    """Requests in the order in which they are sent. ``clients`` None: open, else that many closed loops."""

    requests: tuple[Request, ...]
    clients: int | None = None

    def __post_init__(self) -> None:
        for index, request in enumerate(self.requests):
            if request.prompt_tokens < 1 or request.answer_tokens < 1:
                raise ValueError(f"request {index}: a prompt and an answer have at least one token")
            if request.prefix_group is not None and not 0 <= request.prefix_tokens <= request.prompt_tokens:
                raise ValueError(f"request {index}: the shared prefix is longer than the prompt")
            if (request.disconnect_after_tokens or 1) < 1:
                raise ValueError(f"request {index}: a client cannot hang up after less than one token")

    def map_requests(self, **changes: object) -> Workload:
        """The same workload with fields of every request replaced."""
        return replace(self, requests=tuple(replace(r, **changes) for r in self.requests))  # type: ignore[arg-type]


class Arrivals:
    """The requests still to come. In a closed loop the next one is sent when an answer has ended."""

    def __init__(self, workload: Workload) -> None:
        requests = workload.requests
        self._requests = requests
        self._closed = workload.clients is not None
        self._unsent = len(requests) if workload.clients is None else min(workload.clients, len(requests))
        first = range(self._unsent)
        if self._closed:
            self._heap = [(requests[i].think_seconds, i) for i in first]
        else:
            self._heap = [(requests[i].arrival_seconds, i) for i in first]
        heapq.heapify(self._heap)

    @property
    def next_seconds(self) -> float:
        """When the next request is sent; infinite when none is known."""
        return self._heap[0][0] if self._heap else math.inf

    def pop(self) -> tuple[float, int]:
        """(time, index) of the next request."""
        return heapq.heappop(self._heap)

    def end(self, now: float) -> None:
        """An answer has ended (or its client has gone): a closed loop sends its next request."""
        if self._closed and self._unsent < len(self._requests):
            index = self._unsent
            self._unsent += 1
            heapq.heappush(self._heap, (now + self._requests[index].think_seconds, index))


@dataclass(frozen=True)
class Lengths:
    """Token lengths: log-normal around ``mean`` with ``sigma`` (of the logarithm), or two such humps.

    ``second_mean`` and ``second_share`` describe the other hump. ``geometric`` draws memoryless lengths.
    """

    mean: float
    sigma: float = 0.5
    second_mean: float | None = None
    second_share: float = 0.0
    geometric: bool = False
    low: int = 1
    high: int = 32_768

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        means = np.full(count, self.mean)
        if self.second_mean is not None:
            means = np.where(rng.random(count) < self.second_share, self.second_mean, means)
        if self.geometric:
            values = rng.geometric(1.0 / np.maximum(1.0, means)).astype(float)
        else:
            values = np.exp(rng.normal(np.log(means) - self.sigma**2 / 2, self.sigma))
        out: Ints = np.clip(np.rint(values), self.low, self.high).astype(np.int64)
        return out


def make_workload(
    *,
    seed: int,
    count: int,
    prompts: Lengths,
    outputs: Lengths,
    rate_per_second: float | None = None,
    clients: int | None = None,
    think_seconds: float = 0.0,
    cap_tokens: int | None = None,
    context_tokens: int = 32_768,
    prefix_groups: int = 0,
    prefix_share: float = 0.0,
    prefix_tokens: int = 0,
    disconnect_share: float = 0.0,
) -> Workload:
    """A random workload: ``rate_per_second`` (open) or ``clients`` (closed), exactly one of them.

    ``prefix_share`` of the requests belong to one of ``prefix_groups`` groups; their prompt is the group's
    prefix of ``prefix_tokens`` plus a drawn length. ``cap_tokens`` is everybody's max_tokens (default: the
    context). ``disconnect_share`` of the clients hang up somewhere in their answer. Lengths are cut so that
    prompt and answer fit ``context_tokens``.
    """
    if (rate_per_second is None) == (clients is None):
        raise ValueError("give rate_per_second or clients, not both")
    rng = np.random.default_rng([seed, 1])
    own = prompts.draw(rng, count)
    said = outputs.draw(rng, count)
    gaps = rng.exponential(1.0, count)
    grouped = rng.random(count) < prefix_share if prefix_groups else np.zeros(count, dtype=bool)
    group = rng.integers(0, max(1, prefix_groups), count)
    leaves = rng.random(count) < disconnect_share
    where = rng.random(count)
    arrivals = np.cumsum(gaps) / rate_per_second if rate_per_second else np.zeros(count)
    thinks = rng.exponential(1.0, count) * think_seconds
    requests = []
    for i in range(count):
        shared = prefix_tokens if grouped[i] else 0
        prompt = min(int(own[i]) + shared, context_tokens - 1)
        cap = min(cap_tokens or context_tokens, context_tokens - prompt)
        answer = min(int(said[i]), cap)
        requests.append(
            Request(
                prompt_tokens=prompt,
                output_tokens=int(said[i]),
                max_tokens=cap,
                think_seconds=float(thinks[i]),
                arrival_seconds=float(arrivals[i]),
                prefix_group=int(group[i]) if shared else None,
                prefix_tokens=min(shared, prompt),
                disconnect_after_tokens=1 + int(where[i] * answer) if leaves[i] and answer > 1 else None,
            )
        )
    return Workload(requests=tuple(requests), clients=clients)
