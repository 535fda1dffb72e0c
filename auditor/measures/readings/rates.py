"""Rates over wall time, among them the one that is reported to be refuted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from auditor.measures.readings.phases import refuse_other_requests, refuse_stream_gaps
from auditor.measures.readings.prompt_work import demand
from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.readings.requests import finished_count
from auditor.measures.readings.time import impossible_time
from auditor.measures.subject import Missing, Subject

NO_LENGTH = "the window's length is not known; give --seconds N (or --times FILE for a series)"
# Bands of running requests over which a generation rate is shown.
BANDS = ((1, 4), (5, 8), (9, 16), (17, 24), (25, None))


def seconds(s: Subject) -> float:
    """Length of the window in seconds.

    Raises:
        Missing: nobody said how far the pages lie apart.
    """
    if s.window.seconds is None or s.window.seconds <= 0:
        raise Missing("absent", NO_LENGTH)
    if not (s.restarted and s.window.kind == "scrapes"):
        return s.window.seconds
    # What was counted began with the restart, and only the page's start time says when that was.
    starts = [p.started_at for p in s.parts if p.restarts]
    since = None if s.window.end is None or None in starts else s.window.end - max(t for t in starts if t is not None)
    if len(starts) < len(s.parts):
        some = f"{len(starts)} of {len(s.parts)} engines restarted inside the window and were counted for less of it"
        raise Missing("invalid", f"{some}: their sum belongs to no one length (--by target has the others)")
    if since is None or not 0 < since < s.window.seconds:
        raise Missing("invalid", "the engine restarted inside the window, and the time since then is not known")
    return since


@reading(unit="tokens per second")
def prompt_tokens_per_wall_second(s: Subject) -> Found:
    """Prompt tokens over the window's seconds. It is not a prefill rate; it is reported to be refuted.

    It counts cached tokens and every second in which nothing was prefilled.
    """
    if s.of_log:
        what = "vLLM prints whole prompts until about 0.16, computed tokens later"
        return _printed_rate(s, "reported_prompt_rate", "not a prefill rate", *([what] * (s.engine.name == "vllm")))
    prompt, sources = demand(s)
    return Found(prompt / seconds(s), count=prompt, sources=sources, caveats=("not a prefill rate",))


def _printed_rate(s: Subject, name: str, *caveats: str) -> Found:
    """The mean of a rate that a log prints, over the time its lines cover; as many events as there are lines."""
    gauge = s.gauge(name)
    if gauge.mean is None:
        raise s.missing(name)
    lines = sum(len(p.slices) + 1 for p in s.parts)
    rolling = "from rolling averages that a log prints, not from a counter; an idle engine prints none"
    return Found(gauge.mean, count=float(lines), sources=(name,), caveats=(*caveats, rolling))


@reading(unit="tokens per second")
def computed_tokens_per_prefill_request_second(s: Subject) -> Found:
    """Computed prompt tokens over prefill request-seconds of finished requests.

    Not an engine rate either: prefill request-seconds of requests that run together overlap.
    """
    value, count = _computed_rate(s)
    sources = ("computed_prompt_length_tokens", "prefill_seconds")
    return Found(value, count=count, sources=sources, caveats=("request-seconds overlap: not an engine rate",))


def _computed_rate(s: Subject) -> tuple[float, float]:
    computed = s.histogram("computed_prompt_length_tokens")
    prefill = s.histogram("prefill_seconds")
    contradiction = impossible_time(s)
    if contradiction is not None or computed.rebuilt_sum or prefill.rebuilt_sum:
        raise Missing("invalid", contradiction or "sums are rebuilt from bucket midpoints on this page")
    refuse_other_requests(s, prefill, computed, ("prefill_seconds", "computed_prompt_length_tokens"))
    return ratio(computed.sum, prefill.sum, "no request finished in the window"), computed.count


@reading(unit="ratio")
def naive_rate_error(s: Subject) -> Found:
    """How wrong prompt tokens over wall clock is as a prefill rate: computed per prefill second over it."""
    wall = s.value("prompt_tokens_per_wall_second")
    rate = s.value("computed_tokens_per_prefill_request_second")
    sources = ("prompt_tokens", "computed_prompt_length_tokens", "prefill_seconds")
    return Found(
        ratio(rate, wall, "no prompt token in the window", sources),
        count=_computed_rate(s)[1],
        sources=sources,
    )


@reading(unit="tokens per second")
def peak_computed_tokens_per_prefill_request_second(s: Subject) -> Found:
    """Largest burst: computed tokens per prefill request-second over runs of consecutive scrapes.

    Only runs that hold at least --min-requests finished requests. A burst, not a mean.
    """
    sources = ("computed_prompt_length_tokens", "prefill_seconds")
    slices = s.slices or (s,)
    contradiction = impossible_time(s)
    if contradiction is not None:
        raise Missing("invalid", contradiction, sources=sources)
    rows = []
    for part in slices:
        computed, prefill = part.histogram("computed_prompt_length_tokens"), part.histogram("prefill_seconds")
        if computed.rebuilt_sum or prefill.rebuilt_sum:
            raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=sources)
        rows.append((computed.sum, prefill.sum, prefill.count))
    need = s.options.min_requests
    best = _fastest_run(rows, need)
    if best is None:
        raise Missing("no_traffic", f"no run of scrapes holds {need} finished requests", sources=sources)
    return Found(best[0], count=best[1], sources=sources, caveats=("a burst, not a mean",))


def _fastest_run(rows: Sequence[tuple[float, float, float]], need: float) -> tuple[float, float] | None:
    """The largest sum(tokens) / sum(seconds) over runs of neighbouring rows with at least ``need`` requests.

    Dinkelbach (1967): for a rate guessed too low some run has tokens - rate x seconds above 0; the best such run
    gives the next guess, until none is left. Returns the rate and the requests of that run.
    """
    tokens, seconds_, counts = ([0.0, *accumulate(column)] for column in zip(*rows, strict=True))
    rate, found = -1.0, None
    while True:
        gains = [t - rate * p for t, p in zip(tokens, seconds_, strict=True)]
        start = lowest = 0
        best, run = 0.0, None
        for end in range(1, len(gains)):
            while start < end and counts[end] - counts[start] >= need:
                lowest = start if start == 0 or gains[start] < gains[lowest] else lowest
                start += 1
            if start and gains[end] - gains[lowest] > best and seconds_[end] > seconds_[lowest]:
                best, run = gains[end] - gains[lowest], (lowest, end)
        if run is None:
            return found
        a, b = run
        better = (tokens[b] - tokens[a]) / (seconds_[b] - seconds_[a])
        if found is not None and better <= rate:
            return found
        rate, found = better, (better, counts[b] - counts[a])


@reading(unit="tokens per second", better="higher")
def generation_tokens_per_wall_second(s: Subject) -> Found:
    """Generated tokens over the window's seconds; over scrapes also by band of running requests."""
    if s.of_log:
        return _printed_rate(s, "reported_generation_rate")
    tokens = s.value("generation_tokens")
    extra = {"by_running": bands} if (bands := _by_band(s)) else {}
    return Found(tokens / seconds(s), count=tokens, sources=("generation_tokens",), extra=extra)


