"""KV pool, seats and queue: levels at the window's end, and over its scrapes where there are several."""

from __future__ import annotations

import math
from typing import Any

from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.readings.requests import finished_count
from auditor.measures.subject import Missing, Subject


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _level(s: Subject, name: str) -> Found:
    """A gauge at the window's end, with mean and max over a series or range."""
    gauge = s.gauge(name)
    if gauge.last is None:
        raise Missing("absent", f"{name} is not on the last page", sources=(name,))
    return Found(gauge.last, count=1.0, sources=(name,), extra=_over_time(s, name))


def _over_time(s: Subject, name: str) -> dict[str, Any]:
    """Mean and max over the pages of a series or the steps of a range."""
    if s.window.kind not in ("series", "range"):
        return {}
    pooled = any(p.pooled for p in s.parts)
    if len(s.parts) > 1 and not pooled and s.slices and all(part.has(name) for part in s.slices):
        # Engines peak at different moments: levels are added page by page first.
        levels = [s.slices[0].gauge(name).first, *(part.gauge(name).last for part in s.slices)]
        known = [v for v in levels if v is not None]
        if known:
            return {"mean": math.fsum(known) / len(known), "max": max(known)}
    gauge = s.gauge(name)
    return {"mean": gauge.mean, "max": gauge.high}


@reading(unit="requests")
def running_requests(s: Subject) -> Found:
    """Requests in the running batch at the window's end; mean and max over a series or range."""
    return _level(s, "running_requests")


@reading(unit="requests", better="lower")
def waiting_requests(s: Subject) -> Found:
    """Requests waiting for a seat at the window's end; mean and max over a series or range."""
    return _level(s, "waiting_requests")


@reading(unit="ratio")
def waiting_deferred_share(s: Subject) -> Found:
    """Waiting requests that wait for something else than capacity (reason ``deferred``), over all waiting."""
    parts = s.gauge("waiting_by_reason").split
    total = s.gauge("waiting_requests").last or 0.0
    sources = ("waiting_by_reason", "waiting_requests")
    return Found(ratio(parts.get("deferred", 0.0), total, "nothing waits", sources), count=total, sources=sources)


@reading(unit="tokens")
def kv_pool_tokens(s: Subject) -> Found:
    """Tokens that the KV pool holds, added over engines.

    From the engine's own count of tokens; where it has none, blocks x block size of a single engine, which is wrong
    for hybrid models.
    """
    engines = s.engines() if len(s.parts) > 1 else [s]
    engines = [e for e in engines if e.has("cache_config") or e.has("kv_usage")] or engines
    direct = [_number(v) for e in engines for v in e.config("pool_tokens")[:1]]
    if direct and len(direct) == len(engines) and all(direct):
        return Found(sum(v for v in direct if v), count=float(len(direct)), sources=("cache_config",))
    if s.has("pool_tokens"):
        value = s.gauge("pool_tokens").last
        if value:
            return Found(value, count=float(len(engines)), sources=("pool_tokens",))
    pool = s.settings.get("kv_pool_tokens")
    if pool is not None and isinstance(pool.value, int | float) and len(engines) == 1:
        return Found(float(pool.value), caveats=(f"from {pool.source}",))
    if not s.has("cache_config"):
        raise s.missing("cache_config" if "cache_config" in s.engine.quantities else "pool_tokens")
    if len(engines) > 1:
        raise Missing(
            "not_exported",
            f"{len(direct)} of {len(engines)} engines say how many tokens their pool holds, and blocks are no "
            "substitute: each engine may show the blocks of all",
        )
    if s.config("hybrid"):
        raise Missing("invalid", "a hybrid model: blocks x block size is not its pool", sources=("cache_config",))
    blocks, block = s.config("pool_blocks"), s.setting("block_size")
    count = _number(blocks[0]) if blocks else None
    if count is None or block is None:
        raise Missing("not_exported", "the cache configuration names no number of blocks", sources=("cache_config",))
    return Found(
        count * block,
        count=1.0,
        sources=("cache_config",),
        caveats=("blocks x block size: wrong for hybrid models",),
    )


def _usages(s: Subject, which: str) -> list[tuple[float, float | None]]:
    """(usage, pool tokens) of each engine that shows a usage."""
    out = []
    for e in s.engines() if len(s.parts) > 1 else [s]:
        if not e.has("kv_usage"):
            continue
        usage = getattr(e.gauge("kv_usage"), which)
        if usage is None:
            continue
        if not -0.001 <= usage <= 1.01:
            raise Missing("invalid", f"a KV usage of {usage:g} is outside 0 to 1", sources=("kv_usage",))
        out.append((min(1.0, max(0.0, usage)), e.read("kv_pool_tokens").value))
    if not out:
        s.quantity("kv_usage")
        raise Missing("absent", "no engine shows a KV usage on the last page", sources=("kv_usage",))
    return out


def _copies(s: Subject) -> tuple[str, ...]:
    told = [p.copies["kv_usage"] for p in s.parts if "kv_usage" in p.copies]
    if not told:
        return ()
    most, filled = max(n for n, _ in told), max(n for _, n in told)
    text = f"one gauge for each of {most} processes: the largest of an engine is taken"
    return (text + (f"; uncertain, {filled} of them are above 0" if filled > 1 else ""),)


