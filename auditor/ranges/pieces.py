"""A past window as neighbouring ones, so that they are each other's noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from auditor.http import Client, Transport
from auditor.measures.selectors import parse_match
from auditor.measures.vocabulary import Vocabulary
from auditor.model import Setting, UsageError, Window
from auditor.ranges.asking import Asker, Range
from auditor.ranges.collecting import Progress, RangeRequest, collect_engines, find, window_of
from auditor.ranges.finding import Found
from auditor.ranges.planning import LEAST_SCRAPES_IN_STEP
from auditor.ranges.truth import check_truth
from auditor.sources.prometheus import QUERIES_PER_SECOND, LengthError, LimitError, MetricsServer

MOST_PIECES = 1000
QUERIES_OF_A_PIECE = 70
"""About so many for one engine; the number depends on its names, not on replicas or the length of the piece."""
INTERVAL_SLACK = 0.98
"""Scrapes are some milliseconds early or late, so a median of 15.01 s is 15 s."""


def collect_pieces(
    request: RangeRequest,
    count: int,
    vocabulary: Vocabulary,
    *,
    transport: Transport,
    settings: Mapping[str, Setting] | None = None,
    say: Progress = lambda text: None,
) -> Iterator[Window]:
    """The same past window as so many neighbouring ones, each asked for by itself: distributions, coverage and all.

    A piece without a sample is a window without evidence, and no end of the others.

    Raises:
        UsageError: as ``collect_range``; more than a thousand pieces, or pieces shorter than four scrapes.
        EvidenceError: as ``collect_range``.
    """
    length = request.window_seconds / count
    if count > MOST_PIECES:
        raise UsageError(
            f"{request.window_seconds:g} s in pieces of {length:g} s are {count} pieces, and each is asked for by "
            f"itself: at most {MOST_PIECES} are; choose longer pieces or a shorter --window"
        )
    matchers = parse_match(request.match)
    with Client(transport) as client:
        server = MetricsServer(client, request.url)
        window, notes = window_of(server, request)
        founds = find(server, request, vocabulary, matchers, window)
        warned = dict(server.warnings)
        _check_length(server, window, founds, length)
        say(f"{count} pieces: {_effort(count * len(founds))}")
        edges = [window.start + i * window.seconds / count for i in range(count + 1)]
        for number, (start, end) in enumerate(pairwise(edges), 1):
            # What the server warns about one piece says nothing of the next.
            server.warnings = dict(warned)
            result = collect_engines(Asker(server, Range(start, end)), founds, settings or {}, notes)
            if number == 1:
                say(f"piece 1 of {count}: {server.tally.queries} queries so far")
            elif number % 10 == 0 or number == count:
                say(f"piece {number} of {count}: {server.tally.queries} queries")
            yield result


def _check_length(server: MetricsServer, window: Range, founds: Sequence[Found], length: float) -> None:
    """Refuse pieces of too few scrapes; the distance of the scrapes is that of the whole window.

    Raises:
        UsageError: shorter than four scrapes of one of the engines.
    """
    for found in founds:
        try:
            truth = check_truth(Asker(server, window), found)
        except (LimitError, LengthError):
            # Too much to look at as a whole, which is why it is asked for in pieces.
            continue
        interval = float(f"{truth.interval_seconds:.3g}")
        least = LEAST_SCRAPES_IN_STEP * interval
        if truth.targets and length < INTERVAL_SLACK * least:
            raise UsageError(
                f"pieces of {length:g} s are too short: {found.scope.engine.title} is scraped every {interval:g} s "
                f"there, and a piece needs at least {LEAST_SCRAPES_IN_STEP} scrapes; give --split {least:g}s or more"
            )


def _effort(pieces: int) -> str:
    queries = QUERIES_OF_A_PIECE * pieces
    seconds = queries / QUERIES_PER_SECOND
    return f"about {queries:,} queries, {_duration(seconds)} or more"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
