"""Whether a window can be trusted: who was there, how much of it was stored, what restarted, who came late."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from auditor.measures.presence import (
    SCRAPES,
    find_strangers,
    raw_text,
    samples_query,
    scrape_queries,
    start_queries,
    there_query,
)
from auditor.measures.promql import Scope, Strangers
from auditor.measures.selectors import Matcher, one_of
from auditor.model import TargetWindow
from auditor.ranges.asking import Asker
from auditor.ranges.finding import Found
from auditor.sources.prometheus import Answer

Key = tuple[str, ...]
MOST_JOBS = 50
PROBED_TARGETS = 3
PROBED_SAMPLES = 40


@dataclass(frozen=True)
class Seen:
    """What a metrics server knows of one target."""

    key: Key
    address: str
    samples: float
    """Stored samples of its core series in the window."""
    tried: float | None
    """Scrapes that were tried, where the server records them."""
    at_start: bool
    at_end: bool
    started_at: float | None
    """First process start seen in the window."""
    last_started_at: float | None
    restarts: int
    models: frozenset[str] = frozenset()
    coverage: float = 1.0

    @property
    def multiprocess(self) -> bool:
        return self.started_at is None


@dataclass(frozen=True)
class Truth:
    """The answers, for one engine and form."""

    targets: tuple[Seen, ...]
    silent: tuple[TargetWindow, ...]
    """Targets that did not answer one scrape."""
    interval_seconds: float
    strangers: Strangers | None
    newcomers: int
    stranger_count: int
    notes: tuple[str, ...]

    @property
    def coverage(self) -> float:
        shares = [t.coverage for t in self.targets] + [0.0] * len(self.silent)
        return math.fsum(shares) / len(shares) if shares else 0.0

    @property
    def restarts(self) -> int:
        return sum(t.restarts for t in self.targets)


def check_truth(asker: Asker, found: Found) -> Truth:
    """Ask who was there and when; a fixed number of queries."""
    scope, window = found.scope, asker.window
    samples, models, resets, begin, finish = _ask_core(asker, found)
    keys = sorted(samples)
    jobs = {dict(zip(scope.target_labels, key, strict=True)).get("job", "") for key in keys}
    where = _where(scope, jobs)
    by = scope.target_labels
    starts, ends, changes = (_by_target(answer, by) for answer in asker.whole(start_queries(scope, where)))
    tried, answered = (_by_target(answer, by) for answer in asker.whole(scrape_queries(scope, where)))
    interval = _interval(asker, found, samples)
    names = addresses(keys, scope.target_labels)
    targets = []
    for key in keys:
        seen = Seen(
            key=key,
            address=names[key],
            samples=samples[key],
            tried=tried.get(key),
            at_start=key in begin,
            at_end=key in finish,
            started_at=starts.get(key),
            last_started_at=ends.get(key),
            restarts=int(max(changes.get(key, 0.0), resets.get(key, 0.0))),
            models=models[key],
        )
        targets.append(replace(seen, coverage=_coverage(seen, window.seconds, window.end, interval)))
    late = [t for t in targets if not t.at_start]
    unknown = [t for t in late if t.started_at is None or t.started_at < window.start]
    return Truth(
        targets=tuple(targets),
        silent=_silent(scope, tried, answered, samples),
        interval_seconds=interval,
        strangers=find_strangers(scope, found.core_names, where, start=window.start, seconds=window.seconds)
        if unknown
        else None,
        newcomers=len(late) - len(unknown),
        stranger_count=len(unknown),
        notes=_notes(targets, late, unknown, interval, found),
    )


def _ask_core(
    asker: Asker, found: Found
) -> tuple[dict[Key, float], dict[Key, frozenset[str]], dict[Key, float], dict[Key, float], dict[Key, float]]:
    scope, names = found.scope, found.core_names
    answers = asker.whole(
        [
            samples_query(scope, names, "count_over_time"),
            samples_query(scope, found.monotone_names, "resets"),
            there_query(scope, names, asker.window.seconds),
            there_query(scope, names, 0),
        ]
    )
    models = scope.there(scope.engine.model_labels)
    served: dict[Key, set[str]] = {}
    for row in answers[0].rows:
        key = tuple(row.labels.get(name, "") for name in scope.target_labels)
        served.setdefault(key, set()).update(row.labels[m] for m in models if row.labels.get(m))
    samples, resets, begin, finish = (_by_target(answer, scope.target_labels) for answer in answers)
    return samples, {key: frozenset(served.get(key, ())) for key in samples}, resets, begin, finish


def _where(scope: Scope, jobs: Iterable[str]) -> list[Matcher]:
    """Matchers for series of the same targets that lack the engine's own labels."""
    listed = sorted({job for job in jobs if job})
    if listed and len(listed) <= MOST_JOBS:
        kept = [m for m in scope.matchers if m.label in scope.target_labels and m.label != "job"]
        return [one_of("job", listed), *kept]
    return list(scope.matchers)


