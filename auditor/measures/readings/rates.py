"""Rates over wall time, among them the one that is reported to be refuted."""

from __future__ import annotations

from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.readings.requests import finished_count
from auditor.measures.readings.time import impossible_time
from auditor.measures.readings.tokens import demand
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
    return s.window.seconds


@reading(unit="tokens per second")
def prompt_tokens_per_wall_second(s: Subject) -> Found:
    """Prompt tokens over the window's seconds. It is not a prefill rate; it is reported to be refuted.

    It counts cached tokens and every second in which nothing was prefilled.
    """
    prompt, sources = demand(s)
    return Found(prompt / seconds(s), count=prompt, sources=sources, caveats=("not a prefill rate",))


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
    best, best_count = None, 0.0
    for i in range(len(rows)):
        tokens = time = count = 0.0
        for more_tokens, more_time, more_count in rows[i:]:
            tokens, time, count = tokens + more_tokens, time + more_time, count + more_count
            if count >= need and time > 0 and (best is None or tokens / time > best):
                best, best_count = tokens / time, count
            if count >= 2 * need:
                break
    if best is None:
        raise Missing("no_traffic", f"no run of scrapes holds {need} finished requests", sources=sources)
    return Found(best, count=best_count, sources=sources, caveats=("a burst, not a mean",))


@reading(unit="tokens per second", better="higher")
def generation_tokens_per_wall_second(s: Subject) -> Found:
    """Generated tokens over the window's seconds; over scrapes also by band of running requests."""
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


@reading(unit="tokens per output", better="higher")
def tokens_per_output_event(s: Subject) -> Found:
    """Tokens after the first per engine output: (generation - first tokens) / gaps. 1 without speculation."""
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
