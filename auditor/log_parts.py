"""Running lines of one log -> parts: one for each engine that prints in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.log_batches import batch_findings
from auditor.model import Gauge, LogEvidence, Part, Quantity, Slice

if TYPE_CHECKING:
    from auditor.engine_logs import BatchFigures, LogScan, RollingFigures, RunningRecord

MISSING = "a log does not carry it; scrape /metrics"
ROLLING = (
    "a log's figures are rolling averages over about ten seconds, not counters: no split, no truncation, "
    "no cache verdict"
)
GENERATION_RATE, PROMPT_RATE = "reported_generation_rate", "reported_prompt_rate"
GAUGES = {"running_requests": "running", "waiting_requests": "waiting", "kv_usage": "kv_usage"}
MOST_SLICES = 500
"""More points than this show nothing that fewer would not."""


def name_of(path: str) -> str:
    return "standard input" if path == "-" else Path(path).name


def log_parts(target: str, engine: str, scan: LogScan, model: str | None) -> tuple[Part, ...]:
    """A part for each engine in the log. Lines with stale gauges are in no figure."""
    by_engine: dict[str, list[RunningRecord]] = {}
    for record in scan.figures.records:
        by_engine.setdefault(record.engine, []).append(record)
    several = len(by_engine) > 1
    return tuple(
        _part(target, engine, scan, model, name, records, pooled=several and "Aggregated" in name)
        for name, records in sorted(by_engine.items())
    )


def _part(
    target: str,
    engine: str,
    scan: LogScan,
    model: str | None,
    name: str,
    records: Sequence[RunningRecord],
    *,
    pooled: bool,
) -> Part:
    rolling = scan.figures.engines.get(name)
    batches = scan.figures.batches if rolling is None else None
    # A short silent stretch may be a slow step; in an engine with stale lines it belongs to them.
    stale = rolling is not None and rolling.stale_lines > 0
    live = [r for r in records if not (stale and r.makes_no_tokens and r.shows_load)]
    quantities: dict[str, Quantity] = {}
    for quantity, attribute in GAUGES.items():
        gauge = _gauge(live or records, attribute, rolling)
        if gauge is not None:
            quantities[quantity] = gauge
    only = len({r.engine for r in scan.figures.records}) == 1
    for quantity, gauge in (
        (GENERATION_RATE, _generation(live or records, rolling)),
        (PROMPT_RATE, _prompt(records, rolling, batches if only else None)),
    ):
        if gauge is not None:
            quantities[quantity] = gauge
    all_stale = rolling is not None and rolling.live_lines == 0
    words = _words(scan, name, rolling, batches, all_stale)
    extra = batch_findings(scan, batches)
    restarts = sum(records[0].line < boot.line < records[-1].line for boot in scan.boots if boot.source in name)
    return Part(
        target=target,
        engine=engine,
        model=model,
        rank=_rank(name),
        quantities=quantities,
        slices=() if all_stale else _slices(live, zoned=scan.figures.start is not None),
        restarts=restarts,
        pooled=pooled,
        flaws=dict.fromkeys(GAUGES, f"stale: {words['gauges_stale']}") if all_stale else {},
        log=LogEvidence(
            moved=any(not r.makes_no_tokens or r.new_tokens for r in records)
            or bool(rolling and (rolling.prompt_tokens or rolling.generation_tokens))
            or bool(batches and (batches.new_tokens or batches.generation_tok_s)),
            missing=MISSING,
            words={**words, **extra.words},
            figures={**_figures(scan, rolling, batches, records), **extra.figures},
        ),
    )


def _rank(engine: str) -> str | None:
    """``000`` is the engine that a page calls ``0``."""
    if not engine:
        return None
    head, _, tail = engine.rpartition(" ")
    number = str(int(tail)) if tail.isdigit() else tail
    return f"{head}/{number}" if head else number


def _gauge(records: Sequence[RunningRecord], attribute: str, rolling: RollingFigures | None) -> Gauge | None:
    values = [float(v) for r in records if (v := getattr(r, attribute)) is not None]
    if not values:
        return None
    mean, high = sum(values) / len(values), max(values)
    if rolling is not None:  # summed over all lines, of which ``records`` may be a part
        mean = getattr(rolling, f"{attribute}_mean")
        high = getattr(rolling, f"{attribute}_max")
    return Gauge(values[0], values[-1], min(values), high, mean)


def _generation(records: Sequence[RunningRecord], rolling: RollingFigures | None) -> Gauge | None:
    rates = [(r.moment, r.generation_tok_s) for r in records if r.generation_tok_s is not None]
    return _rate(rates, _wall_rate(rolling, "generation") if rolling is not None else _weighted(rates))


def _prompt(
    records: Sequence[RunningRecord], rolling: RollingFigures | None, batches: BatchFigures | None
) -> Gauge | None:
    if rolling is not None:
        rates = [(r.moment, r.prompt_tok_s) for r in records if r.prompt_tok_s is not None]
        return _rate(rates, _wall_rate(rolling, "prompt"))
    if batches is None or not batches.seconds:
        return None
    rate = (batches.new_tokens + batches.cached_tokens) / batches.seconds
    return Gauge(None, rate, None, None, rate)


def _rate(rates: Sequence[tuple[float | None, float]], mean: float | None) -> Gauge | None:
    values = [rate for _, rate in rates]
    return Gauge(values[0], values[-1], min(values), max(values), mean) if values else None


def _wall_rate(rolling: RollingFigures, which: str) -> float | None:
    """Tokens over the time the lines cover: each covers what lies before it, and an idle engine prints none."""
    tokens = getattr(rolling, f"{which}_tokens")
    if tokens is None:
        return None
    printed = float(getattr(rolling, f"{which}_tok_s"))
    if rolling.seconds is None:
        return printed
    return min(printed, float(tokens) / (rolling.seconds + rolling.interval_seconds))


def _weighted(rates: Sequence[tuple[float | None, float]]) -> float | None:
    """Mean of rates by the time since the line before: a slow stretch prints few lines."""
    spans = [
        (later - earlier, rate)
        for (earlier, _), (later, rate) in pairwise(rates)
        if earlier is not None and later is not None and later > earlier
    ]
    total = sum(span for span, _ in spans)
    if total:
        return sum(span * rate for span, rate in spans) / total
    return sum(rate for _, rate in rates) / len(rates) if rates else None


def _slices(records: Sequence[RunningRecord], *, zoned: bool) -> tuple[Slice, ...]:
    """The time between neighbouring lines, from 0 where the clock's year or zone is not known."""
    stride = -(-len(records) // MOST_SLICES)
    picked = list(records[::stride]) if stride > 1 else list(records)
    if len(picked) < 3 or any(r.moment is None for r in picked):
        return ()
    base = 0.0 if zoned else picked[0].moment or 0.0
    out = []
    for a, b in pairwise(picked):
        quantities: dict[str, Quantity] = {}
        for name, attribute in (*GAUGES.items(), (GENERATION_RATE, "generation_tok_s"), (PROMPT_RATE, "prompt_tok_s")):
            first, last = getattr(a, attribute), getattr(b, attribute)
            if last is None:
                continue
            if name in GAUGES and first is not None:
                quantities[name] = Gauge(first, last, min(first, last), max(first, last), (first + last) / 2)
            else:  # a rate belongs to the time before its own line
                quantities[name] = Gauge(last, last, last, last, last)
        out.append(Slice((a.moment or 0.0) - base, (b.moment or 0.0) - base, quantities))
    return tuple(out)


# --------------------------------------------------------------------------- words


def _words(
    scan: LogScan, name: str, rolling: RollingFigures | None, batches: BatchFigures | None, all_stale: bool
) -> dict[str, str]:
    words = {}
    facts = [f for f in scan.figures.facts if f.flag == "gauges_stale"]
    if all_stale and facts:
        words["gauges_stale"] = "; ".join(f.words for f in facts[:1])
    elif all_stale:
        words["gauges_stale"] = "no token moved in any line while all gauges stayed exactly equal"
    text = f"{ROLLING}. "
    if rolling is not None:
        text += _rolling_words(scan, name, rolling)
    elif batches is not None:
        text += _batches_words(batches)
    if scan.figures.preemptions:
        text += f"; at least {scan.figures.preemptions:,} preemptions"
    if rolling is not None and rolling.stale_lines and not all_stale:
        text += f"; {rolling.stale_lines:,} lines with stale gauges are left out"
    words["log_only"] = text
    return words


def _rolling_words(scan: LogScan, name: str, rolling: RollingFigures) -> str:
    length = "" if rolling.seconds is None else f" over {rolling.seconds:,.0f} s"
    lines = "1 line" if rolling.lines == 1 else f"{rolling.lines:,} lines"
    text = f"{lines}{length}: prompt {_tokens(rolling.prompt_tok_s)}, generation {_tokens(rolling.generation_tok_s)}"
    if rolling.live_lines == 0:
        return text
    pieces = (
        ("running", rolling.running_mean, rolling.running_max, _count),
        ("waiting", rolling.waiting_mean, rolling.waiting_max, _count),
        ("KV use", rolling.kv_usage_mean, rolling.kv_usage_max, _share),
    )
    for what, mean, most, show in pieces:
        if mean is not None and most is not None:
            text += f", {what} {show(mean)}" + (f" (most {show(most)})" if most != mean else "")
    return text


def _batches_words(batches: BatchFigures) -> str:
    low, high = batches.decode_batches
    length = "" if batches.seconds is None else f" over {batches.seconds:,.0f} s"
    text = (
        f"{batches.prefill_batches:,} prefill batches and {low:,} to {high:,} decode batches{length}: "
        f"{batches.new_tokens:,} prompt tokens computed, {batches.cached_tokens:,} cached"
    )
    if batches.hit_share is not None:
        text += (
            f" ({_share(batches.hit_share)} of these batches' tokens; a retracted request finds its own tokens again, "
            "and counts as a hit)"
        )
    if batches.generation_tok_s is not None:
        text += f", generation {_tokens(batches.generation_tok_s)}"
    return text


def _tokens(rate: float | None) -> str:
    return "unknown" if rate is None else f"{rate:,.1f} tok/s"


def _count(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _share(value: float) -> str:
    return f"{100 * value:.1f} %".replace(".0 %", " %")


def _figures(
    scan: LogScan,
    rolling: RollingFigures | None,
    batches: BatchFigures | None,
    records: Sequence[RunningRecord],
) -> dict[str, Any]:
    last = records[-1]
    out: dict[str, Any] = {"log": name_of(scan.file), "source": ROLLING, "cannot_say": list(scan.figures.cannot_say)}
    out["last_line"] = {
        name: getattr(last, name)
        for name in ("line", "prompt_tok_s", "generation_tok_s", "running", "waiting", "kv_usage", "hit_rate")
    }
    if rolling is not None:
        out["rolling"] = rolling.to_json()
        usable, reason = scan.figures.hit_rate_is_usable()
        out |= {"hit_rate": rolling.hit_rate, "hit_rate_usable": usable, "hit_rate_reason": reason}
    if batches is not None:
        out["batches"] = batches.to_json()
    out["preemptions"] = scan.figures.preemptions
    out["stale"] = [fact.to_json() for fact in scan.figures.facts]
    return out
