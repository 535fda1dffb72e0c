"""Identities that a trustworthy page fulfils, each checked within one event or 0.5 %."""

from __future__ import annotations

from typing import Any

from auditor.measures.readings.agreement import agree, extrapolation_error
from auditor.measures.subject import Missing, Subject
from auditor.model import Gauge, Histogram


def identities(s: Subject) -> list[dict[str, Any]]:
    """Each identity that could be checked: its name, the two figures, and whether they agree."""
    out: list[dict[str, Any]] = []
    slack = extrapolation_error(s)

    def check(name: str, a: float, b: float, events: float, *, at_most: bool = False) -> None:
        holds = (at_most and a <= b) or agree(a, b, events, slack)
        out.append({"identity": name, "left": a, "right": b, "holds": holds})

    def histogram(name: str) -> Histogram | None:
        try:
            h = s.histogram(name)
        except Missing:
            return None
        return None if h.rebuilt_sum else h

    prefill, decode, inference, e2e = (
        histogram(n) for n in ("prefill_seconds", "decode_seconds", "inference_seconds", "e2e_seconds")
    )
    if prefill and decode and inference and inference.count > 0 and prefill.count == decode.count == inference.count:
        check("prefill + decode = inference", prefill.sum + decode.sum, inference.sum, inference.count)
    if inference and e2e and inference.count > 0 and agree(inference.count, e2e.count, max(1.0, e2e.count), slack):
        check("inference within end to end", inference.sum, e2e.sum, inference.count, at_most=True)
    if s.has("prompt_tokens_by_source") and s.has("prompt_tokens") and s.engine.is_live("prompt_tokens"):
        prompt = s.increase("prompt_tokens")
        if prompt > 0:
            check(
                "prompt tokens by source = prompt tokens",
                sum(s.counter("prompt_tokens_by_source").split.values()),
                prompt,
                prompt,
            )
    for name in ("prompt_tokens", "generation_tokens"):
        finished = histogram("prompt_length_tokens" if name == "prompt_tokens" else "output_length_tokens")
        running = s.gauge("running_requests") if s.has("running_requests") else None
        drained = running is not None and not running.last and (s.window.kind == "lifetime" or not running.first)
        if finished and finished.count > 0 and s.has(name) and drained:
            check(f"{name.replace('_', ' ')} of finished requests within {name.replace('_', ' ')}", finished.sum,
                  s.increase(name), finished.count, at_most=True)  # fmt: skip
    if s.has("finished_requests"):
        done = s.increase("finished_requests")
        for h, words in ((e2e, "end-to-end times"), (inference, "timed requests")):
            if h and done > 0:
                out.append(
                    {
                        "identity": f"finish reasons = {words}",
                        "left": done,
                        "right": h.count,
                        # Judged like request-accounting: a few requests of many do not make a page untrue.
                        "holds": abs(done - h.count) <= max(1.0, max(0.02, slack) * max(done, h.count)),
                    }
                )
    for part in s.parts:
        for name, conflict in part.doubles.items():
            out.append({"identity": f"{name} under two names", "left": None, "right": None, "holds": not conflict})
    return out


def running_at_both_ends(s: Subject) -> float | None:
    """Requests running at the start plus those at the end; None where the gauge is not on the page."""
    try:
        running: Gauge = s.gauge("running_requests")
    except Missing:
        return None
    first = 0.0 if s.window.kind == "lifetime" else running.first or 0.0
    return first + (running.last or 0.0)
