"""A past window as neighbouring ones, so that they are each other's noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from auditor.http import Client, Transport
from auditor.measures.selectors import parse_match
from auditor.measures.targets import failed_target
from auditor.measures.vocabulary import Vocabulary
from auditor.model import Setting, Window
from auditor.ranges.asking import Asker, Range
from auditor.ranges.collecting import NothingStoredError, Progress, RangeRequest, collect_engine, find, window_of
from auditor.ranges.together import put_together
from auditor.sources.prometheus import MetricsServer


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
        UsageError, EvidenceError: as ``collect_range``.
    """
    matchers = parse_match(request.match)
    with Client(transport) as client:
        server = MetricsServer(client, request.url)
        window, notes = window_of(server, request)
        founds = find(server, request, vocabulary, matchers, window)
        warned = dict(server.warnings)
        edges = [window.start + i * window.seconds / count for i in range(count + 1)]
        for number, (start, end) in enumerate(pairwise(edges), 1):
            # What the server warns about one piece says nothing of the next.
            server.warnings = dict(warned)
            asker = Asker(server, Range(start, end))
            pieces, empty = [], []
            for found in founds:
                try:
                    pieces.append(collect_engine(asker, found))
                except NothingStoredError as nothing:
                    empty.append(failed_target(server.address, str(nothing)))
            result = put_together(asker, pieces, settings or {}, notes)
            if number == 1:
                say(f"piece 1 of {count}: {server.tally.queries} queries so far")
            elif number % 10 == 0 or number == count:
                say(f"piece {number} of {count}: {server.tally.queries} queries")
            if not pieces:
                result = replace(result, targets=tuple(empty), coverage=0.0)
            yield result
