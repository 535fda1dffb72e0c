"""Summing up running lines as they come, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from auditor.engine_logs.figures import RunningRecord
from auditor.engine_logs.running import BatchFigures, Fact, LogFigures, RollingFigures

STALE_LINES = 3
"""So many equal lines without a token call the gauges stale."""
DEFAULT_INTERVAL_SECONDS = 10.0
SGLANG_DECODE_INTERVAL = 40
MOST_RECORDS = 4096


@dataclass
class _Engine:
    """Running sums of one engine's lines. A run of equal silent lines is held back until it ends."""

    lines: int = 0
    first: RunningRecord | None = None
    last: RunningRecord | None = None
    gaps: list[float] = field(default_factory=list)
    prompt_rates: float = 0.0
    generation_rates: float = 0.0
    rated: int = 0
    live: int = 0
    running: list[float] = field(default_factory=lambda: [0.0, 0.0])
    waiting: list[float] = field(default_factory=lambda: [0.0, 0.0])
    usage: list[float] = field(default_factory=lambda: [0.0, 0.0])
    live_hits: list[float] = field(default_factory=list)
    run: list[RunningRecord] = field(default_factory=list)
    run_length: int = 0
    stale: list[Fact] = field(default_factory=list)
    stale_lines: int = 0

    def add(self, record: RunningRecord) -> None:
        self.lines += 1
        previous, self.last = self.last, record
        self.first = self.first or record
        if previous and previous.moment is not None and record.moment is not None:
            gap = record.moment - previous.moment
            if 0 < gap < 86_400 and len(self.gaps) < MOST_RECORDS:
                self.gaps.append(gap)
        if record.prompt_tok_s is not None or record.generation_tok_s is not None:
            self.rated += 1
            self.prompt_rates += record.prompt_tok_s or 0.0
            self.generation_rates += record.generation_tok_s or 0.0
        frozen = record.makes_no_tokens and record.shows_load
        if self.run and (not frozen or record.gauges() != self.run[0].gauges()):
            self.end_run()
        if frozen:
            self.run = [self.run[0], record] if self.run else [record]
            self.run_length += 1
        else:
            self._count(record, 1)

    def end_run(self) -> None:
        if self.run_length >= STALE_LINES:
            self.stale_lines += self.run_length
            self.stale.append(_stale_fact(self.run, self.run_length))
        elif self.run_length:
            self._count(self.run[0], self.run_length)
        self.run, self.run_length = [], 0

    def _count(self, record: RunningRecord, times: int) -> None:
        self.live += times
        for held, value in (
            (self.running, record.running),
            (self.waiting, record.waiting),
            (self.usage, record.kv_usage),
        ):
            held[0] += times * (value or 0.0)
            held[1] = max(held[1], value or 0.0)
        if record.hit_rate is not None:
            self.live_hits = [record.hit_rate]


def _stale_fact(run: Sequence[RunningRecord], length: int) -> Fact:
    first, last = run[0], run[-1]
    seconds = None if first.moment is None or last.moment is None else last.moment - first.moment
    spoken = f"{seconds:g} s ({length} lines)" if seconds is not None else f"{length} lines"
    return Fact(
        flag="gauges_stale",
        words=(
            f"for {spoken} no token moved while running {first.running}, waiting {first.waiting} and KV usage "
            f"{_percent(first.kv_usage)} stayed exactly equal: the gauges are left over from aborted requests, or the "
            "engine is stuck. Either way they describe no load, no queue and no pressure on the pool"
        ),
        first_line=first.line,
        lines=length,
        seconds=seconds,
    )


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


