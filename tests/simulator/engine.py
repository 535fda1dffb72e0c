"""What both schedulers share: a clock, arrivals, hang-ups, the queue, and how requests leave."""

from __future__ import annotations

import heapq
import math
from collections import deque

from .blocks import Blocks
from .record import Recorder, RequestLog
from .settings import Jitter, Machine
from .streams import Seat, Streams
from .workload import Arrivals, Workload

RUN_LEAST = 6
"""Shorter runs of decode-only steps are quicker one by one."""

Chunks = list[tuple[Seat, int]]
"""Requests with the prompt tokens that a step computes for them."""


class Engine:
    """Base of the two schedulers; ``now`` is the end of the last step."""

    def __init__(self, machine: Machine, workload: Workload, blocks: Blocks, streams: Streams) -> None:
        self.law = machine.law
        self.jitter = Jitter(machine)
        self.requests = workload.requests
        self.arrivals = Arrivals(workload)
        self.record = Recorder()
        self.logs = [RequestLog(i, r.prompt_tokens, r.max_tokens) for i, r in enumerate(self.requests)]
        self.blocks = blocks
        self.streams = streams
        self.now = 0.0
        self.waiting: deque[Seat] = deque()
        self.running: dict[int, Seat] = {}
        """By request, in the order of admission."""
        self.partial: dict[int, Seat] = {}
        """Those among them whose prompt is not computed yet."""
        self._disconnects: list[tuple[float, int, Seat]] = []
        self.blocked = False
        """The head of the queue found no room, and nothing has been freed since."""
        room = blocks.pool.blocks * blocks.size
        for i, r in enumerate(self.requests):
            need = r.prompt_tokens + r.answer_tokens + 1 + streams.draft_tokens
            if need > room:
                raise ValueError(f"request {i} needs {need} tokens of KV, the pool has {room}")

    def run_to_end(self) -> None:
        """Until every request has ended."""
        while True:
            self._arrive()
            if self.running or self.waiting:
                self.do_step()
                continue
            upcoming = self.arrivals.next_seconds
            if upcoming == math.inf:
                return
            self.now = upcoming

    def do_step(self) -> None:
        """One step, or several like ones."""
        raise NotImplementedError

    def next_event_seconds(self) -> float:
        """When something comes from outside: an arrival or a hang-up."""
        return min(self.arrivals.next_seconds, self._disconnects[0][0] if self._disconnects else math.inf)

    def _arrive(self) -> None:
        while self.arrivals.next_seconds <= self.now:
            at, index = self.arrivals.pop()
            request, log = self.requests[index], self.logs[index]
            log.arrival = at
            seat = Seat(index, request, log, self.blocks.prefix(request.prefix_group, request.prefix_tokens))
            if not self.waiting:
                self.blocked = False
            self.waiting.append(seat)
            if request.disconnect_after_seconds is not None:
                heapq.heappush(self._disconnects, (at + request.disconnect_after_seconds, index, seat))
        while self._disconnects and self._disconnects[0][0] <= self.now:
            seat = heapq.heappop(self._disconnects)[2]
            if math.isnan(seat.log.ended):
                self.end(seat, gone=True)

    def leave_running(self, seat: Seat) -> None:
        self.running.pop(seat.index)
        self.partial.pop(seat.index, None)
        if seat.streaming:
            self.streams.remove(seat, self.now)

    def evict(self, seat: Seat) -> None:
        """Preempt or retract: the blocks are lost, prompt and answer so far are computed again later."""
        self.leave_running(seat)
        seat.log.preemptions += 1
        self.record.preemptions.append(self.now)
        self.blocks.release(seat, comes_back=True)
        seat.total = seat.request.prompt_tokens + seat.generated
        seat.computed = 0
        self.blocked = False

    def end(self, seat: Seat, *, gone: bool) -> None:
        """The answer is complete, or its client has gone."""
        if seat.index in self.running:
            self.leave_running(seat)
        else:
            self.waiting.remove(seat)
        self.blocks.release(seat, comes_back=False)
        self.blocked = False
        log = seat.log
        log.generated = seat.generated
        log.last = seat.last_time
        log.ended = self.now
        log.outcome = "gone" if gone else seat.request.reason
        self.arrivals.end(self.now)

    def sample(self, seat: Seat) -> None:
        """The last chunk gave a token: the first one, or after an eviction the next one."""
        seat.generated += 1
        seat.log.events += 1
        if seat.generated == 1:
            seat.log.first = self.now
        else:
            self.record.add_gap(self.now, self.now - seat.last_time, math.nan, 1)
        seat.last_time = self.now
        # vLLM reports a preemption with the request's next output.
        self.record.preemptions_seen.extend([self.now] * (seat.log.preemptions - seat.log.preemptions_seen))
        seat.log.preemptions_seen = seat.log.preemptions
        if seat.generated >= seat.target:
            self.end(seat, gone=seat.gone)
        else:
            self.streams.add(seat)
