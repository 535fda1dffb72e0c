"""Does the engine make tokens?

Premise: the engine makes tokens.

Why it matters: a collapsed engine looks fast. Nothing finishes, so no slow request enters a histogram, and gauges
may stand still at values of long ago. This is asked before any other premise is believed.

How it is measured: tokens moved between the scrapes, and scheduler_starvation is not set: nothing finished, and
fewer than one generated token per running request and second over at least 30 s.

When it misleads: one scrape shows a life, not a pulse. An idle engine is not a dead one: without requests nothing
can be said. Gauges that stand above 0 while nothing moves (gauges_stale) may be left over from an aborted request,
or show an engine that hangs: the page alone cannot tell these apart.

What to do: broken: look at the engine's log and at what it prefills; a scheduler that puts prefill first starves
decode under load. Stale: send one request, and audit it again.
"""

from __future__ import annotations

from auditor.audits.judging import shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "the engine makes tokens"
QUESTION = "Does the engine make tokens?"
NEEDS = ("generation_tokens", "prompt_tokens", "finished_requests", "running_requests")

EXAMPLES = (
    Example(
        "holds",
        "9,000 tokens in 60 s, 45 requests finished.",
        {
            "finished_requests": {"stop": 45},
            "prompt_tokens": 30_000.0,
            "generation_tokens": 9_000.0,
            "running_requests": (6.0, 8.0),
        },
    ),
    Example(
        "broken",
        "150 tokens in 60 s with 8 requests running, none finished: less than 0.4 a request and second.",
        {
            "finished_requests": {"stop": 0},
            "prompt_tokens": 0.0,
            "generation_tokens": 150.0,
            "running_requests": (8.0, 8.0),
        },
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    word, summary = _judge(readings, options)
    return verdict(
        "engine-liveness",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=summary,
        expected="tokens move, at least one a running request and second",
        found=_tokens(readings),
        uses=NEEDS,
        flags=("scheduler_starvation", "prefill_first_scheduling", "gauges_stale", "no_traffic", "lifetime_only",
               "counter_reset"),
        next=_next(readings, word),
    )  # fmt: skip


def _judge(readings: Readings, options: Options) -> tuple[VerdictWord, str]:
    for flag in ("scheduler_starvation", "prefill_first_scheduling"):
        if readings.has_flag(flag):
            return "broken", str(readings.facts[flag])
    if readings.lifetime:
        return "undecided", "one scrape does not show whether anything moves now"
    if readings.has_flag("gauges_stale"):
        return "undecided", f"{readings.facts['gauges_stale']}: stale gauges, or an engine that hangs"
    if readings.has_flag("no_traffic"):
        return "undecided", "idle: no counter moved in the window"
    made, done = readings.value("generation_tokens"), readings.value("finished_requests") or 0.0
    moved = made or readings.value("prompt_tokens") or 0.0
    if made is None and readings.has_flag("log_only"):
        return _judge_log(readings)
    if made is None and moved == 0 and done == 0:
        return "undecided", readings["generation_tokens"].reason or readings["generation_tokens"].state
    if done > 0 or moved >= options.min_requests:
        return "holds", f"{_tokens(readings)}, {shown(done)} requests finished"
    return "undecided", f"{_tokens(readings)} and nothing finished: too little to tell"


def _judge_log(readings: Readings) -> tuple[VerdictWord, str]:
    """A log has no count of tokens; its rates say whether streams move."""
    rate, running = readings.value("generation_tokens_per_wall_second"), readings["running_requests"].extra.get("mean")
    if not rate:
        return "undecided", "the log shows no generated token"
    if running and rate < running:
        return "undecided", f"{shown(rate)} tokens a second for {shown(running)} running requests, by its log"
    return "holds", f"{shown(rate)} tokens a second, by its log"


def _tokens(readings: Readings) -> str:
    made, rate = readings.value("generation_tokens"), readings.value("generation_tokens_per_wall_second")
    if made is None:
        if rate is not None:
            return f"{shown(rate)} tokens a second, by its log"
        prompt = readings.value("prompt_tokens")
        return "no count of generated tokens" if prompt is None else f"{shown(prompt)} prompt tokens"
    return f"{shown(made)} tokens" + ("" if rate is None else f" ({shown(rate)} a second)")


def _next(readings: Readings, word: VerdictWord) -> tuple[str, ...]:
    if word == "broken" and readings.has_flag("prefill_first_scheduling"):
        return ("give decode a turn between prefill batches (prefill-decode interval), or admit fewer prompts at once",)
    if word == "broken":
        return ("look at the engine's log: what does it prefill while streams stand still?",)
    if word == "undecided" and readings.has_flag("gauges_stale"):
        return ("send one request and audit it again: an engine that hangs does not answer it",)
    if word == "undecided":
        return ("audit a window with traffic: --window 60s",)
    return ()
