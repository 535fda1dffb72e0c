"""Questions over a range, cut into shorter ranges where the server refuses the whole at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auditor.measures.promql import Combine, Query
from auditor.sources.prometheus import Answer, LengthError, LimitError, MetricsServer, Row

DEEPEST_CUT = 5
"""Halvings of a range before a refusal is final: 32 pieces."""
MOST_POINTS = 11_000
"""Prometheus refuses a range query with more points to a series."""

_RowKey = tuple[tuple[str, str], ...]
_COMBINE: dict[Combine, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "max": max,
    "min": min,
    "last": lambda a, b: b,
}


@dataclass(frozen=True)
class Range:
    """From ``start`` to ``end``, unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Asker:
    """Asks one server about one range."""

    def __init__(self, server: MetricsServer, window: Range, cut: list[str] | None = None) -> None:
        self.server = server
        self.window = window
        self.cut: list[str] = [] if cut is None else cut
        """What each query was for that had to be cut into shorter ranges."""
        self.left_out: list[str] = []
        """Quantities whose first values could not be asked for."""

    def over(self, window: Range) -> Asker:
        """The same asker for another range."""
        return Asker(self.server, window, self.cut)

    def whole(self, queries: Sequence[Query]) -> list[Answer]:
        """Each query over the whole range, evaluated at its end."""
        return self.server.map(lambda q: self._whole(q, self.window, 0), queries)

    def one(self, text: Callable[[float], str], combine: Combine = "none") -> Answer:
        """One question of our own over the whole range."""
        return self._whole(Query("", "", text, combine), self.window, 0)

    def along(self, queries: Sequence[Query], step: float) -> list[Answer]:
        """Each query at the ends of steps along the range (and at its start, for levels)."""
        return self.server.map(lambda q: self._along(q, self.window, step, 0), queries)

    def by_names(self, text: Callable[[Sequence[str]], str], names: Sequence[str]) -> list[Answer]:
        """One question about many names at the range's end; fewer names at a time where the server refuses."""
        if not names:
            return []
        try:
            return [self.server.instant(text(names), self.window.end)]
        except (LimitError, LengthError):
            if len(names) == 1:
                raise
        half = len(names) // 2
        return [*self.by_names(text, names[:half]), *self.by_names(text, names[half:])]

    def _whole(self, query: Query, window: Range, depth: int) -> Answer:
        try:
            return self.server.instant(query.text(window.seconds), window.end)
        except LimitError:
            if query.combine == "none" or depth >= DEEPEST_CUT or window.seconds < 120:
                raise
        if depth == 0:
            self.cut.append(query.quantity)
        middle = window.start + math.floor(window.seconds / 2)
        first = self._whole(query, Range(window.start, middle), depth + 1)
        second = self._whole(query, Range(middle, window.end), depth + 1)
        return combine_answers(first, second, query.combine)

    def _along(self, query: Query, window: Range, step: float, depth: int) -> Answer:
        level = query.purpose == "level"
        start = window.start if level else window.start + step
        if start > window.end + 1e-6:
            return Answer()
        try:
            if (window.end - start) / step >= MOST_POINTS:
                raise LimitError("more points than a range query may have")
            return self.server.steps(query.text(step), start, window.end, step)
        except LimitError:
            steps = round(window.seconds / step)
            if depth >= DEEPEST_CUT or steps < 2:
                raise
        if depth == 0:
            self.cut.append(query.quantity)
        middle = window.start + (steps // 2) * step
        first = self._along(query, Range(window.start, middle), step, depth + 1)
        second = self._along(query, Range(middle, window.end), step, depth + 1)
        return join_answers(first, second)


def combine_answers(first: Answer, second: Answer, combine: Combine) -> Answer:
    """Two neighbouring ranges as one: rows with the same labels by the query's own rule."""
    rule = _COMBINE[combine]
    rows: dict[_RowKey, Row] = {_key(row): row for row in first.rows}
    for row in second.rows:
        known = rows.get(_key(row))
        if known is None or known.histograms or row.histograms:
            rows[_key(row)] = row if known is None else _add_native(known, row)
            continue
        rows[_key(row)] = Row(row.labels, ((row.points[-1][0], rule(known.value, row.value)),))
    return Answer(tuple(rows.values()), first.warnings + second.warnings, first.infos + second.infos)


def _add_native(first: Row, second: Row) -> Row:
    return Row(second.labels, second.points, first.histograms + second.histograms)


def join_answers(first: Answer, second: Answer) -> Answer:
    """Two neighbouring ranges of steps, one after the other; a moment in both counts once."""
    rows: dict[_RowKey, Row] = {_key(row): row for row in first.rows}
    for row in second.rows:
        known = rows.get(_key(row))
        if known is None:
            rows[_key(row)] = row
            continue
        last = known.points[-1][0] if known.points else -math.inf
        points = known.points + tuple(p for p in row.points if p[0] > last)
        rows[_key(row)] = Row(row.labels, points, known.histograms + row.histograms)
    return Answer(tuple(rows.values()), first.warnings + second.warnings, first.infos + second.infos)


def _key(row: Row) -> _RowKey:
    return tuple(sorted(row.labels.items()))
