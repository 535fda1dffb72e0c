"""Does the KV pool leave room?

Premise: the KV pool is not what limits.

Why it matters: a shorter context, a smaller KV precision or more memory for blocks help only where blocks run out. One
team varied the context over a factor of four and moved throughput by 1.6 %: peak KV use was about 50 %.

How it is measured: broken when kv_bound is set: KV use of at least 95 % while requests wait or are preempted, or
preemptions in at least 5 % of finished requests. Holds when it is not set and requests were running on a page that was
read, so that the gauges describe load.

When it misleads: the gauges are moments. A peak between two scrapes is not seen; --series sees more of them. One scrape
says nothing of a window. Cached but free blocks count as free. A single prompt that is longer than what is free waits
for the pool at any usage.

What to do: broken: fewer tokens per request, a smaller KV precision, more memory, or replicas; compare pools in tokens,
not in GiB. Holds: leave context length and memory alone, and look at the limit that binds.
"""

from __future__ import annotations

from auditor.audits._limits import find_binding_limit, peak
from auditor.audits.judging import found_words, percent, shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "the KV pool is not what limits"
QUESTION = "Does the KV pool leave room?"
NEEDS = (
    "kv_usage",
    "kv_usage_max",
    "kv_usage_peak",
    "running_requests",
    "waiting_requests",
    "preemptions",
    "kv_pool_tokens",
)

EXAMPLES = (
    Example(
        "holds",
        "A drained server, read every few seconds while it was busy: KV use peaked at 50 %, nothing waited.",
        {
            "finished_requests": {"stop": 120},
            "generation_tokens": 24_000.0,
            "preemptions": 0.0,
            "running_requests": (0.0, 6.0, 8.0, 7.0, 0.0),
            "waiting_requests": (0.0, 0.0, 0.0, 0.0, 0.0),
            "kv_usage": (0.0, 0.41, 0.5, 0.46, 0.0),
        },
        kind="series",
    ),
    Example(
        "broken",
        "KV use of 98 % while 7 requests wait.",
        {
            "finished_requests": {"stop": 120},
            "generation_tokens": 24_000.0,
            "preemptions": 0.0,
            "running_requests": (8.0, 8.0),
            "waiting_requests": (5.0, 7.0),
            "kv_usage": (0.97, 0.98),
        },
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    word, why = _judge(readings, options)
    return verdict(
        "kv-pool",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=_summary(readings, word, why),
        expected="no use of 95 % with requests waiting or preempted, while requests run",
        found=_found(readings),
        uses=NEEDS,
        flags=("kv_bound", "gauges_stale", "lifetime_only", "no_traffic", "too_few_requests", "counter_reset"),
        next=_next(readings, word),
    )


def _judge(readings: Readings, options: Options) -> tuple[VerdictWord, str]:
    if readings.has_flag("kv_bound"):
        return "broken", ""
    if readings.lifetime:
        return "undecided", "one scrape is one moment of its gauges"
    if readings.has_flag("gauges_stale"):
        return "undecided", f"the gauges are stale: {readings.facts['gauges_stale']}"
    usage, running = readings["kv_usage_peak"], readings["running_requests"]
    for reading in (usage, running):
        if reading.value is None:
            return "undecided", reading.reason or reading.state
    if not _ran(readings):
        return "undecided", "nothing was running on any page that was read, so the gauges describe no load"
    if readings.has_flag("log_only"):
        return "undecided", "one moment of its gauges in ten seconds, and no preemptions: a log does not carry them"
    events = max(readings.value("finished_requests") or 0.0, readings.value("first_tokens") or 0.0)
    if events < options.min_requests:
        return "undecided", f"only {shown(events)} requests behind it, {options.min_requests} needed"
    return "holds", ""


def _ran(readings: Readings) -> bool:
    """Something was running on a page that was read: at either end, or at any page of a series."""
    at_ends = readings.facts.get("requests_running_at_both_ends") or 0.0
    return bool(at_ends > 0 or (peak(readings, "running_requests") or 0.0) > 0)


def _summary(readings: Readings, word: VerdictWord, why: str) -> str:
    if word == "broken":
        return str(readings.facts["kv_bound"])
    usage = readings.value("kv_usage_peak")
    if word == "undecided":
        seen = f"{percent(usage)} used at the scrape; " if usage and readings.lifetime else ""
        return seen + why
    limit = find_binding_limit(readings)
    most = "at most" if readings.window_kind in ("series", "range") else "at the scrapes"
    preempted = readings.value("preemptions") or 0.0
    aside = f", {shown(preempted)} preemptions" if preempted else ""
    return f"{percent(usage)} used {most}{aside}; {limit.evidence}".replace(f", KV use {percent(usage)}", "")


def _found(readings: Readings) -> str:
    words = [f"KV use {found_words(readings['kv_usage_peak'])}"]
    for name, what in (("waiting_requests", "waiting"), ("preemptions", "preemptions")):
        value = peak(readings, name)
        if value is not None:
            words.append(f"{what} {shown(value)}")
    return ", ".join(words)


def _next(readings: Readings, word: VerdictWord) -> tuple[str, ...]:
    if word == "broken":
        return (
            "fewer KV tokens a request (context, output length), a smaller KV precision, more memory, or replicas",
            "compare pools in tokens, not in GiB: auditor boots shows what a setting costs",
        )
    if word == "undecided" and (readings.lifetime or readings.has_flag("gauges_stale")):
        return ("audit a window under load: --window 10m",)
    if word == "undecided":
        return ("audit it while requests run: --window, or --series with several scrapes",)
    return ()
