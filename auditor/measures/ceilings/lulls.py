"""Moments without prefill in a series of scrapes: there the mean gap is the length of a step without prefill."""

from __future__ import annotations

from auditor.measures.subject import Missing, Subject

LEAST_GAPS = 30


def lull_base(s: Subject, longest_prefill_seconds: float) -> tuple[float, float] | None:
    """(seconds per gap, gaps) over all lulls of the series; None with fewer than 30 gaps in them.

    A slice is a lull when no prompt token is counted in it nor in those that follow within the longest prefill:
    a prompt is counted at its first token, so its chunks run before that.
    """
    total = count = 0.0
    slices = s.slices
    for i, part in enumerate(slices):
        try:
            quiet = _quiet(slices, i, longest_prefill_seconds)
            gaps = part.histogram("itl_seconds")
        except Missing:
            return None
        if quiet:
            total += gaps.sum
            count += gaps.count
    return (total / count, count) if count >= LEAST_GAPS and total > 0 else None


def _quiet(slices: tuple[Subject, ...], i: int, ahead: float) -> bool:
    end = slices[i].window.end
    for j in range(i, len(slices)):
        later = slices[j]
        if later.restarted:
            return False
        start = later.window.start
        if j > i and (start is None or end is None):
            return False
        if j > i and start is not None and end is not None and start - end > ahead:
            return True
        if later.increase("prompt_tokens") > 0:
            return False
    # The series ends: a prompt may have been in progress that nobody saw.
    running = slices[-1].gauge("running_requests").last if slices[-1].has("running_requests") else None
    return running == 0
