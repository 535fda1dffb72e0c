"""Cut one long window into repeats, so that its own course gives the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from auditor.measures.merging import merge_over_time
from auditor.model import (
    Counter,
    Gauge,
    Histogram,
    LogEvidence,
    Part,
    Quantity,
    Series,
    TargetWindow,
    UsageError,
    Window,
    WindowKind,
)


def split_window(window: Window, length_seconds: float) -> list[Window]:
    """Windows of about ``length_seconds`` each, in time order, neighbours sharing the scrape between them.

    A rest shorter than half a piece goes to the last piece, so that nothing is dropped.

    Raises:
        UsageError: a window of one or two scrapes, of unknown times, or shorter than two pieces.
    """
    times = _times(window)
    if len(times) < 3:
        raise UsageError("--split cuts a series of pages or a range of a metrics server; this window has no course")
    whole = times[-1] - times[0]
    count = count_pieces(whole, length_seconds)
    edges = [0]
    for k in range(1, count):
        at = times[0] + k * whole / count
        i = min(range(len(times)), key=lambda i: abs(times[i] - at))
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


def _times(window: Window) -> list[float]:
    for target in window.targets:
        if target.series and len(target.times) > 2 and all(t is not None for t in target.times):
            return [t for t in target.times if t is not None]
        for part in target.parts:
            if len(part.slices) > 1 and all(s.start is not None and s.end is not None for s in part.slices):
                edges = [part.slices[0].start, *(s.end for s in part.slices)]
                return [e for e in edges if e is not None]
    return []


def _piece(window: Window, times: Sequence[float], a: int, b: int) -> Window:
    kind: WindowKind = window.kind if window.kind == "range" or b - a > 1 else "scrapes"
    return replace(
        window,
        kind=kind,
        start=times[a] if window.start is not None else None,
        end=times[b] if window.end is not None else None,
        seconds=times[b] - times[a],
        targets=tuple(_cut(t, a, b) for t in window.targets),
        source=f"{window.source} [{times[a] - times[0]:g} s to {times[b] - times[0]:g} s]",
    )


def _cut(target: TargetWindow, a: int, b: int) -> TargetWindow:
    if target.state != "measured":
        return target
    if target.parts:
        return replace(target, parts=tuple(_cut_part(p, a, b) for p in target.parts))
    series = tuple(Series(s.name, s.labels, s.values[a : b + 1]) for s in target.series)
    return replace(
        target,
        times=target.times[a : b + 1],
        series=tuple(s for s in series if any(v is not None for v in s.values)),
    )


def _cut_part(part: Part, a: int, b: int) -> Part:
    slices = part.slices[a:b]
    names = {name for s in slices for name in s.quantities}
    quantities = {
        name: merge_over_time([s.quantities[name] for s in slices if name in s.quantities]) for name in sorted(names)
    }
    restarts = sum(s.restarted for s in slices)
    log = None if part.log is None else _cut_log(part.log, quantities)
    return replace(part, quantities=_keep_unsliced(part, quantities), slices=slices, restarts=restarts, log=log)


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