def _by_target(answer: Answer, labels: Sequence[str]) -> dict[Key, float]:
    out: dict[Key, float] = {}
    for row in answer.rows:
        if math.isfinite(row.value):
            key = tuple(row.labels.get(name, "") for name in labels)
            out[key] = max(out.get(key, row.value), row.value)
    return out


def addresses(keys: Sequence[Key], labels: Sequence[str]) -> dict[Key, str]:
    """A name for each target: its last label, with the ones before it where that is not enough."""
    if not labels:
        return dict.fromkeys(keys, "all targets")
    short = [key[-1] for key in keys]
    return {key: key[-1] if short.count(key[-1]) == 1 else "/".join(part for part in key if part) for key in keys}


def _interval(asker: Asker, found: Found, samples: Mapping[Key, float]) -> float:
    """Seconds between two scrapes: the median over the last samples of a few targets."""
    scope, window = found.scope, asker.window
    most = max(samples.values(), default=0.0)
    rough = window.seconds / most if most else window.seconds
    if not scope.target_labels or most < 3:
        return rough
    label = scope.target_labels[-1]
    chosen = sorted(samples, key=lambda key: (-samples[key], key))[:PROBED_TARGETS]
    only = one_of(label, [key[-1] for key in chosen])
    back = min(window.seconds, max(60.0, PROBED_SAMPLES * rough))
    rows = asker.server.instant(raw_text(scope, found.core_names[0], [only], back), window.end).rows
    distances = [
        statistics.median(b[0] - a[0] for a, b in zip(row.points, row.points[1:], strict=False))
        for row in rows
        if len(row.points) > 2
    ]
    return statistics.median(distances) if distances else rough


def _coverage(seen: Seen, seconds: float, end: float, interval: float) -> float:
    """Share of the target's time in the window that stored samples cover."""
    if seen.tried:
        return min(1.0, seen.samples / seen.tried)
    there = seconds
    if not seen.at_start and seen.started_at is not None and end - seconds < seen.started_at < end:
        there = end - seen.started_at
    return min(1.0, seen.samples / max(1.0, math.floor(there / interval)))


def _silent(
    scope: Scope, tried: Mapping[Key, float], answered: Mapping[Key, float], samples: Mapping[Key, float]
) -> tuple[TargetWindow, ...]:
    """Targets of a job of engines whose every scrape failed. A job of all sorts of targets proves nothing."""
    place = scope.target_labels.index("job") if "job" in scope.target_labels else None

    def job(key: Key) -> str:
        return key[place] if place is not None else ""

    answering = [key for key in tried if answered.get(key, 0.0) > 0]
    out = []
    for key in sorted(tried):
        if key in samples or answered.get(key, 0.0) > 0:
            continue
        peers = [k for k in answering if job(k) == job(key)]
        if peers and sum(k in samples for k in peers) * 2 >= len(peers):
            reason = f"did not answer one of {tried[key]:g} scrapes in the window ({SCRAPES} = 0)"
            out.append(TargetWindow(addresses([key], scope.target_labels)[key], "failed", reason=reason))
    return tuple(out)


def _notes(
    targets: Sequence[Seen], late: Sequence[Seen], unknown: Sequence[Seen], interval: float, found: Found
) -> tuple[str, ...]:
    notes = []
    known = len(late) - len(unknown)
    if known:
        notes.append(f"{_replicas(known)} started inside the window: counted from the start of the process")
    if unknown and len(unknown) < len(targets):
        notes.append(
            f"{_replicas(len(unknown))} came into the window without a start time inside it: what was counted before "
            "the first sample is left out, so sums are the least there was"
        )
    gone = sum(not t.at_end for t in targets)
    if gone:
        notes.append(f"{_replicas(gone)} had no sample at the end of the window (removed, or no longer scraped)")
    poor = sorted((t for t in targets if t.coverage < 0.9), key=lambda t: (t.coverage, t.address))
    if poor:
        named = ", ".join(f"{t.address} {t.coverage:.0%}" for t in poor[:5])
        more = f" and {len(poor) - 5} more" if len(poor) > 5 else ""
        notes.append(f"scrapes are missing at {_replicas(len(poor))}: {named}{more}")
    if found.scope.replica_labels:
        listed = ", ".join(found.scope.replica_labels)
        notes.append(f"every series is stored more than once, told apart by {listed}: the fuller copy is taken")
    if late and len(late) == len(targets):
        notes.append(f"no replica has a sample at the window's start: data begins later (scraped every {interval:g} s)")
    return tuple(notes)


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
