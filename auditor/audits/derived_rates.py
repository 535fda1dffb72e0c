"""Is prompt tokens over wall clock the prefill rate?

Premise: prompt tokens over wall-clock time is the prefill rate.

Why it matters: the number stands in notes and dashboards and carries the assumption under test. One team wrote
"1,860 tok/s prefill" where the engine burst to 11,000: the figure was prompt tokens over a mostly decoding wall clock.

How it is measured: naive_rate_error = computed tokens per prefill request-second over prompt tokens per wall second.
Broken, by value, outside 0.5 .. 2. Inside it proves nothing, since windows of one series flip: undecided.

When it misleads: neither figure is the engine's rate. Prefill request-seconds of requests that run together overlap, so
the true rate lies above the mean and the burst is the better guide.

What to do: use `auditor audit --series` and its largest burst; check a number you have with --claim prefill_rate=N.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "prompt tokens over wall clock is the prefill rate"
QUESTION = "Is prompt/wall a rate?"
NEEDS = (
    "naive_rate_error",
    "prompt_tokens_per_wall_second",
    "computed_tokens_per_prefill_request_second",
    "peak_computed_tokens_per_prefill_request_second",
)
LOW, HIGH = 0.5, 2.0

_TOKENS = {"buckets": {1000.0: 100}, "sum": 80_000.0, "count": 100}
EXAMPLES = (
    Example(
        "undecided",
        "Within a factor of two it proves nothing; this premise is refuted or left open, never confirmed.",
        {
            "prompt_tokens": 80_000.0,
            "computed_prompt_length_tokens": _TOKENS,
            "prefill_seconds": {"buckets": {1.0: 100}, "sum": 60.0, "count": 100},
            "finished_requests": {"stop": 100},
        },
    ),
    Example(
        "broken",
        "80,000 tokens in 60 s of wall clock, but 7 s of prefill request-time.",
        {
            "prompt_tokens": 80_000.0,
            "computed_prompt_length_tokens": _TOKENS,
            "prefill_seconds": {"buckets": {0.3: 100}, "sum": 7.0, "count": 100},
            "finished_requests": {"stop": 100},
        },
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    error = readings["naive_rate_error"]
    wall, rate = (readings[n] for n in NEEDS[1:3])
    peak = readings.get("peak_computed_tokens_per_prefill_request_second")
    word: VerdictWord = "undecided"
    no_length = wall.value is None and wall.state == "absent" and "--seconds" in (wall.reason or "")
    if error.value is None:
        summary = "no window length; give --seconds N" if no_length else error.reason or error.state
    else:
        text = (
            f"{shown(wall.value)} prompt tok/s of wall clock; {shown(rate.value)} computed per prefill request-second,"
            f" {shown(error.value)} times that"
        )
        if peak is not None and peak.value is not None and readings.window_kind in ("series", "range"):
            text += f", bursts to {shown(peak.value)}"
        if not LOW <= error.value <= HIGH and (error.count or 0) >= options.min_requests:
            word, summary = "broken", text
        elif not LOW <= error.value <= HIGH:
            summary = f"{text}; only {shown(error.count)} requests behind it"
        else:
            summary = f"{text}; this close proves nothing"
    steps: tuple[str, ...] = ()
    if word == "broken":
        steps = ("do not plan with prompt tokens over wall clock; a number in your notes: --claim prefill_rate=N",)
    elif no_length:
        steps = ("give the window's length: --seconds N, or --window on a live server",)
    elif error.state == "no_traffic":
        steps = ("audit a window with traffic",)
    elif error.state == "not_exported":
        steps = ("a release that exports computed tokens per request settles it",)
    return verdict(
        "derived-rates",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=summary,
        expected=f"between {LOW:g} and {HIGH:g} proves nothing; outside it is broken",
        found=found_words(error),
        uses=NEEDS,
        flags=("too_few_requests", "counter_reset", "impossible_share"),
        next=steps,
    )
