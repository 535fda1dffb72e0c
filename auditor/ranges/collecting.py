"""A range of the past as a window: find what is there, check it, ask, put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from auditor.http import Client, Transport
from auditor.measures.presence import births_text, series_of_one_text, stored_query
from auditor.measures.promql import Query
from auditor.measures.questions import born_queries, layout_query
from auditor.measures.selectors import Matcher, parse_match
from auditor.measures.vocabulary import Vocabulary
from auditor.model import EvidenceError, Setting, TargetWindow, UsageError, Window, utc_text
from auditor.ranges.asking import Asker, Range
from auditor.ranges.finding import Found, find_copies, find_engines
from auditor.ranges.parts import Collected
from auditor.ranges.planning import MOST_DETAILED_ENGINES, Plan, cut_names, make_plan
from auditor.ranges.together import put_together, with_absent
from auditor.ranges.truth import Truth, check_truth
from auditor.sources.prometheus import Answer, LengthError, LimitError, MetricsServer

Progress = Callable[[str], None]

SETTLE_SECONDS = 60.0
"""A window without an end stops so long before now: servers show their latest samples late (VictoriaMetrics: 30 s)."""
SKEW_SECONDS = 30.0
"""Two clocks that differ by more than this are said to differ."""
MANY_SERIES = 1_000_000


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
        window, notes = window_of(server, request)
        founds = find(server, request, vocabulary, matchers, window)
        if request.exact:
            from auditor.ranges.exact import collect_exact

            result = collect_exact(server, window, founds, settings=settings or {}, notes=notes, say=say)
            absent = [f for f in founds if not any(_is_of(t, f) for t in result.targets)]
            is_empty = not result.targets
            result = with_absent(result, server, absent, several=len(founds) > 1)
        else:
            result = collect_engines(Asker(server, window), founds, settings or {}, notes, say)
            is_empty = bool(result.targets) and all(t.state != "measured" for t in result.targets)
        if is_empty:
            raise EvidenceError("; ".join(f"{t.address}: {t.reason}" for t in result.targets))
        tally = server.tally
        say(f"{tally.queries} queries, {tally.body_bytes / 1000:.0f} kB, {tally.waited_seconds:.1f} s in the server")
    return result


def list_queries(
    request: RangeRequest, vocabulary: Vocabulary, *, transport: Transport
) -> Iterator[tuple[str, str, str, str]]:
    """(engine, quantity, how it is asked, PromQL) of what an audit of this server would ask, after its probe."""
    with Client(transport) as client:
        server = MetricsServer(client, request.url)
        window, _ = window_of(server, request)
        for found in find(server, request, vocabulary, parse_match(request.match), window):
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
        window, _ = window_of(server, request)
        founds = find(server, request, vocabulary, parse_match(request.match), window)
    return {(f.scope.engine.name, f.scope.form): f.scope.names for f in founds}


def window_of(server: MetricsServer, request: RangeRequest) -> tuple[Range, list[str]]:
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


def find(
    server: MetricsServer, request: RangeRequest, vocabulary: Vocabulary, matchers: tuple[Matcher, ...], window: Range
) -> list[Found]:
    founds = find_engines(server, vocabulary, matchers=matchers, by=request.by, start=window.start, end=window.end)
    out = []
    for found in founds:
        copies = find_copies(server, found, seconds=window.seconds, end=window.end)
        out.append(replace(found, scope=replace(found.scope, replica_labels=copies)) if copies else found)
    return out


def collect_engines(
    asker: Asker,
    founds: Sequence[Found],
    settings: Mapping[str, Setting],
    notes: Sequence[str],
    say: Progress = lambda text: None,
) -> Window:
    """Ask for every engine that was found; those without a sample in the range are named."""
    collected, absent = [], []
    for found in founds:
        one = _collect_engine(asker, found, say)
        if one is None:
            absent.append(found)
        else:
            collected.append(one)
    several = len(founds) > 1
    window = put_together(asker, collected, settings, notes, several=several)
    return with_absent(window, asker.server, absent, several=several)


def _is_of(target: TargetWindow, found: Found) -> bool:
    return target.engine == found.scope.engine.name and target.form in ("", found.scope.form)


def _collect_engine(asker: Asker, found: Found, say: Progress) -> Collected | None:
    """The answers; None where the index knows an engine's names, and no sample of it lies in the range."""
    truth = check_truth(asker, found)
    if not truth.targets:
        return None
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
