"""``--exact``: the stored samples themselves, and our own differences; for small selections.

The samples become the pages of each target, and ``reduce.py`` does the rest as it does for scraped pages. So 2 events
are 2, not the 2.22 of ``increase()``, and a rate divides by the time between the first and the last sample.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from auditor.measures.lives import CREATED, find_lives
from auditor.measures.presence import sample_count_texts
from auditor.measures.promql import Scope, duration
from auditor.measures.reduce import declared_names
from auditor.measures.selectors import Matcher, one_of, selector
from auditor.measures.vocabulary import PROCESS_START
from auditor.model import (
    Labels,
    Series,
    SeriesTable,
    Setting,
    TargetWindow,
    UsageError,
    Window,
    sort_labels,
)
from auditor.ranges.asking import DEEPEST_CUT, Range
from auditor.ranges.finding import Found
from auditor.ranges.truth import addresses
from auditor.sources.prometheus import LimitError, MetricsServer, Row

MOST_SAMPLES = 1_000_000
"""Read at most so many samples; a day of one replica scraped every 15 s has about 2,000,000."""
NAMES_IN_QUERY = 40
LONGEST_GAP = 2.5


@dataclass
class _Target:
    series: dict[tuple[str, Labels], dict[float, float]] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)


def collect_exact(
    server: MetricsServer,
    window: Range,
    founds: Sequence[Found],
    *,
    settings: Mapping[str, Setting],
    notes: Sequence[str],
    say: Callable[[str], None],
) -> Window:
    """The window made of raw samples.

    Raises:
        UsageError: more samples than the budget; the message says how to ask for less.
    """
    expected = sum(_expected_samples(server, window, found) for found in founds)
    if expected > MOST_SAMPLES:
        raise UsageError(
            f"--exact would read about {expected:,.0f} samples, more than {MOST_SAMPLES:,}: narrow it with --match or "
            "a shorter --window, or leave --exact away (the server then adds up, as an estimate)"
        )
    say(f"about {expected:,.0f} samples to read")
    targets: list[TargetWindow] = []
    for found in founds:
        targets += _read_targets(server, window, found)
    measured = [t for t in targets if t.state == "measured" and len(t.times) > 1]
    spans = [(t.times[-1] or 0.0) - (t.times[0] or 0.0) for t in measured]
    engines = {found.scope.engine.name: found.scope.engine for found in founds}
    restarts = sum(find_lives(t, engines[t.engine]).count for t in measured if t.engine)
    partial = "; ".join(sorted(server.warnings))
    coverage = min((statistics.fmean(t.coverage for t in targets) if targets else 0.0), 0.5 if partial else 1.0)
    warnings = [*notes]
    if spans and statistics.median(spans) < window.seconds:
        warnings.append(
            f"stored samples cover {statistics.median(spans):g} s of the {window.seconds:g} s asked for; "
            "rates divide by that"
        )
    if partial:
        warnings.append(f"the metrics server warned: {partial}")
    return Window(
        kind="range",
        start=min((t.times[0] for t in measured if t.times[0] is not None), default=window.start),
        end=max((t.times[-1] for t in measured if t.times[-1] is not None), default=window.end),
        seconds=statistics.median(spans) if spans else None,
        targets=tuple(targets),
        coverage=coverage,
        restarts=restarts,
        warnings=tuple(warnings),
        partial_response=partial,
        step_seconds=_typical_distance(measured),
        settings=settings,
        source=f"raw samples of {server.title} at {server.address}",
    )


def _names(found: Found) -> list[str]:
    declared = declared_names(found.scope.engine, found.scope.form)
    return sorted(n for n in found.scope.names if n in declared or n.endswith(CREATED))


def _expected_samples(server: MetricsServer, window: Range, found: Found) -> float:
    """Samples that the window holds: counted on one series a target, times the series of a target."""
    scope = found.scope
    at = window.end
    texts = sample_count_texts(scope, _names(found), found.core_names[0], window.seconds)
    series, samples, targets = (_first(server, text, at) for text in texts)
    each = samples / targets if targets else 1.0
    return series * each


def _first(server: MetricsServer, text: str, at: float) -> float:
    rows = server.instant(text, at).rows
    return rows[0].value if rows and math.isfinite(rows[0].value) else 0.0


def _read_targets(server: MetricsServer, window: Range, found: Found) -> list[TargetWindow]:
    scope = found.scope
    names = _names(found)
    chunks = [names[i : i + NAMES_IN_QUERY] for i in range(0, len(names), NAMES_IN_QUERY)]
    gathered: dict[tuple[str, ...], _Target] = defaultdict(_Target)
    for chunk in chunks:
        for row in _read(server, selector(None, (one_of("__name__", chunk), *scope.matchers)), window, 0):
            _add(gathered, row, scope, window)
    jobs = {dict(zip(scope.target_labels, key, strict=True)).get("job", "") for key in gathered} - {""}
    where: Sequence[Matcher] = [one_of("job", jobs)] if jobs else scope.matchers
    for row in _read(server, selector(PROCESS_START, where), window, 0):
        key = tuple(row.labels.get(name, "") for name in scope.target_labels)
        if key in gathered:
            _add(gathered, row, scope, window)
    shown = addresses(sorted(gathered), scope.target_labels)
    return [_window_of(shown[key], gathered[key], found, window) for key in sorted(gathered)]


def _read(server: MetricsServer, text: str, window: Range, depth: int) -> list[Row]:
    try:
        # A millisecond more: some servers leave out a sample that lies exactly at the range's start.
        return list(server.instant(f"{text}[{duration(window.seconds + 0.001)}]", window.end).rows)
    except LimitError:
        if depth >= DEEPEST_CUT or window.seconds < 120:
            raise
    middle = window.start + math.floor(window.seconds / 2)
    return [
        *_read(server, text, Range(window.start, middle), depth + 1),
        *_read(server, text, Range(middle, window.end), depth + 1),
    ]


def _add(gathered: dict[tuple[str, ...], _Target], row: Row, scope: Scope, window: Range) -> None:
    key = tuple(row.labels.get(name, "") for name in scope.target_labels)
    dropped = {"__name__", *scope.target_labels, *scope.replica_labels}
    name = row.labels.get("__name__", "")
    labels = sort_labels({k: v for k, v in row.labels.items() if k not in dropped})
    copy = "/".join(row.labels.get(label, "") for label in scope.replica_labels)
    target = gathered[key]
    target.copies[copy] = target.copies.get(copy, 0) + len(row.points)
    values = target.series.setdefault((name, (*labels, (" copy", copy))), {})
    for at, value in row.points:
        if at >= window.start - 0.0005:
            values[round(at, 3)] = value


def _window_of(address: str, target: _Target, found: Found, window: Range) -> TargetWindow:
    scope = found.scope
    fullest = max(target.copies, key=lambda copy: (target.copies[copy], copy))
    kept = {(name, labels[:-1]): values for (name, labels), values in target.series.items() if labels[-1][1] == fullest}
    times = sorted({at for (name, _), values in kept.items() if name != PROCESS_START for at in values})
    if len(times) < 2:
        reason = f"only {len(times)} sample in the window: no difference can be taken"
        return TargetWindow(address, "failed", scope.engine.name, reason=reason, times=tuple(times))
    series = [Series(name, labels, tuple(values.get(at) for at in times)) for (name, labels), values in kept.items()]
    series = _fill_starts(series)
    born = _born_at(series, window, times[0])
    if born is not None:
        # The process began inside the window, so that its counters were 0 at a time that is known.
        series = [Series(s.name, s.labels, (_zero(s, found), *s.values)) for s in series]
        times = [born, *times]
    there = window.end - born if born is not None else window.seconds
    return TargetWindow(
        address=address,
        state="measured",
        engine=scope.engine.name,
        times=tuple(times),
        form=scope.form,
        series=SeriesTable.of(series),
        samples_read=sum(len(v) for v in kept.values()),
        coverage=min(1.0, _covered_seconds(times) / there),
    )


def _covered_seconds(times: Sequence[float]) -> float:
    """Seconds between samples; a gap of more than 2.5 usual distances counts as one distance."""
    distances = [b - a for a, b in pairwise(times)]
    usual = statistics.median(distances)
    return math.fsum(d if d <= LONGEST_GAP * usual else usual for d in distances)


def _fill_starts(series: list[Series]) -> list[Series]:
    """A start time stands still between its samples; those of another moment are taken over."""
    return [Series(s.name, s.labels, _carried(s.values)) if s.name == PROCESS_START else s for s in series]


def _carried(values: Sequence[float | None]) -> tuple[float | None, ...]:
    out: list[float | None] = []
    last = next((v for v in values if v is not None), None)
    for value in values:
        last = value if value is not None else last
        out.append(last)
    return tuple(out)


def _born_at(series: Sequence[Series], window: Range, first: float) -> float | None:
    starts = [s.values[0] for s in series if s.name == PROCESS_START and s.values[0] is not None]
    if len(starts) != 1 or starts[0] is None:
        return None
    return round(starts[0], 3) if window.start <= starts[0] < first - 1e-3 else None


def _zero(series: Series, found: Found) -> float | None:
    if series.name == PROCESS_START or series.name.endswith(CREATED):
        return series.values[0]
    declared = declared_names(found.scope.engine, found.scope.form).get(series.name, ())
    return 0.0 if any(d.kind in ("counter", "histogram") for d, _, _ in declared) else None


def _typical_distance(targets: Sequence[TargetWindow]) -> float | None:
    distances = [b - a for t in targets for a, b in pairwise(t.times) if a is not None and b is not None]
    return statistics.median(distances) if distances else None
