"""A range of the past as a window: find what is there, check it, ask, put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from auditor.http import Client, Transport
from auditor.measures.presence import alive_text, births_text, series_of_one_text, stored_query
from auditor.measures.promql import Query
from auditor.measures.questions import born_queries, layout_query
from auditor.measures.selectors import Matcher, parse_match
from auditor.measures.vocabulary import Vocabulary
from auditor.model import EvidenceError, Setting, TargetWindow, UsageError, Window, utc_text
from auditor.ranges.asking import Asker, Range
from auditor.ranges.finding import Found, find_copies, find_engines
from auditor.ranges.parts import Collected, build_targets
from auditor.ranges.planning import MOST_DETAILED_ENGINES, Plan, cut_names, make_plan
from auditor.ranges.truth import Truth, check_truth
from auditor.sources.prometheus import Answer, LengthError, LimitError, MetricsServer

Progress = Callable[[str], None]

SETTLE_SECONDS = 60.0
"""A window without an end stops so long before now: servers show their latest samples late (VictoriaMetrics: 30 s)."""
SKEW_SECONDS = 30.0
"""Two clocks that differ by more than this are said to differ."""
PARTIAL_COVERAGE = 0.5
"""Coverage is put at no more than this when the server warns: nobody knows how much is missing."""
MANY_SERIES = 1_000_000
MOST_HOLES = 5


@dataclass(frozen=True)
class RangeRequest:
    """What a command line asks of a metrics server."""

    url: str
    window_seconds: float
    end: float | None = None
    match: str | None = None
    exact: bool = False
    by: str = "model"


def collect_range(
    request: RangeRequest,
    vocabulary: Vocabulary,
    *,
    transport: Transport,
    settings: Mapping[str, Setting] | None = None,
    say: Progress = lambda text: None,
) -> Window:
    """Gather a past window.

    Raises:
        UsageError: a ``--match`` that is not one selector, an end in the future, too much for ``--exact``.
        EvidenceError: the server could not be asked, refuses, or holds no series of a known engine.
    """
    matchers = parse_match(request.match)
    with Client(transport) as client:
        server = MetricsServer(client, request.url)
        window, notes = _window_of(server, request)
        founds = _find(server, request, vocabulary, matchers, window)
        if request.exact:
            from auditor.ranges.exact import collect_exact

            return collect_exact(server, window, founds, settings=settings or {}, notes=notes, say=say)
        asker = Asker(server, window)
        collected = [_collect(asker, found, say) for found in founds]
        result = _put_together(asker, collected, settings or {}, notes)
        tally = server.tally
        say(f"{tally.queries} queries, {tally.body_bytes / 1000:.0f} kB, {tally.waited_seconds:.1f} s in the server")
    return result


def list_queries(
    request: RangeRequest, vocabulary: Vocabulary, *, transport: Transport
) -> Iterator[tuple[str, str, str, str]]:
    """(engine, quantity, how it is asked, PromQL) of what an audit of this server would ask, after its probe."""
    with Client(transport) as client:
        server = MetricsServer(client, request.url)
        window, _ = _window_of(server, request)
        for found in _find(server, request, vocabulary, parse_match(request.match), window):
            truth = check_truth(Asker(server, window), found)
            plan = make_plan(found.scope, window, interval=truth.interval_seconds, engines=len(truth.targets))
            for quantity, how, text in plan.texts():
                yield found.scope.engine.name, quantity, how, text


def names_there(
    request: RangeRequest, vocabulary: Vocabulary, *, transport: Transport
) -> dict[tuple[str, str], frozenset[str]]:
    """(engine, form of its names) -> the names that the server holds in the window."""
    with Client(transport) as client:
        server = MetricsServer(client, request.url)
        window, _ = _window_of(server, request)
        founds = _find(server, request, vocabulary, parse_match(request.match), window)
    return {(f.scope.engine.name, f.scope.form): f.scope.names for f in founds}


def _window_of(server: MetricsServer, request: RangeRequest) -> tuple[Range, list[str]]:
    now = time.time()
    server.recognise(now)
    skew = server.clock_skew_seconds or 0.0
    notes = []
    if abs(skew) > SKEW_SECONDS:
        notes.append(f"the metrics server's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this one")
    there = time.time() + (skew if abs(skew) > SKEW_SECONDS else 0.0)
    end = request.end if request.end is not None else there - SETTLE_SECONDS
    if end > there + SKEW_SECONDS:
        raise UsageError(f"--end {utc_text(end)} lies in the future: the metrics server's clock says {utc_text(there)}")
    return Range(end - request.window_seconds, end), notes


def _find(
    server: MetricsServer, request: RangeRequest, vocabulary: Vocabulary, matchers: tuple[Matcher, ...], window: Range
) -> list[Found]:
    founds = find_engines(server, vocabulary, matchers=matchers, by=request.by, start=window.start, end=window.end)
    out = []
    for found in founds:
        copies = find_copies(server, found, seconds=window.seconds, end=window.end)
        out.append(replace(found, scope=replace(found.scope, replica_labels=copies)) if copies else found)
    return out


def _collect(asker: Asker, found: Found, say: Progress) -> Collected:
    truth = check_truth(asker, found)
    if not truth.targets:
        raise EvidenceError(
            f"{asker.server.address}: names under {found.scope.form} are known there, and not one sample lies in this "
            "window"
        )
    one = _series_of_one(asker, found, truth)
    series = sum(one.values()) * len(truth.targets)
    plan = make_plan(
        found.scope, asker.window, interval=truth.interval_seconds, engines=len(truth.targets), series_of_one=one
    )
    say(f"{found.scope.engine.title}: {len(truth.targets)} targets, about {series:.0f} series")
    if series > MANY_SERIES:
        say("that is much for one server: recording rules make it cheap (auditor queries --as rules)")
    if len(truth.targets) > MOST_DETAILED_ENGINES:
        say(f"more than {MOST_DETAILED_ENGINES} targets: none is shown by itself")
    return Collected(
        found=found,
        truth=truth,
        plan=plan,
        whole=asker.whole(plan.whole),
        born=_born(asker, found, truth, one),
        levels=asker.over(plan.level_range).along(plan.levels, plan.resolution),
        course=_along(asker, plan, plan.course),
        skew=_along(asker, plan, [plan.skew] if plan.skew else []),
        details=asker.whole(plan.details),
        layouts=[
            answer
            for names in plan.layouts
            for answer in asker.by_names(lambda some: layout_query(found.scope, some), names)
        ],
        stored=_along(asker, plan, [stored_query(found.scope, found.core_names)]),
    )


def _along(asker: Asker, plan: Plan, queries: Sequence[Query]) -> list[Answer]:
    if plan.step is None:
        return []
    return asker.over(plan.course_range).along(queries, plan.step)


def _series_of_one(asker: Asker, found: Found, truth: Truth) -> dict[str, float]:
    """Name -> series of one target: what the whole fleet has is this times the targets."""
    if not found.scope.target_labels:
        return {}
    best = max(truth.targets, key=lambda t: (t.at_end, t.samples))
    try:
        rows = asker.server.instant(series_of_one_text(found.scope, best.key), asker.window.end).rows
    except LimitError:
        return {}
    return {row.labels.get("__name__", ""): row.value for row in rows}


def _born(asker: Asker, found: Found, truth: Truth, one: Mapping[str, float]) -> dict[str, Answer]:
    """Quantity -> answer with the first values of series that began inside the range."""
    scope, seconds = found.scope, asker.window.seconds
    # One series may hold several quantities, told apart by a label.
    monotone: dict[str, set[str]] = {}
    for d in scope.engine.quantities.values():
        if d.kind in ("counter", "histogram"):
            for name in scope.present(d, "" if d.kind == "counter" else "_count"):
                monotone.setdefault(name, set()).add(d.name)
    affected: set[str] = set()
    if truth.newcomers or (truth.strangers and scope.victoria):
        affected = set().union(*monotone.values())
    else:
        for chunk in cut_names(list(monotone), one, len(truth.targets)):
            for answer in asker.by_names(lambda some: births_text(scope, some, seconds), chunk):
                for row in answer.rows:
                    affected |= monotone.get(row.labels.get("series", ""), set()) if row.value > 0 else set()
    queries = born_queries(scope, affected, truth.strangers)

    def ask(query: Query) -> Answer:
        try:
            return asker.one(query.render)
        except (LimitError, LengthError):
            asker.left_out.append(query.quantity)
            return Answer()

    return dict(zip((q.quantity for q in queries), asker.server.map(ask, queries), strict=True))


# --------------------------------------------------------------------------- together


def _put_together(
    asker: Asker, collected: Sequence[Collected], settings: Mapping[str, Setting], notes: Sequence[str]
) -> Window:
    server, window = asker.server, asker.window
    targets: list[TargetWindow] = []
    warnings = list(notes)
    coverage = 1.0
    for one in collected:
        several = len(collected) > 1
        address = f"{server.address} ({one.found.scope.form})" if several else server.address
        targets += build_targets(one, address)
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
        step_seconds=max(one.truth.interval_seconds for one in collected),
        settings=settings,
        source=f"{server.title} at {server.address}",
    )


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
