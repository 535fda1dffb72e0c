"""Which scrapes belong to one life of one process: restarts, balancers, pages in the wrong order.

A restart resets a process, not a series: once one counter of a process fell, or its start time or a ``_created``
moved, every series of it starts from zero again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter, lt
from typing import Any, TypeVar

from auditor.measures.vocabulary import PROCESS_START, Engine
from auditor.model import Labels, TargetWindow

T = TypeVar("T")
ProcessKey = tuple[str, ...]
Column = Sequence[float | None]

CREATED = "_created"
# A start time printed with fewer digits moves by this much without a restart.
START_TOLERANCE_SECONDS = 1.0


@dataclass(frozen=True)
class Lives:
    """``restarted[process][i]``: the process was started between page i-1 and page i."""

    restarted: Mapping[ProcessKey, tuple[bool, ...]]
    fell_without_restart: bool = False
    """Counters fell while start time and ``_created`` stood still: pages in the wrong order."""
    alternates: bool = False
    """The pages come from more than one process: the address is a balancer."""
    evidence: str = ""
    started_at: float | None = None
    multiprocess: bool = False

    @property
    def count(self) -> int:
        """Pages before which something restarted."""
        flags = list(self.restarted.values())
        return sum(any(f[i] for f in flags) for i in range(1, len(flags[0]) if flags else 0))

    def of(self, process: ProcessKey) -> tuple[bool, ...]:
        return self.restarted.get(process) or self.restarted[()]


def process_key(labels: Labels, engine: Engine) -> ProcessKey:
    """The process of a series inside its target: its pid and replica labels, where it has any."""
    found = dict(labels)
    names = (*engine.copy_labels, *engine.replica_labels)
    return tuple(found[name] for name in names if found.get(name))


def _is_monotone(name: str, kinds: Mapping[str, str], counters: frozenset[str]) -> bool:
    if name in counters or kinds.get(name) == "counter":
        return True
    base, _, suffix = name.rpartition("_")
    if suffix in ("bucket", "count"):
        return kinds.get(base) == "histogram" or base in counters
    return suffix == "total" and kinds.get(base) == "counter"


@dataclass(frozen=True)
class _Watched:
    """Which series of a target tell something about its processes: positions in its table."""

    starts: tuple[int, ...]
    created: tuple[tuple[int, ProcessKey], ...]
    monotone: tuple[tuple[int, ProcessKey], ...]
    processes: tuple[ProcessKey, ...]

    def nothing_happened(self, before: Column, now: Column) -> bool:
        """No counter fell and no ``_created`` moved between two pages that have every series."""
        fell = map(lt, self._monotone_values(now), self._monotone_values(before))
        return not any(fell) and self._created_values(now) == self._created_values(before)

    @cached_property
    def _monotone_values(self) -> Callable[[Column], tuple[Any, ...]]:
        return pick_all([i for i, _ in self.monotone])

    @cached_property
    def _created_values(self) -> Callable[[Column], tuple[Any, ...]]:
        return pick_all([i for i, _ in self.created])


def pick_all(positions: Sequence[int]) -> Callable[[Sequence[T]], tuple[T, ...]]:
    """A function that gives the values at these positions, whatever their number: ``itemgetter`` for any length."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple([values[i] for i in positions])


def _watched(target: TargetWindow, engine: Engine) -> _Watched:
    """Worked out once for targets with the same series."""
    memo = target.table.shared.memo
    known = memo.get(("watched", engine))
    if known is not None and known[0] is target.kinds:
        found: _Watched = known[1]
        return found
    counters = frozenset(
        engine.exported(name, target.form)
        for q in engine.quantities.values()
        if q.kind in ("counter", "histogram")
        for name in q.series
    )
    starts: list[int] = []
    created: list[tuple[int, ProcessKey]] = []
    monotone: list[tuple[int, ProcessKey]] = []
    processes: dict[ProcessKey, None] = {(): None}
    for i, (name, labels) in enumerate(target.table.shared.keys):
        if name == PROCESS_START:
            starts.append(i)
        elif name.endswith(CREATED) or _is_monotone(name, target.kinds, counters):
            key = process_key(labels, engine)
            processes[key] = None
            (created if name.endswith(CREATED) else monotone).append((i, key))
    watched = _Watched(tuple(starts), tuple(created), tuple(monotone), tuple(processes))
    memo["watched", engine] = (target.kinds, watched)
    return watched


