"""Cut one long window into repeats, so that its own course gives the noise."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from auditor.measures.lives import find_lives
from auditor.measures.merging import merge_over_time
from auditor.measures.targets import failed_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import (
    Counter,
    EvidenceError,
    Gauge,
    Histogram,
    LogEvidence,
    Part,
    Quantity,
    Series,
    Slice,
    TargetWindow,
    UsageError,
    Window,
    WindowKind,
)

NO_COURSE = "--split cuts a series of pages or a range of a metrics server; this window has no course"


@dataclass(frozen=True)
class _Span:
    """The time of one piece."""

    start: float
    end: float
    is_first: bool
    is_last: bool


def split_window(window: Window, length_seconds: float) -> list[Window]:
    """Windows of about ``length_seconds`` each, in time order, neighbours sharing the scrape between them.

    A rest shorter than half a piece goes to the last piece, so that nothing is dropped.

    Raises:
        UsageError: a window of one or two scrapes, of unknown times, shorter than two pieces, or pieces shorter than
            the distance of its scrapes.
        EvidenceError: too few of its pages could be read.
    """
    times = _times(window)
    if len(times) < 3:
        raise _without_course(window)
    whole = times[-1] - times[0]
    count = count_pieces(whole, length_seconds)
    distance = statistics.median(b - a for a, b in pairwise(times))
    if whole / count < 0.99 * distance:
        raise UsageError(
            f"--split {length_seconds:g}s: a piece cannot be shorter than the time between two pages (or steps of a "
            f"range), which is {distance:.3g} s here"
        )
    edges = [0]
    for k in range(1, count):
        i = _nearest(times, times[0] + k * whole / count)
        if i > edges[-1]:
            edges.append(i)
    edges.append(len(times) - 1)
    pieces = [_piece(window, times, a, b) for a, b in pairwise(edges) if b > a]
    if len(pieces) < 2:
        raise UsageError(f"--split {length_seconds:g}s: the scrapes lie too far apart to cut between them")
    return pieces


def count_pieces(whole_seconds: float, length_seconds: float) -> int:
    """How many pieces of about that length a window has.

    Raises:
        UsageError: fewer than two.
    """
    count = round(whole_seconds / length_seconds)
    if count < 2:
        raise UsageError(f"--split {length_seconds:g}s: the window has only {whole_seconds:g} s")
    return count


def _without_course(window: Window) -> UsageError | EvidenceError:
    if window.kind == "series" and any(len(t.times) > 2 for t in window.targets):
        return UsageError("--split: nobody says when these pages were taken; give --every 2s or --times FILE")
    unread = list(window.warnings) if window.kind == "series" and window.coverage < 1 else []
    if not unread:
        unread = [f"{t.address}: {t.reason}" for t in window.targets if t.state != "measured"]
    if unread:
        return EvidenceError(f"--split needs at least three pages, and not all could be read: {'; '.join(unread)}")
    return UsageError(NO_COURSE)


def _times(window: Window) -> list[float]:
    """The moments between which the window can be cut: those of the target, or part, that has most."""
    found: list[list[float]] = [[]]
    for target in window.targets:
        known = [t for t in target.times if t is not None]
        if target.series and len(known) == len(target.times):
            found.append(known)
        for part in target.parts:
            if len(part.slices) > 1 and all(s.start is not None and s.end is not None for s in part.slices):
                edges = [part.slices[0].start, *(s.end for s in part.slices)]
                found.append([e for e in edges if e is not None])
    return max(found, key=len)


def _nearest(times: Sequence[float], at: float) -> int:
    i = bisect_left(times, at)
    return min((j for j in (i - 1, i) if 0 <= j < len(times)), key=lambda j: abs(times[j] - at))


def _piece(window: Window, times: Sequence[float], a: int, b: int) -> Window:
    kind: WindowKind = window.kind if window.kind == "range" or b - a > 1 else "scrapes"
    span = _Span(times[a], times[b], is_first=a == 0, is_last=b == len(times) - 1)
    targets = tuple(_cut(t, span) for t in window.targets)
    return replace(
        window,
        kind=kind,
        start=times[a] if window.start is not None else None,
        end=times[b] if window.end is not None else None,
        seconds=times[b] - times[a],
        targets=targets,
        restarts=_restarts(window, targets),
        source=f"{window.source} [{times[a] - times[0]:g} s to {times[b] - times[0]:g} s]",
    )


def _restarts(window: Window, targets: Sequence[TargetWindow]) -> int:
    """Restarts inside the piece. Steps of a metrics server do not tell; what is known of the whole stands then."""
    if window.kind == "range" and any(t.parts for t in window.targets):
        return window.restarts
    pages = [t for t in targets if t.state == "measured" and t.engine and not t.parts]
    lives = [find_lives(t, load_vocabulary().engine(t.engine or "")).count for t in pages]
    return sum(lives) + sum(p.restarts for t in targets for p in t.parts[:1])


def _cut(target: TargetWindow, span: _Span) -> TargetWindow:
    if target.state != "measured":
        return target
    if target.parts:
        parts = tuple(_cut_part(p, span) for p in target.parts)
        if any(p.slices for p in target.parts) and not any(p.slices for p in parts):
            return failed_target(target.address, "nothing of it lies in this piece")
        return replace(target, parts=parts)
    # Targets are scraped at different moments, and one may have come later than another.
    times = [t for t in target.times if t is not None]
    if len(times) < len(target.times):
        return failed_target(target.address, "nobody says when its pages were taken")
    a = 0 if span.is_first else _nearest(times, span.start)
    b = len(times) - 1 if span.is_last else _nearest(times, span.end)
    if b <= a:
        return failed_target(target.address, "fewer than two samples of it lie in this piece")
    series = tuple(Series(s.name, s.labels, s.values[a : b + 1]) for s in target.series)
    return replace(
        target,
        times=target.times[a : b + 1],
        series=tuple(s for s in series if any(v is not None for v in s.values)),
    )


def _cut_part(part: Part, span: _Span) -> Part:
    slices = tuple(s for s in part.slices if _lies_in(s, span))
    names = {name for s in slices for name in s.quantities}
    quantities = {
        name: merge_over_time([s.quantities[name] for s in slices if name in s.quantities]) for name in sorted(names)
    }
    restarts = sum(s.restarted for s in slices)
    log = None if part.log is None else _cut_log(part.log, quantities)
    return replace(part, quantities=_keep_unsliced(part, quantities), slices=slices, restarts=restarts, log=log)


def _lies_in(step: Slice, span: _Span) -> bool:
    middle = ((step.start or 0.0) + (step.end or 0.0)) / 2
    return (span.is_first or span.start <= middle) and (span.is_last or middle < span.end)


def _cut_log(log: LogEvidence, quantities: Mapping[str, Quantity]) -> LogEvidence:
    """Sentences and sums of a whole log do not hold for a piece of it; its rates say whether tokens moved."""
    rates = [quantities.get(name) for name in ("reported_generation_rate", "reported_prompt_rate")]
    moved = any(isinstance(q, Gauge) and (q.high or 0.0) > 0 for q in rates)
    words = {"log_only": f"a piece of a longer log: rolling averages, not counters. The rest: {log.missing}"}
    return replace(log, moved=moved, words=words, figures={})


def _keep_unsliced(part: Part, quantities: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Labels of info series hold for every piece, whether or not the course carries them."""
    infos = {name: q for name, q in part.quantities.items() if not isinstance(q, Counter | Gauge | Histogram)}
    return {**infos, **quantities}
