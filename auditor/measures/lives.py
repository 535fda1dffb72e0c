"""Which scrapes belong to one life of one process: restarts, balancers, pages in the wrong order.

A restart resets a process, not a series: once one counter of a process fell, or its start time or a ``_created``
moved, every series of it starts from zero again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.measures.vocabulary import PROCESS_START, Engine
from auditor.model import Series, TargetWindow

ProcessKey = tuple[str, ...]

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


def process_key(series: Series, engine: Engine) -> ProcessKey:
    """The process of a series inside its target: its pid and replica labels, where it has any."""
    labels = dict(series.labels)
    names = (*engine.copy_labels, *engine.replica_labels)
    return tuple(labels[name] for name in names if labels.get(name))


def _is_monotone(series: Series, kinds: Mapping[str, str], counters: frozenset[str]) -> bool:
    name = series.name
    if name in counters or kinds.get(name) == "counter":
        return True
    base, _, suffix = name.rpartition("_")
    if suffix in ("bucket", "count"):
        return kinds.get(base) == "histogram" or base in counters
    return suffix == "total" and kinds.get(base) == "counter"


def find_lives(target: TargetWindow, engine: Engine) -> Lives:
    """Read the lives of a target's processes off its pages."""
    pages = len(target.times)
    counters = frozenset(
        engine.exported(name, target.form)
        for q in engine.quantities.values()
        if q.kind in ("counter", "histogram")
        for name in q.series
    )
    falls: dict[ProcessKey, list[bool]] = {(): [False] * pages}
    moved: dict[ProcessKey, list[bool]] = {(): [False] * pages}
    steady: dict[ProcessKey, list[bool]] = {(): [False] * pages}
    fallen: list[tuple[int, tuple[float | None, ...]]] = []
    starts: list[float | None] = [None] * pages
    has_created = back = False
    for s in target.series:
        if s.name == PROCESS_START:
            starts = [v if a is None else a for a, v in zip(starts, s.values, strict=True)]
            continue
        created = s.name.endswith(CREATED)
        has_created = has_created or created
        if not created and not _is_monotone(s, target.kinds, counters):
            continue
        key = process_key(s, engine)
        for table in (falls, moved, steady):
            table.setdefault(key, [False] * pages)
        for i in range(1, pages):
            before, now = s.values[i - 1], s.values[i]
            if before is None or now is None or before == now:
                if created and before is not None and now is not None:
                    steady[key][i] = True
                continue
            if created:
                moved[key][i] = True
                back = back or now < before
            elif now < before:
                falls[key][i] = True
                fallen.append((i, s.values))
    for i in range(1, pages):
        a, b = starts[i - 1], starts[i]
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
