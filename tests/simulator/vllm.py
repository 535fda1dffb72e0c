"""The scheduler of vLLM V1 (as in 0.32), one engine, on simulated time.

A step: running requests first (1 + K tokens a decoding request, then chunks of prompts in progress, in the
order of admission), then waiting ones while budget, seats and blocks last. Without room for a running request
the last admitted one is preempted: it loses its blocks, goes to the head of the queue, and computes prompt
and answer so far again. Runs of decode-only steps are priced in one go.

Simplification: a decoding request always gets its tokens before any chunk. With K > 0 and a threshold the
real scheduler can, for a step, leave out one that was admitted behind a long prompt.
"""

from __future__ import annotations

import math

import numpy as np

from .blocks import Blocks
from .engine import RUN_LEAST, Chunks, Engine
from .record import Run, close
from .settings import VllmSetting
from .streams import Streams
from .workload import Workload


class _Vllm(Engine):
    def __init__(self, setting: VllmSetting, workload: Workload) -> None:
        blocks = Blocks(blocks=setting.blocks, block_size=setting.block_size, caching=setting.prefix_caching)
        streams = Streams(
            block_size=setting.block_size,
            draft_tokens=setting.draft_tokens,
            acceptance=setting.acceptance,
            seed=setting.machine.seed,
        )
        super().__init__(setting.machine, workload, blocks, streams)
        self.setting = setting
        self.queries = 0
        self.hits = 0

    def do_step(self) -> None:
        if not (self.streams.seats and not self.partial and self._decode_run()):
            self._step()

    # ----------------------------------------------------------------- scheduling

    def _step(self) -> None:
        setting, blocks = self.setting, self.blocks
        self.queries = self.hits = 0
        room = setting.budget - len(self.streams) * (1 + setting.draft_tokens)
        need = self.streams.all_blocks_wanted()
        chunks: Chunks = []
        for seat in self.partial.values():
            chunk = self._chunk(seat.total - seat.computed, room)
            if chunk:
                room -= 0 if setting.free_prefill else chunk
                chunks.append((seat, chunk))
                need += blocks.wanted(seat, chunk)
        if need > blocks.pool.free:
            # Nothing new is admitted in a step that had to preempt.
            chunks = self._squeeze()
        else:
            blocks.pool.take(need)
            self.streams.hold_wanted()
            for seat, chunk in chunks:
                blocks.advance(seat, chunk)
            self._admit(room, chunks)
        self._execute(chunks)

    def _chunk(self, wanted: int, room: int) -> int:
        if self.setting.free_prefill:
            return wanted
        if 0 < self.setting.threshold < wanted:
            wanted = self.setting.threshold
        return min(wanted, room)

    def _squeeze(self) -> Chunks:
        """Room for the running requests in their order, preempting from the end of the line."""
        setting, pool = self.setting, self.blocks.pool
        chunks: Chunks = []
        taken = 0
        for seat in list(self.running.values()):
            chunk = 0
            if seat.streaming:
                need = self.streams.blocks_wanted(seat)
            else:
                room = setting.budget - len(self.streams) * (1 + setting.draft_tokens) - taken
                chunk = self._chunk(seat.total - seat.computed, room)
                need = self.blocks.wanted(seat, chunk)
            while need > pool.free and seat.index in self.running:
                victim = next(reversed(self.running.values()))
                self.evict(victim)
                self.waiting.appendleft(victim)
            if seat.index not in self.running:
                break
            pool.take(need)
            if seat.streaming:
                seat.private += need if setting.draft_tokens else 0
            elif chunk:
                taken += 0 if setting.free_prefill else chunk
                chunks.append((seat, chunk))
                self.blocks.advance(seat, chunk)
        return chunks

    def _admit(self, room: int, chunks: Chunks) -> None:
        setting, blocks = self.setting, self.blocks
        self.blocked = False
        while self.waiting and len(self.running) < setting.seats and (room > 0 or setting.free_prefill):
            seat = self.waiting[0]
            shared, own = blocks.look_up(seat)
            known = (shared + own) * blocks.size
            chunk = self._chunk(seat.total - known, room)
            if not blocks.admit(seat, shared, own, chunk, whole=setting.reserve_whole_prompt):
                self.blocked = True
                break
            self.waiting.popleft()
            self.running[seat.index] = seat
            if math.isnan(seat.log.scheduled):
                seat.log.scheduled = self.now
                seat.log.cached = known
                if setting.prefix_caching:
                    self.queries += seat.total
                    self.hits += known
            room -= 0 if setting.free_prefill else chunk
            chunks.append((seat, chunk))
            blocks.advance(seat, chunk)

    # ----------------------------------------------------------------- the step itself

    def _execute(self, chunks: Chunks) -> None:
        setting, law, running = self.setting, self.law, self.streams
        streams = len(running)
        if not streams and not chunks:
            raise RuntimeError("the scheduler found nothing to run")
        tokens, pairs = 0, 0.0
        for seat, chunk in chunks:
            tokens += chunk
            pairs += chunk * (seat.computed - chunk / 2)
        paid, paid_pairs = (0, 0.0) if setting.free_prefill else (tokens, pairs)
        decode_tokens = streams * (1 + setting.draft_tokens)
        draft = setting.machine.draft_seconds if setting.draft_tokens and streams else 0.0
        noise = self.jitter.one()
        context = running.context
        seconds = (law.step_seconds(streams, decode_tokens, context, paid, paid_pairs) + draft) * noise
        bare = seconds
        if paid and streams:
            bare = (law.step_seconds(streams, decode_tokens, context, 0, 0.0) + draft) * noise
        start = self.now
        self.now = start + seconds
        if streams:
            self.record.add_gap(self.now, seconds, bare, streams)
        generated, accepted, done = running.step(self.now)
        for seat in done:
            self.end(seat, gone=seat.gone)
        computed_prompts = 0
        for seat, _chunk in chunks:
            if seat.computed < seat.total:
                self.partial[seat.index] = seat
                continue
            self.partial.pop(seat.index, None)
            if not seat.generated:
                computed_prompts += seat.request.prompt_tokens - seat.log.cached
            generated += 1
            self.sample(seat)
        self.record.add_step(
            start=start,
            end=self.now,
            bare=bare if streams else 0.0,
            streams=streams,
            decode_tokens=decode_tokens,
            prefill_tokens=tokens,
            generated=generated,
            recorded=computed_prompts + generated if generated else -1,
            running=len(self.running),
            waiting=len(self.waiting),
            used_blocks=self.blocks.pool.used,
            queries=self.queries,
            hits=self.hits,
            drafts=streams if setting.draft_tokens else 0,
            accepted=sum(accepted),
        )
        if setting.draft_tokens:
            self.record.accepted_by_place.append(accepted or [0] * setting.draft_tokens)

    # ----------------------------------------------------------------- runs of decode-only steps

    def _decode_run(self) -> bool:
        """Many decode-only steps at once; False where the next step is not like the last one."""
        setting, streams, pool = self.setting, len(self.streams), self.blocks.pool
        stuck = self.blocked or len(self.running) >= setting.seats
        if setting.draft_tokens or (self.waiting and not stuck):
            return False
        count = self.streams.steps_to_next_end()
        if count < RUN_LEAST:
            return False
        need = self.streams.blocks_ahead(count)
        if need[-1] > pool.free:
            count = int(np.searchsorted(need, pool.free, side="right"))
            if count < RUN_LEAST:
                return False
        context = self.streams.context + streams * np.arange(count, dtype=np.int64)
        seconds = self.law.run_seconds(streams, context) * self.jitter.peek(count)
        times = np.cumsum(np.concatenate([[self.now], seconds]))
        seen = int(np.searchsorted(times[:-1], self.next_event_seconds(), side="left"))
        count = min(count, max(1, seen))
        self.jitter.skip(count)
        used = (pool.used + need[:count]).tolist()
        pool.take(int(need[count - 1]))
        self.now = float(times[count])
        running, waiting = len(self.running), len(self.waiting)
        _, _, done = self.streams.step(self.now, count)
        for seat in done:
            self.end(seat, gone=seat.gone)
        used[-1] = pool.used
        self.record.add_run(
            starts=times[:count].tolist(),
            ends=times[1 : count + 1].tolist(),
            seconds=seconds[:count].tolist(),
            streams=streams,
            running=[running] * (count - 1) + [len(self.running)],
            waiting=waiting,
            used=used,
        )
        return True


def simulate_vllm(setting: VllmSetting, workload: Workload) -> Run:
    """The whole run of a workload on a vLLM engine, until every request has ended.

    Raises ValueError where one request alone does not fit the pool.
    """
    engine = _Vllm(setting, workload)
    engine.run_to_end()
    places = np.array(engine.record.accepted_by_place, dtype=float)
    return close(engine.record, "vllm", setting, engine.logs, accepted_by_place=places)
