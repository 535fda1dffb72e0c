"""What pages leave out, and which quantities nobody can know because of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from auditor.measures.grouping import Place, Points
from auditor.measures.histogram import AGREE
from auditor.measures.lives import CREATED, Column, Lives, ProcessKey, find_lives
from auditor.measures.vocabulary import HISTOGRAM_SUFFIXES, Engine
from auditor.model import Labels, SeriesTable, TargetWindow

REQUESTS = "finished_requests"


class Holes:
    """The series that some page of a target lacks, and what cannot be known for it.

    A page may lack what had not happened yet in that life of the process. It cannot lack what counted before in
    the same life, nor one series of a histogram whose other series have counted.
    """

    def __init__(self, target: TargetWindow, engine: Engine, lives: Lives) -> None:
        self._target = target
        self._engine = engine
        self._lives = lives
        self._columns: tuple[Column, ...] = target.table.columns
        self._final = len(self._columns) - 1

    def why_unknown(self, points: Points, *, unborn: Callable[[], bool]) -> str | None:
        """Why the pages leave no number for a quantity, in words; None where they leave one.

        Args:
            unborn: whether the last page may rightly lack the whole of it: nothing of it happened in that life.
        """
        if self._at.isdisjoint(points.at):
            return None
        never = next((place for place in points.places if place.at in self._never), None)
        gone = all(self._columns[-1][at] is None for at in points.at)
        kind = points.declaration.kind
        if gone and points.at <= self._never:
            return f"{points.exported_name} has no value on any page"
        if kind == "info" or (kind == "gauge" and gone):
            return _lost(points.exported_name) if gone else None
        if kind == "gauge":
            lost = next((members[0] for members in points.members if self._level_is_lost(members)), None)
            return _lost(_shown(lost, points)) if lost else None
        if never is not None and not gone:
            if kind == "histogram" and never.name.endswith("_sum"):
                return "the page has no sum for it"
            return f"{_shown(never, points)} has no value on any page"
        reasons = (self._why(members, points) for members in points.members if not self._is_whole(members))
        reason = next((reason for reason in reasons if reason), None)
        if gone and (reason or not unborn()):
            return _lost(points.exported_name)
        return reason

    def began_before(self, points: Points, others: Iterable[Points]) -> str | None:
        """That a quantity which the first page lacks had counted by then, in words; None where it may be new.

        Each counts finished requests. One that has counted more of them than another saw in the whole window counted
        before it as well, so that its increase is not what the last page shows.
        """
        final = self._columns[-1]
        if self._final < 1 or not _counts_requests(points) or any(self._lives.of(points.places[0].process)):
            return None
        if any(self._columns[0][at] is not None for at in points.at) or any(final[at] is None for at in points.totals):
            return None
        counted = _total(final, points)
        for other in others:
            if other is points or not _counts_requests(other) or not self._at.isdisjoint(other.at):
                continue
            before, after = _total(self._columns[0], other), _total(final, other)
            if before > 0 and counted > (after - before) * (1 + AGREE) + 1:
                return (
                    f"{points.exported_name} is not on the first page, and has counted {counted:g} requests where "
                    f"{other.exported_name} rose by {after - before:g}: the first page is not whole"
                )
        return None

    def changed_layout(self, points: Points) -> str | None:
        """That a histogram has other buckets since a restart, as a longer --max-model-len gives it; None if not."""
        if self._at.isdisjoint(points.at):
            return None
        for members in points.members:
            buckets = [place for place in members if place.name.endswith("_bucket")]
            # What is counted of a process begins with its second page, or with its start.
            lives = [life for life in self._lives_of(members) if life != range(1) or not self._final]
            found = [{self._is_in(place, life) for place in buckets} for life in lives]
            if {True, False} in found:
                return "its buckets changed with a restart"
        return None

    def unknown_slices(self, points: Points) -> frozenset[int]:
        """Slices of a series that begin or end at a page that lacks what counted before."""
        if self._final < 2 or points.declaration.kind in ("gauge", "info") or self._at.isdisjoint(points.at):
            return frozenset()
        if points.declaration.zero_beside:
            # Left out of a slice it would be taken for what has not happened yet.
            return frozenset()
        found: set[int] = set()
        for members in points.members:
            if self._is_whole(members):
                continue
            restarted = self._lives.of(members[0].process)
            for page, _, _ in self._gaps(members):
                found.add(page - 1)
                if page < self._final and not restarted[page + 1]:
                    found.add(page)
        return frozenset(found)

    @cached_property
    def _at(self) -> frozenset[int]:
        if self._target.table.is_complete:
            return frozenset()
        return frozenset(i for column in self._columns for i, value in enumerate(column) if value is None)

    @cached_property
    def _never(self) -> frozenset[int]:
        return frozenset(i for i in self._at if all(column[i] is None for column in self._columns))

    def _is_whole(self, members: Sequence[Place]) -> bool:
        return not any(place.at in self._at for place in members)

    def _why(self, members: Sequence[Place], points: Points) -> str | None:
        restarted = self._lives.of(members[0].process)
        for page, place, was_there in self._gaps(members):
            name = _shown(place, points)
            if page == self._final:
                return _lost(name) if was_there else f"{name} is not on the last page, which has the rest of it"
            if restarted[page + 1]:
                # A life of the first page only adds nothing, and an undated restart may lie before this page.
                if page and (not was_there or self._is_dated(page + 1, place.process)):
                    return f"{name} had begun to count and is not on the last page before a restart"
            elif page == 0:
                return f"{name} is not on the first page, which has the rest of it"
        return None

    def _gaps(self, members: Sequence[Place]) -> Iterator[tuple[int, Place, bool]]:
        """Each page that lacks a series which had counted by then; whether an earlier page of that life had it."""
        created = self._created(members[0])
        for life in self._lives_of(members):
            # A life may have other buckets; what it lacks besides is lost.
            here = [place for place in members if not place.name.endswith("_bucket") or self._is_in(place, life)]
            seen: set[int] = set()
            for page in life:
                column = self._columns[page]
                there = {place.at for place in here if column[place.at] is not None}
                begun = any(column[at] for at in there)
                if not there and created is not None:
                    begun = column[created] is not None
                away = next((p for p in here if p.at not in there and (begun or p.at in seen)), None)
                if away is not None:
                    yield page, away, away.at in seen
                seen |= there

    def _lives_of(self, members: Sequence[Place]) -> list[range]:
        """The pages of each life of the process that these series are of."""
        restarted = self._lives.of(members[0].process)
        starts = [page for page in range(self._final + 1) if page == 0 or restarted[page]]
        return [range(a, b) for a, b in pairwise([*starts, self._final + 1])]

    def _is_in(self, place: Place, life: range) -> bool:
        return any(self._columns[page][place.at] is not None for page in life)

    def _created(self, place: Place) -> int | None:
        """Where the creation time of a series stands, which is on a page with it or not at all."""
        base = next((place.name.removesuffix(s) for s in (*HISTOGRAM_SUFFIXES, "_total") if place.name.endswith(s)), "")
        return self._places_of_created.get((base, place.without(("le",))))

    @cached_property
    def _places_of_created(self) -> dict[tuple[str, Labels], int]:
        keys = enumerate(self._target.table.shared.keys)
        return {(name.removesuffix(CREATED), labels): i for i, (name, labels) in keys if name.endswith(CREATED)}

    def _level_is_lost(self, copies: Sequence[Place]) -> bool:
        """No copy of a level is on the last page, and one was on an earlier page of that life."""
        restarted = self._lives.of(())
        life = max((page for page in range(self._final + 1) if restarted[page]), default=0)
        pages = [any(column[place.at] is not None for place in copies) for column in self._columns[life:]]
        return any(pages) and not pages[-1]

    def _is_dated(self, page: int, process: ProcessKey) -> bool:
        """Whether the restart before this page shows against the page before it, not only against an older one."""
        table = self._target.table
        pair = replace(
            self._target,
            times=self._target.times[page - 1 : page + 1],
            series=SeriesTable(table.shared, table.columns[page - 1 : page + 1]),
        )
        return find_lives(pair, self._engine).of(process)[1]


def _counts_requests(points: Points) -> bool:
    """One event for each finished request, or for fewer of them."""
    kind = points.declaration.kind
    return points.declaration.population == "finished" and (kind == "histogram" or points.declaration.name == REQUESTS)


def _total(column: Column, points: Points) -> float:
    places = points.totals if points.declaration.kind == "histogram" else points.at
    return math.fsum(column[at] or 0.0 for at in places)


def _lost(name: str) -> str:
    return f"{name} is on an earlier page and not on the last one"


def _shown(place: Place, points: Points) -> str:
    """A series by its name and the labels that tell it from its like."""
    like = [set(other.labels) for other in points.places if other.name == place.name]
    labels = [f'{name}="{value}"' for name, value in place.labels if any((name, value) not in other for other in like)]
    return place.name + (f"{{{','.join(labels)}}}" if labels else "")
