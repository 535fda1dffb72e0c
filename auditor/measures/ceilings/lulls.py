"""Moments without prefill in a series of scrapes: there the mean gap is the length of a step without prefill."""

from __future__ import annotations

from auditor.measures.subject import Missing, Subject

LEAST_GAPS = 30


def lull_base(s: Subject, longest_prefill_seconds: float) -> tuple[float, float] | None:
    """(seconds per gap, gaps) over all lulls of the series; None with fewer than 30 gaps in them.

    A slice is a lull when no prompt token is counted in it nor in those that follow within the longest prefill:
    a prompt is counted at its first token, so its chunks run before that.
    """
    slices = s.slices
    if not slices:
        return None
    total = count = 0.0
    # Start of the nearest later slice in which a prompt was counted or the engine restarted.
    next_prompt = _series_end(slices[-1])
    for part in reversed(slices):
        start, end = part.window.start, part.window.end
        if start is None or end is None:
            return None
        try:
            prompts, gaps = part.increase("prompt_tokens"), part.histogram("itl_seconds")
        except Missing:
            return None
        if part.restarted or prompts > 0:
            next_prompt = start
        elif next_prompt - end > longest_prefill_seconds:
            total += gaps.sum
            count += gaps.count
    return (total / count, count) if count >= LEAST_GAPS and total > 0 else None


def _series_end(last: Subject) -> float:
    """When the first prompt that nobody saw can have been counted: at once, or never where nothing runs at the end."""
    running = last.gauge("running_requests").last if last.has("running_requests") else None
    if running == 0:
        return float("inf")
    return last.window.end if last.window.end is not None else float("-inf")