def find_lives(target: TargetWindow, engine: Engine) -> Lives:
    """Read the lives of a target's processes off its pages."""
    pages = len(target.times)
    table, watched = target.table, _watched(target, engine)
    falls = {key: [False] * pages for key in watched.processes}
    moved = {key: [False] * pages for key in watched.processes}
    steady = {key: [False] * pages for key in watched.processes}
    fallen: list[tuple[int, tuple[float | None, ...]]] = []
    starts = [next((v for i in watched.starts if (v := c[i]) is not None), None) for c in table.columns]
    starts += [None] * (pages - len(starts))
    has_created, back = bool(watched.created), False
    # A series that was away for a page is held against where it was last seen.
    last: list[float | None] = list(table.columns[0]) if table.columns else []
    for page, (previous, column) in enumerate(pairwise(table.columns), 1):
        if table.is_complete and watched.nothing_happened(previous, column):
            for _, key in watched.created:
                steady[key][page] = True
            continue
        if not table.is_complete:
            previous = last
            last = [old if now is None else now for old, now in zip(last, column, strict=True)]
        for i, key in watched.created:
            before, now = previous[i], column[i]
            if before is None or now is None:
                continue
            (steady if before == now else moved)[key][page] = True
            back = back or now < before
        for i, key in watched.monotone:
            before, now = previous[i], column[i]
            if before is not None and now is not None and now < before:
                falls[key][page] = True
                fallen.append((page, table[i].values))
    seen_start = starts[0]
    for i in range(1, pages):
        a, b = seen_start, starts[i]
        seen_start = a if b is None else b
        if a is None or b is None:
            continue
        if abs(b - a) > START_TOLERANCE_SECONDS:
            moved[()][i] = True
            back = back or b < a
        else:
            steady[()][i] = True
    restarted: dict[ProcessKey, tuple[bool, ...]] = {}
    still = False
    for key in falls:
        whole = moved[()]
        flags = tuple(falls[key][i] or moved[key][i] or whole[i] for i in range(pages))
        restarted[key] = flags
        still = still or any(
            falls[key][i] and not moved[key][i] and not whole[i] and (steady[key][i] or steady[()][i])
            for i in range(1, pages)
        )
    evidence = ""
    alternates = back and pages > 2
    if back:
        seen = sorted({v for v in starts if v is not None})
        evidence = "the process start time goes back" + (f" ({len(seen)} different start times)" if seen else "")
    climbed = _fell_and_rose(fallen, pages)
    if climbed:
        alternates, evidence = True, evidence or "counters fall and rise again between scrapes"
    known_starts = [v for v in starts if v is not None]
    return Lives(
        restarted=restarted,
        fell_without_restart=(still and not climbed) or (back and pages == 2),
        alternates=alternates,
        evidence=evidence,
        started_at=known_starts[-1] if known_starts else None,
        multiprocess=not known_starts and not has_created,
    )


def _fell_and_rose(fallen: list[tuple[int, tuple[float | None, ...]]], pages: int) -> bool:
    """Every series that fell at one page stands at or above its old value at the next: no restart does that."""
    for page in {i for i, _ in fallen}:
        if page + 1 >= pages:
            continue
        pairs = [(v[page - 1], v[page + 1]) for i, v in fallen if i == page]
        if all(b is not None and a is not None and b >= a for a, b in pairs):
            return True
    return False