class FigureReader:
    """Takes running records in order, in bounded memory; ``finish`` sums them up."""

    def __init__(self) -> None:
        self.engines: dict[str, _Engine] = {}
        self.records: list[RunningRecord] = []
        self.every, self.lines = 1, 0
        self.preempted_total = self.preempted_more = 0
        self.saw_preemptions = False
        self._prefill = self._decode = self._new = self._cached = 0
        self._rates = 0.0
        self._peaks: dict[str, float] = {}
        self._ends: list[RunningRecord] = []
        self._seen: dict[str, int] = {}

    def _thin(self) -> None:
        """Keep every other record of each engine: engines take turns, so halving all would lose some whole."""
        kept: list[RunningRecord] = []
        count: dict[str, int] = {}
        for record in self.records:
            index = count[record.engine] = count.get(record.engine, -1) + 1
            if index % 2 == 0:
                kept.append(record)
        # Thousands of engines with a line each: nothing to halve but the engines.
        self.records = kept if len(kept) < MOST_RECORDS else kept[::2]
        self.every *= 2

    def add(self, record: RunningRecord) -> None:
        seen = self._seen.get(record.engine, 0)
        if seen % self.every == 0:
            self.records.append(record)
            if len(self.records) > MOST_RECORDS:
                self._thin()
        if record.engine in self._seen or len(self._seen) < MOST_RECORDS:
            self._seen[record.engine] = seen + 1
        self.lines += 1
        if record.preemptions:
            self.note_preemptions("more", record.preemptions)
        if record.kind == "interval":
            self.engines.setdefault(record.engine, _Engine()).add(record)
        else:
            self._add_batch(record)

    def _add_batch(self, record: RunningRecord) -> None:
        self._ends = [self._ends[0], record] if self._ends else [record]
        for name in ("running", "waiting", "kv_usage"):
            value = getattr(record, name)
            if value is not None:
                self._peaks[name] = max(self._peaks.get(name, 0.0), value)
        if record.kind == "prefill":
            self._prefill += 1
            self._new += record.new_tokens or 0
            self._cached += record.cached_tokens or 0
        else:
            self._decode += 1
            self._rates += record.generation_tok_s or 0.0

    def amend_hit_rate(self, engine_source: str, hit_rate: float) -> None:
        """Attach vLLM V0's separate hit-rate line to the engine whose figures it follows."""
        state = self.engines.get(engine_source)
        if state is not None:
            state.live_hits = [hit_rate]

    def note_preemptions(self, kind: str, count: int) -> None:
        self.saw_preemptions = True
        if kind == "total":
            self.preempted_total = max(self.preempted_total, count)
        else:
            self.preempted_more += count

    def finish(self, *, decode_interval: int | None = None) -> LogFigures:
        engines: dict[str, RollingFigures] = {}
        facts: list[Fact] = []
        for name, state in self.engines.items():
            state.end_run()
            facts.extend(state.stale)
            engines[name] = _summed(name, state)
        return LogFigures(
            records=self._kept(),
            every=self.every,
            lines=self.lines,
            engines=engines,
            batches=self._batches(decode_interval or SGLANG_DECODE_INTERVAL),
            preemptions=self.preempted_total + self.preempted_more if self.saw_preemptions else None,
            facts=tuple(sorted(facts, key=lambda fact: fact.first_line)[:100]),
        )

    def _kept(self) -> tuple[RunningRecord, ...]:
        """The thinned records, and each engine's last one: the end of a log is the end of its window."""
        lines = {record.line for record in self.records}
        ends = [state.last for state in self.engines.values() if state.last is not None] + self._ends[-1:]
        added = [record for record in ends if record.line not in lines][:MOST_RECORDS]
        return tuple(sorted([*self.records, *added], key=lambda record: record.line))

    def _batches(self, interval: int) -> BatchFigures | None:
        if not (self._prefill or self._decode):
            return None
        total = self._new + self._cached
        return BatchFigures(
            prefill_batches=self._prefill,
            decode_lines=self._decode,
            decode_interval=interval,
            new_tokens=self._new,
            cached_tokens=self._cached,
            hit_share=self._cached / total if total else None,
            seconds=_span(self._ends),
            running_max=_whole(self._peaks.get("running")),
            waiting_max=_whole(self._peaks.get("waiting")),
            kv_usage_max=self._peaks.get("kv_usage"),
            generation_tok_s=self._rates / self._decode if self._decode else None,
        )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _span(ends: Sequence[RunningRecord]) -> float | None:
    if len(ends) < 2 or ends[0].moment is None or ends[-1].moment is None:
        return None
    span = ends[-1].moment - ends[0].moment
    if span < 0 and ends[0].clock == "no_year":
        span += 366 * 86_400
    return span if span >= 0 else None


def _summed(name: str, state: _Engine) -> RollingFigures:
    ends = [record for record in (state.first, state.last) if record is not None]
    interval = median(state.gaps) if state.gaps else DEFAULT_INTERVAL_SECONDS
    live, rated = state.live, state.rated
    return RollingFigures(
        engine=name,
        lines=state.lines,
        live_lines=live,
        stale_lines=state.stale_lines,
        seconds=_span(ends) if state.lines > 1 else None,
        interval_seconds=interval,
        prompt_tokens=state.prompt_rates * interval if rated else None,
        generation_tokens=state.generation_rates * interval if rated else None,
        prompt_tok_s=state.prompt_rates / rated if rated else None,
        generation_tok_s=state.generation_rates / rated if rated else None,
        running_mean=state.running[0] / live if live else None,
        running_max=state.running[1] if live else None,
        waiting_mean=state.waiting[0] / live if live else None,
        waiting_max=state.waiting[1] if live else None,
        kv_usage_mean=state.usage[0] / live if live else None,
        kv_usage_max=state.usage[1] if live else None,
        hit_rate=state.live_hits[-1] if state.live_hits else None,
    )
