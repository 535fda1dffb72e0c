"""Everything that was answered -> one window, with how much of it can be relied on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from auditor.measures.presence import alive_text
from auditor.measures.targets import failed_target
from auditor.model import Setting, TargetWindow, Window, utc_text
from auditor.ranges.asking import Asker
from auditor.ranges.finding import Found
from auditor.ranges.parts import Collected, build_targets
from auditor.sources.prometheus import MetricsServer

PARTIAL_COVERAGE = 0.5
"""Coverage is put at no more than this when the server warns: nobody knows how much is missing."""
MOST_HOLES = 5


def put_together(
    asker: Asker,
    collected: Sequence[Collected],
    settings: Mapping[str, Setting],
    notes: Sequence[str],
    *,
    several: bool,
) -> Window:
    """The window of what was answered.

    Args:
        several: more than one engine was found, whether or not each has a sample in this range: an address is the same
            in every piece of a window.
    """
    server, window = asker.server, asker.window
    targets: list[TargetWindow] = []
    warnings = list(notes)
    coverage = 1.0
    for one in collected:
        targets += build_targets(one, _address(server, one.found, several))
        warnings += one.truth.notes
        warnings += [f"{t.address}: {t.reason}" for t in one.truth.silent[:MOST_HOLES]]
        share, said = _stored_share(asker, one)
        warnings += said
        coverage = min(coverage, one.truth.coverage * share)
    if asker.cut:
        warnings.append(f"{len(asker.cut)} queries were too large for the server and were asked in shorter ranges")
    if asker.left_out:
        warnings.append(
            f"the first values of series that began inside the window were more than the server would add up, for "
            f"{', '.join(sorted(asker.left_out))}: these are the least there was"
        )
    partial = ""
    if server.warnings:
        partial = "; ".join(f"{text} ({n} answers)" for text, n in sorted(server.warnings.items())[:MOST_HOLES])
        warnings.append(f"the metrics server warned: {partial}")
        coverage = min(coverage, PARTIAL_COVERAGE)
    return Window(
        kind="range",
        start=window.start,
        end=window.end,
        seconds=window.seconds,
        targets=tuple(targets),
        coverage=coverage,
        restarts=sum(one.truth.restarts for one in collected),
        warnings=tuple(warnings),
        partial_response=partial,
        step_seconds=max((one.truth.interval_seconds for one in collected), default=None),
        settings=settings,
        source=f"{server.title} at {server.address}",
    )


def with_absent(window: Window, server: MetricsServer, absent: Sequence[Found], *, several: bool) -> Window:
    """The window, with the engines that the server knows and of which no sample lies in it.

    Coverage says nothing of them beside others: a time without replicas is not one without data.
    """
    if not absent:
        return window
    targets = [
        failed_target(
            _address(server, found, several),
            f"names under {found.scope.form} are known there, and not one sample lies in this window",
        )
        for found in absent
    ]
    said = [f"{t.address}: {t.reason}" for t in targets] if window.targets else []
    return replace(
        window,
        targets=(*window.targets, *targets),
        coverage=window.coverage if window.targets else 0.0,
        warnings=(*window.warnings, *said),
    )


def _address(server: MetricsServer, found: Found, several: bool) -> str:
    return f"{server.address} ({found.scope.form})" if several else server.address


def _stored_share(asker: Asker, one: Collected) -> tuple[float, list[str]]:
    """Share of the range's steps in which anything was stored, and what the holes are.

    A hole in which the server has other targets' scrapes is a time without replicas, not one without data.
    """
    if not one.stored or one.plan.step is None:
        return 1.0, []
    filled = {round(at, 3) for row in one.stored[0].rows for at, value in row.points if value > 0}
    times = one.plan.course_times
    holes: list[tuple[float, float]] = []
    for at in times:
        if round(at, 3) in filled:
            continue
        begin = at - one.plan.step
        if holes and abs(holes[-1][1] - begin) < 1e-3:
            holes[-1] = (holes[-1][0], at)
        else:
            holes.append((begin, at))
    missing = 0.0
    notes = []
    for begin, stop in sorted(holes, key=lambda h: h[0] - h[1])[:MOST_HOLES]:
        rows = asker.server.instant(alive_text(), (begin + stop) / 2).rows
        what = "no replica was there" if rows and rows[0].value > 0 else "the metrics server stored nothing"
        missing += 0.0 if what.startswith("no replica") else stop - begin
        notes.append(f"{what} from {utc_text(begin)} to {utc_text(stop)}")
    missing += sum(stop - begin for begin, stop in sorted(holes, key=lambda h: h[0] - h[1])[MOST_HOLES:])
    whole = one.plan.course_range.seconds
    return max(0.0, 1 - missing / whole), notes
