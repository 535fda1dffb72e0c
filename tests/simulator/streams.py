"""Requests inside an engine, and the decoding ones among them.

Without drafts all decoding requests get one token a step. They are kept as numbers: how many there are, how
much context they hold, at which tick each ends and at which ticks (modulo the block size) each needs a block.
With drafts every request gets its own number of tokens, and each is stepped by itself.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from .cost import Ints
from .pool import Owner
from .record import RequestLog
from .settings import emissions
from .workload import Request


class Seat:
    """One request inside the engine."""

    __slots__ = (
        "accepted",
        "computed",
        "context0",
        "generated",
        "index",
        "last_time",
        "log",
        "out",
        "own",
        "own_behind",
        "position",
        "prefix",
        "private",
        "request",
        "residue",
        "shared",
        "start",
        "streaming",
        "target",
        "total",
    )

    def __init__(self, index: int, request: Request, log: RequestLog, prefix: Owner | None) -> None:
        self.index = index
        self.request = request
        self.log = log
        self.prefix = prefix
        cut = request.disconnect_after_tokens
        self.target = min(request.answer_tokens, cut or request.answer_tokens)
        """Tokens after which it leaves the engine."""
        self.total = request.prompt_tokens
        """Tokens to compute before the next token can be sampled."""
        self.computed = 0
        self.generated = 0
        self.shared = 0
        """Blocks held of the shared prefix; ``private`` counts all others held."""
        self.private = 0
        self.own: Owner | None = None
        """After a preemption: its blocks behind the first ``own_behind`` ones, while they stay hittable."""
        self.own_behind = 0
        self.streaming = False
        self.start = 0
        self.context0 = 0
        self.residue = 0
        self.position = 0
        self.last_time = math.nan
        self.out: list[int] = []
        self.accepted: list[int] = []

    @property
    def gone(self) -> bool:
        """Its client hangs up before the answer is complete."""
        return self.target < self.request.answer_tokens


class Streams:
    """The decoding requests of one engine."""

    def __init__(self, *, block_size: int, draft_tokens: int = 0, acceptance: float = 0.0, seed: int = 0) -> None:
        self.block_size = block_size
        self.draft_tokens = draft_tokens
        self.acceptance = acceptance
        self.seed = seed
        self.seats: dict[int, Seat] = {}
        self.context = 0
        """Tokens in the KV cache of all decoding requests."""
        self.tick = 0
        self._ends: list[tuple[int, int, Seat]] = []
        self._residues = [0] * block_size

    def __len__(self) -> int:
        return len(self.seats)

    def context_of(self, seat: Seat) -> int:
        if self.draft_tokens:
            return seat.request.prompt_tokens + seat.generated - 1
        return seat.context0 + self.tick - seat.start

    # ----------------------------------------------------------------- blocks

    def blocks_wanted(self, seat: Seat) -> int:
        """Blocks one decoding request needs for the coming step, beyond those it holds."""
        context = self.context_of(seat)
        if self.draft_tokens:
            ahead = -(-(context + 1 + self.draft_tokens) // self.block_size)
            return max(0, ahead - seat.shared - seat.private)
        return 1 if context % self.block_size == 0 else 0

    def all_blocks_wanted(self) -> int:
        if self.draft_tokens:
            return sum(self.blocks_wanted(seat) for seat in self.seats.values())
        return self._residues[self.tick % self.block_size]

    def hold_wanted(self) -> None:
        """Book what :meth:`all_blocks_wanted` said (lockstep requests are booked when they leave)."""
        if self.draft_tokens:
            for seat in self.seats.values():
                seat.private += self.blocks_wanted(seat)

    # ----------------------------------------------------------------- coming and going

    def add(self, seat: Seat) -> None:
        """The request has its first token (or its next one after a preemption) and decodes from now on."""
        seat.streaming = True
        seat.start = self.tick
        seat.context0 = seat.computed
        self.seats[seat.index] = seat
        self.context += seat.computed
        if self.draft_tokens:
            seat.position = 0
            seat.out, seat.accepted = emissions(
                self.seed,
                seat.index * 4096 + seat.log.preemptions,
                seat.target - seat.generated,
                self.draft_tokens,
                self.acceptance,
            )
        else:
            seat.residue = (seat.start - seat.context0) % self.block_size
            self._residues[seat.residue] += 1
            heapq.heappush(self._ends, (seat.start + seat.target - seat.generated, seat.index, seat))

    def remove(self, seat: Seat, now: float) -> None:
        """Take a request out and bring its own numbers up to date. ``now``: end of the last step."""
        seat.streaming = False
        del self.seats[seat.index]
        context = self.context_of(seat)
        self.context -= context
        seat.computed = context
        if self.draft_tokens:
            return
        steps = self.tick - seat.start
        seat.generated += steps
        seat.log.events += steps
        if steps:
            seat.last_time = now
        self._residues[seat.residue] -= 1
        seat.private = -(-context // self.block_size) - seat.shared

    # ----------------------------------------------------------------- steps

    def _ends_at(self, seat: Seat) -> int:
        return seat.start + seat.target - (seat.context0 - seat.request.prompt_tokens + 1)

    def steps_to_next_end(self) -> int:
        """Lockstep: steps until the next answer is complete."""
        ends = self._ends
        while not (ends[0][2].streaming and self._ends_at(ends[0][2]) == ends[0][0]):
            heapq.heappop(ends)
        return ends[0][0] - self.tick

    def blocks_ahead(self, count: int) -> Ints:
        """Lockstep: blocks wanted in the next ``count`` steps, cumulative."""
        residues = np.array(self._residues, dtype=np.int64)
        out: Ints = np.cumsum(residues[np.arange(self.tick, self.tick + count) % self.block_size])
        return out

    def step(self, now: float, count: int = 1) -> tuple[int, list[int], list[Seat]]:
        """Tokens of ``count`` steps, the last of which has just ended: (tokens of the last step, its accepted
        drafts by position, requests whose answer is complete). More than one step only in lockstep."""
        done: list[Seat] = []
        if not self.draft_tokens:
            streams = len(self.seats)
            self.tick += count
            self.context += streams * count
            ends = self._ends
            while ends and ends[0][0] <= self.tick:
                at, _, seat = heapq.heappop(ends)
                if seat.streaming and self._ends_at(seat) == at:
                    done.append(seat)
            return streams, [], done
        self.tick += 1
        generated = 0
        accepted = [0] * self.draft_tokens
        for seat in self.seats.values():
            tokens = seat.out[seat.position]
            generated += tokens
            for place in range(seat.accepted[seat.position]):
                accepted[place] += 1
            seat.position += 1
            seat.generated += tokens
            seat.log.events += 1
            seat.last_time = now
            if seat.generated >= seat.target:
                done.append(seat)
        self.context += generated
        return generated, accepted, done