@reading(unit="ratio")
def kv_usage(s: Subject) -> Found:
    """Used share of the KV pool at the window's end: mean over engines, weighted by their pools.

    Cached but free blocks count as free. Copies of one engine per process: the largest.
    """
    usages = _usages(s, "last")
    pools = [p for _, p in usages]
    if all(p is not None for p in pools) and len(usages) > 1:
        total = sum(p or 0.0 for p in pools)
        value = sum(u * (p or 0.0) for u, p in usages) / total if total else usages[0][0]
        caveats: tuple[str, ...] = ()
    else:
        value = sum(u for u, _ in usages) / len(usages)
        caveats = ("pool sizes unknown: a plain mean over engines",) if len(usages) > 1 else ()
    extra = _over_time(s, "kv_usage")
    return Found(value, count=float(len(usages)), sources=("kv_usage",), caveats=caveats + _copies(s), extra=extra)


@reading(unit="ratio")
def kv_usage_max(s: Subject) -> Found:
    """Used share of the KV pool at the window's end, largest engine."""
    usages = _usages(s, "last")
    return Found(max(u for u, _ in usages), count=float(len(usages)), sources=("kv_usage",))


@reading(unit="ratio")
def kv_usage_peak(s: Subject) -> Found:
    """Highest used share of the KV pool of any engine, over all pages or the range."""
    usages = _usages(s, "high")
    caveats = () if s.window.kind in ("series", "range") else ("seen at the scrapes only",)
    return Found(max(u for u, _ in usages), count=float(len(usages)), sources=("kv_usage",), caveats=caveats)


@reading(unit="tokens per request")
def kv_tokens_per_running_request(s: Subject) -> Found:
    """KV tokens held per running request: usage x pool / running, at the last scrape with something running."""
    s.value("kv_pool_tokens")
    for held, running in _moments(s):
        if running and held is not None:
            return Found(held / running, count=running, sources=("kv_usage", "running_requests", "cache_config"))
    raise Missing("no_traffic", "nothing was running at any scrape", sources=("running_requests",))


def _moments(s: Subject) -> list[tuple[float | None, float | None]]:
    """(KV tokens in use, running requests) at each scrape, last one first."""

    def at(part: Subject, which: str) -> tuple[float | None, float | None]:
        return _tokens_in_use(part, which), getattr(part.gauge("running_requests"), which)

    s.quantity("kv_usage")
    out = [at(s, "last")]
    for part in reversed(s.slices):
        if part.has("kv_usage") and part.has("running_requests"):
            out += [at(part, "last"), at(part, "first")]
    if s.window.kind != "lifetime":
        out.append(at(s, "first"))
    return out


def _tokens_in_use(s: Subject, which: str) -> float | None:
    try:
        usages = _usages(s, which)
    except Missing:
        return None
    return sum(u * p for u, p in usages if p is not None) if all(p is not None for _, p in usages) else None


@reading(unit="requests")
def kv_max_concurrency(s: Subject) -> Found:
    """Requests of full context that the pool of one engine holds: from the page or a boot log."""
    values = [v for text in s.config("max_concurrency") if (v := _number(text)) is not None]
    if values:
        caveats = ("per engine: the smallest",) if len(values) > 1 else ()
        return Found(min(values), count=float(len(values)), sources=("cache_config",), caveats=caveats)
    setting = s.settings.get("kv_max_concurrency")
    if setting is not None and isinstance(setting.value, int | float):
        return Found(float(setting.value), caveats=(f"from {setting.source}",))
    hint = s.engine.holes.get("kv_max_concurrency", "the boot log has it: --boot-log FILE")
    raise Missing("not_exported", hint)


@reading(unit="tokens")
def max_model_len(s: Subject) -> Found:
    """The context an engine was started with: --context, a boot log, or the page."""
    setting = s.settings.get("context")
    if setting is None or not isinstance(setting.value, int | float):
        raise Missing("not_exported", "no page says it; give --context N or --boot-log FILE")
    return Found(float(setting.value), caveats=(f"from {setting.source}",))


@reading(unit="preemptions", better="lower")
def preemptions(s: Subject) -> Found:
    """Requests thrown out of the batch for want of KV blocks, to be computed again later."""
    value = s.increase("preemptions")
    return Found(value, count=value, sources=("preemptions",))


@reading(unit="preemptions per request", better="lower")
def preemptions_per_request(s: Subject) -> Found:
    """Preemptions over finished requests. Each one recomputes a prompt, which no token counter shows."""
    count = s.increase("preemptions")
    done, source = finished_count(s)
    sources = ("preemptions", source)
    value = ratio(count, done, "no request finished in the window", sources)
    return Found(value, count=done, sources=sources, extra={"events": count})


@reading(unit="requests", better="lower")
def admission_rejections(s: Subject) -> Found:
    """Requests refused at the door because a queue limit was reached."""
    c = s.counter("admission_rejections")
    return Found(c.increase, count=c.increase, sources=("admission_rejections",))


@reading(unit="ratio")
def engine_skew(s: Subject) -> Found:
    """Largest over mean finished requests of a subject's engines: 1 is even, 2 on two engines is one idle."""
    if all(p.pooled for p in s.parts):
        raise Missing("invalid", "the engines were added up by the metrics server, and none is known by itself")
    counts = []
    source = "finished_requests"
    ranks = {p.target for p in s.parts if p.rank is not None}
    for e in s.engines():
        if e.parts[0].rank is None and e.parts[0].target in ranks:
            # What a page counts once for all its engines belongs to none of them.
            continue
        if e.parts[0].rank is None and len(s.parts) > 1 and not e.moved:
            continue
        done, source = finished_count(e)
        counts.append(done)
    mean = sum(counts) / len(counts) if counts else 0.0
    value = ratio(max(counts, default=0.0), mean, "no request finished in the window", (source,))
    return Found(value, count=float(len(counts)), sources=(source,))
