"""The scheduler of SGLang (as in 0.5.23, page size 1, no overlap), one engine, on simulated time.

A ready prefill batch runs first and alone, and every stream stands still until it ends. A batch holds at most
``chunk`` prompt tokens; a prompt that does not fit is cut, and until its last chunk nothing else is admitted.
With mixed chunks the decoding requests ride along. After a prefill batch ``prefill_decode_interval`` decode
batches come first. Admission keeps room for a share of what the running requests may still say; when it is
wrong, the requests with the shortest answers are retracted and computed again.
"""

from __future__ import annotations

import math

import numpy as np

from .blocks import Blocks
from .engine import RUN_LEAST, Chunks, Engine
from .record import Run, close
from .settings import SglangSetting
from .streams import Seat, Streams
from .workload import Workload

_CLIP_TOKENS = 4096
"""Most answer tokens that admission reserves for one request."""
_RETRACT_STEPS = 20
"""A retraction makes room for this many decode batches."""
_RATIO_FLOOR = 0.14
_RATIO_DECAY_STEPS = 600


class _Sglang(Engine):
    def __init__(self, setting: SglangSetting, workload: Workload) -> None:
        blocks = Blocks(blocks=setting.pool_tokens, block_size=1, caching=setting.prefix_caching)
        super().__init__(setting.machine, workload, blocks, Streams(block_size=1))
        self.setting = setting
        self.ratio = setting.reserve_ratio
        self.owed_decodes = 0
        self.last_decode = 0.0
        self.fresh: dict[int, Seat] = {}
        """Requests that began to decode after the last batch in which streams ran."""
        self.retractions: list[tuple[float, int, int]] = []
        """(time, prompt tokens, answer tokens) of each retracted request."""
        self.cut_chunks: list[tuple[float, float]] = []
        """(end, seconds) of chunks that were not the last of their prompt."""
        self.cached_now = self.cached_again = 0
        self.passes: dict[str, list[float]] = {"prefill": [], "decode": []}
        self.hits: list[tuple[float, int, int, int, int]] = []
        """Of each prefill batch: its end, tokens cached, computed, and both again after a retraction."""

    def do_step(self) -> None:
        chunks = None if self._deferred() else self._next_prefill()
        if chunks is not None:
            self._prefill(chunks)
        elif not self._decode_run():
            self._decode()

    # ----------------------------------------------------------------- prefill

    def _deferred(self) -> bool:
        return self.owed_decodes > 0 and bool(self.streams.seats)

    def _reserve(self, seat: Seat) -> int:
        """Answer tokens that admission keeps free for a request not yet decoding."""
        room = self.blocks.pool.blocks - seat.request.prompt_tokens - 2
        return max(0, min(seat.request.max_tokens - seat.generated, _CLIP_TOKENS, room - seat.generated))

    def _reserved_for_streams(self) -> float:
        streams = self.streams
        left = 0
        for seat in streams.seats.values():
            said = streams.context_of(seat) - seat.request.prompt_tokens + 1
            left += min(max(0, seat.request.max_tokens - said), _CLIP_TOKENS)
        return left * self.ratio

    def _next_prefill(self) -> Chunks | None:
        """The next prefill batch, its tokens taken from the pool; None where decode is next."""
        setting, pool = self.setting, self.blocks.pool
        if not self.partial and (self.blocked or not self.waiting):
            return None
        seats = setting.seats - len(self.streams)
        if seats <= 0 and not self.partial:
            return None
        riding = len(self.streams) if setting.mixed_chunk else 0
        room = math.inf if setting.free_prefill else setting.chunk - riding
        most = math.inf if setting.free_prefill else setting.max_prefill_tokens - riding
        total = pool.free - self._reserved_for_streams() - riding
        chunks: Chunks = []
        self.cached_now = self.cached_again = 0
        for seat in self.partial.values():
            left = seat.total - seat.computed
            chunk = int(min(left, room, pool.free))
            if chunk > 0:
                pool.take(chunk)
                chunks.append((seat, chunk))
                room, most = room - chunk, most - chunk
                total -= chunk + (self._reserve(seat) if chunk == left else 0)
        while self.waiting and len(chunks) < seats and room > 0 and most > 0:
            seat = self.waiting[0]
            shared, own = self.blocks.look_up(seat)
            left = seat.total - shared - own
            woken = own + (pool.idle_blocks(seat.prefix, shared) if seat.prefix else 0)
            if left + self._reserve(seat) + woken >= total and (self.running or chunks):
                self.blocked = True
                break
            if chunks and left >= most:
                break
            chunk = int(min(left, room))
            if not self.blocks.admit(seat, shared, own, chunk, whole=False):
                self.blocked = True
                break
            self.waiting.popleft()
            self.running[seat.index] = seat
            if math.isnan(seat.log.scheduled):
                seat.log.scheduled = self.now
                seat.log.cached = shared + own
            self.cached_now += shared + own
            self.cached_again += shared + own if seat.log.preemptions else 0
            chunks.append((seat, chunk))
            room, most = room - chunk, most - chunk
            total -= woken + chunk + (self._reserve(seat) if chunk == left else 0)
        return chunks or None

    def _prefill(self, chunks: Chunks) -> None:
        setting = self.setting
        mixed = (setting.mixed_chunk or setting.free_prefill) and bool(self.streams.seats)
        if mixed and not self._take_for_streams():
            # No room to let the streams ride along: the batch runs alone.
            mixed = False
        streams, context = (len(self.streams), self.streams.context) if mixed else (0, 0)
        tokens = sum(chunk for _, chunk in chunks)
        pairs = sum(chunk * (seat.computed + chunk / 2) for seat, chunk in chunks)
        paid, paid_pairs = (0, 0.0) if setting.free_prefill else (tokens, pairs)
        noise = self.jitter.one()
        seconds = self.law.step_seconds(streams, streams, context, paid, paid_pairs) * noise
        bare = self.law.step_seconds(streams, streams, context, 0, 0.0) * noise if mixed else 0.0
        start = self.now
        self.now = start + seconds
        generated = self._emit(streams, bare) if mixed else 0
        again = 0
        for seat, chunk in chunks:
            self.blocks.advance(seat, chunk)
            self.blocks.merge(seat)
            if seat.log.preemptions:
                again += chunk
            if seat.computed < seat.total:
                self.partial[seat.index] = seat
                self.cut_chunks.append((self.now, seconds))
                continue
            self.partial.pop(seat.index, None)
            generated += 1
            self.sample(seat)
            if seat.streaming:
                self.fresh[seat.index] = seat
        self.owed_decodes = setting.prefill_decode_interval
        self.passes["prefill"].append(self.now)
        self.hits.append((self.now, self.cached_now, tokens, self.cached_again, again))
        self._log_step(start, bare, streams, tokens, generated)

    # ----------------------------------------------------------------- decode

    def _take_for_streams(self) -> bool:
        need = self.streams.all_blocks_wanted()
        if need > self.blocks.pool.free:
            return False
        self.blocks.pool.take(need)
        return True

    def _decode(self) -> None:
        if not self._take_for_streams():
            self._retract()
            self.blocks.pool.take(self.streams.all_blocks_wanted())
        streams, context = len(self.streams), self.streams.context
        if not streams:
            raise RuntimeError("the scheduler found nothing to run")
        start = self.now
        seconds = self.law.step_seconds(streams, streams, context, 0, 0.0) * self.jitter.one()
        self.now = start + seconds
        generated = self._emit(streams, seconds)
        self._count_decodes(1)
        self.passes["decode"].append(self.now)
        self._log_step(start, seconds, streams, 0, generated)

    def _count_decodes(self, count: int) -> None:
        self.owed_decodes = max(0, self.owed_decodes - count)
        top = self.setting.reserve_ratio
        floor = top * _RATIO_FLOOR
        self.ratio = max(floor, self.ratio - count * (top - floor) / _RATIO_DECAY_STEPS)

    def _emit(self, streams: int, bare: float) -> int:
        """One token for every stream: their gaps, and the answers that are complete."""
        late: dict[float, int] = {}
        for seat in self.fresh.values():
            if seat.streaming and seat.start == self.streams.tick:
                late[seat.last_time] = late.get(seat.last_time, 0) + 1
        for since, count in late.items():
            self.record.add_gap(self.now, self.now - since, bare, count)
        rest = streams - sum(late.values())
        if rest:
            self.record.add_gap(self.now, self.now - self.last_decode, bare, rest)
        self.fresh.clear()
        self.last_decode = self.now
        generated, _, done = self.streams.step(self.now)
        for seat in done:
            self.end(seat, gone=seat.gone)
        return generated

    def _retract(self) -> None:
        """Room for the coming decode batches: the shortest answers (of the longest prompts) go back."""
        streams, pool = self.streams, self.blocks.pool

        def said(seat: Seat) -> int:
            return streams.context_of(seat) - seat.request.prompt_tokens + 1

        order = sorted(streams.seats.values(), key=lambda s: (said(s), -s.request.prompt_tokens), reverse=True)
        while len(order) > 1 and pool.free < len(order) * _RETRACT_STEPS:
            seat = order.pop()
            self.retractions.append((self.now, seat.request.prompt_tokens, said(seat)))
            since = seat.last_time if seat.start == streams.tick else self.last_decode
            self.evict(seat)
            seat.last_time = since
            self.waiting.append(seat)
        if pool.free < len(order):
            for seat in list(self.partial.values()):
                self.evict(seat)
                self.waiting.append(seat)
        decoded = sum(said(seat) + _RETRACT_STEPS for seat in order)
        self.ratio = min(1.0, decoded / (sum(s.request.max_tokens for s in order) + 1))

    # ----------------------------------------------------------------- the record

    def _log_step(self, start: float, bare: float, streams: int, tokens: int, generated: int) -> None:
        self.record.add_step(
            start=start,
            end=self.now,
            bare=bare if streams else 0.0,
            streams=streams,
            decode_tokens=streams,
            prefill_tokens=tokens,
            generated=generated,
            recorded=tokens + streams if generated else -1,
            running=len(self.running),
            waiting=len(self.waiting),
            used_blocks=self.blocks.pool.used,
            queries=0,
            hits=0,
            drafts=0,
            accepted=0,
        )

    def _decode_run(self) -> bool:
        """Many decode batches at once; False where the next one is not like the last one."""
        streams, pool = len(self.streams), self.blocks.pool
        if not streams or self.fresh:
            return False
        count = self.streams.steps_to_next_end()
        waits = self.partial or (self.waiting and not self.blocked and streams < self.setting.seats)
        if waits:
            count = min(count, self.owed_decodes)
        count = min(count, pool.free // streams)
        if count < RUN_LEAST:
            return False
        context = self.streams.context + streams * np.arange(count, dtype=np.int64)
        seconds = self.law.run_seconds(streams, context) * self.jitter.peek(count)
        times = np.cumsum(np.concatenate([[self.now], seconds]))
        seen = int(np.searchsorted(times[:-1], self.next_event_seconds(), side="left"))
        count = min(count, max(1, seen))
        since = self.now - self.last_decode
        self.jitter.skip(count)
        used = (pool.used + streams * np.arange(1, count + 1)).tolist()
        pool.take(streams * count)
        self.now = self.last_decode = float(times[count])
        running, waiting = len(self.running), len(self.waiting)
        _, _, done = self.streams.step(self.now, count)
        for seat in done:
            self.end(seat, gone=seat.gone)
        used[-1] = pool.used
        ends = times[1 : count + 1].tolist()
        self._count_decodes(count)
        self.passes["decode"].extend(ends)
        self.record.add_run(
            starts=times[:count].tolist(),
            ends=ends,
            seconds=seconds[:count].tolist(),
            streams=streams,
            running=[running] * (count - 1) + [len(self.running)],
            waiting=waiting,
            used=used,
        )
        # The first of these gaps began before the batches that the streams sat out.
        self.record.gaps["seconds"][-count] += since
        return True


def simulate_sglang(setting: SglangSetting, workload: Workload) -> Run:
    """The whole run of a workload on an SGLang engine, until every request has ended.

    Raises ValueError where one request alone does not fit the pool.
    """
    engine = _Sglang(setting, workload)
    engine.run_to_end()
    return close(
        engine.record,
        "sglang",
        setting,
        engine.logs,
        passes={name: np.array(ends, dtype=float) for name, ends in engine.passes.items()},
        prefills=np.array(engine.hits, dtype=float).reshape(-1, 5),
        retractions=np.array(engine.retractions, dtype=float).reshape(-1, 3),
        cut_chunks=np.array(engine.cut_chunks, dtype=float).reshape(-1, 2),
    )