def _by_band(s: Subject) -> list[dict[str, float | None]]:
    sums: dict[tuple[int, int | None], list[float]] = {}
    for part in s.slices:
        length = part.window.seconds
        if not length or not part.has("running_requests") or not part.has("generation_tokens"):
            continue
        running = part.gauge("running_requests").mean or 0.0
        band = next((b for b in BANDS if running >= b[0] - 0.5 and (b[1] is None or running < b[1] + 0.5)), None)
        if band is None:
            continue
        row = sums.setdefault(band, [0.0, 0.0, 0.0])
        row[0] += part.increase("generation_tokens")
        row[1] += length
        row[2] += 1
    return [
        {
            "from": float(low),
            "to": None if high is None else float(high),
            "tokens_per_second": sums[(low, high)][0] / sums[(low, high)][1],
            "seconds": sums[(low, high)][1],
            "count": sums[(low, high)][2],
        }
        for low, high in BANDS
        if (low, high) in sums
    ]


@reading(unit="tokens per second")
def reported_generation_rate(s: Subject) -> Found:
    """The engine's own throughput gauge: what its last log line said, kept when idle. No verdict rests on it."""
    gauge = s.gauge("reported_generation_rate")
    if gauge.last is None:
        raise Missing("absent", "the gauge is not on the last page", sources=("reported_generation_rate",))
    caveat = "a gauge of the last log interval, kept when idle: over a window use generation_tokens_per_wall_second"
    return Found(gauge.last, count=1.0, sources=("reported_generation_rate",), caveats=(caveat,))


@reading(unit="tokens per output", better="higher")
def tokens_per_output_event(s: Subject) -> Found:
    """Tokens after the first per engine output: (generation - first tokens) / gaps. 1 without speculation."""
    refuse_stream_gaps(s)
    gaps = s.histogram("itl_seconds")
    first = s.histogram("ttft_seconds").count
    tokens = s.increase("generation_tokens") - first
    sources = ("generation_tokens", "ttft_seconds", "itl_seconds")
    return Found(ratio(tokens, gaps.count, "no token after a first one", sources), count=gaps.count, sources=sources)


@reading(unit="TFLOP/s", better="higher")
def achieved_tflops_per_gpu(s: Subject) -> Found:
    """The engine's own estimate of arithmetic done per GPU and wall second."""
    return _achieved(s, "estimated_flops", 1e12)


@reading(unit="GB/s", better="higher")
def achieved_read_gbytes_per_second(s: Subject) -> Found:
    """The engine's own estimate of bytes read from memory per GPU and wall second."""
    return _achieved(s, "estimated_read_bytes", 1e9)


def _achieved(s: Subject, name: str, scale: float) -> Found:
    amount = s.increase(name)
    if amount <= 0:
        try:
            idle = s.value("generation_tokens") <= 0
        except Missing:
            idle = True
        if idle:
            raise Missing("no_traffic", "no token was generated in the window", sources=(name,))
        raise Missing("not_exported", "switched off: start the engine with --enable-mfu-metrics", sources=(name,))
    done, _ = finished_count(s)
    return Found(amount / seconds(s) / scale, count=done, sources=(name,), caveats=("the engine's own estimate",))
