"""Scraped points -> quantities: the direct twin of ``promql.py``.

One reduction a kind: ``increase`` (counters, reset-aware), ``distribution`` (histograms, bucket by bucket),
``level`` (gauges: first, last, least, most, mean), ``labels`` (info series). Only this closed set exists twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from auditor.measures.grouping import PartKey, Place, Points, copy_key, declared_names, group_series
from auditor.measures.histogram import AGREE, check_histogram
from auditor.measures.holes import Holes
from auditor.measures.lives import CREATED, Lives, find_lives
from auditor.measures.moves import LARGEST, Moves
from auditor.measures.sharing import share_unlabelled
from auditor.measures.vocabulary import Declaration, Engine
from auditor.model import Counter, Gauge, Histogram, Info, Labels, Part, Quantity, Slice, TargetWindow


def reduce_target(target: TargetWindow, engine: Engine, lives: Lives | None = None) -> tuple[Part, ...]:
    """Reduce one target's pages to parts, one for each model and rank on them, in sorted order.

    Parts that a metrics server has reduced already are passed through.
    """
    if target.parts or not target.times:
        return target.parts
    builder = _Builder(target, engine, lives or find_lives(target, engine))
    parts = {key: builder.part(key, found) for key, found in group_series(target, engine).items()}
    return tuple(share_unlabelled(parts, engine).values())


class _Builder:
    """Builds the parts of one target; holds what all of them share."""

    def __init__(self, target: TargetWindow, engine: Engine, lives: Lives) -> None:
        self.target = target
        self.engine = engine
        self.lives = lives
        self.moves = Moves(target, engine, lives)
        self.holes = Holes(target, engine, lives)
        self.pages = len(target.times)
        self.lifetime = self.pages == 1
        self.form = engine.form(target.form) if target.form else engine.forms[0]
        self.restarted = [any(f[i] for f in lives.restarted.values()) for i in range(1, self.pages)]

    def part(self, key: PartKey, found: Mapping[str, Mapping[int, Points]]) -> Part:
        quantities: dict[str, Quantity] = {}
        per_slice: list[dict[str, Quantity]] = [{} for _ in range(max(0, self.pages - 1))]
        forms: dict[str, str] = {}
        units: dict[str, str] = {}
        flaws: dict[str, str] = {}
        doubles: dict[str, str] = {}
        copies: dict[str, tuple[int, int]] = {}
        for name, positions in found.items():
            declaration = self.engine.quantities[name]
            newest = min(positions)
            points = positions[newest]
            forms[name] = points.exported_name
            flaw = self._flaw(points, found)
            if flaw:
                flaws[name] = flaw
                continue
            whole, slices = self._reduce(points)
            quantities[name] = whole
            unknown = self.holes.unknown_slices(points)
            for i, quantity in enumerate(slices):
                if i not in unknown:
                    per_slice[i][name] = quantity
            if declaration.kind == "gauge" and (told := self._copies(points)):
                copies[name] = told
            if len(positions) > 1:
                doubles[name] = self._compare(whole, found, name)
            if declaration.unit_in_help:
                units[name] = self._unit(forms[name])
        return Part(
            target=self.target.address,
            engine=self.engine.name,
            model=key[0],
            rank=key[1],
            quantities=quantities,
            slices=tuple(
                Slice(self.target.times[i], self.target.times[i + 1], q, self.restarted[i])
                for i, q in enumerate(per_slice)
            ),
            restarts=self.lives.count,
            multiprocess=self.lives.multiprocess,
            started_at=self.lives.started_at,
            forms=forms,
            units=units,
            flaws=flaws,
            doubles=doubles,
            copies=copies,
        )

    def _copies(self, points: Points) -> tuple[int, int] | None:
        last = self.moves.last
        found = [[v for i in group if (v := last[i]) is not None] for group in points.copies]
        most = max(map(len, found), default=0)
        return (most, max(sum(v > 0 for v in values) for values in found)) if most > 1 else None

    def _bad_value(self, points: Points) -> str | None:
        for place in points.places:
            for column in self.moves.columns:
                v = column[place.at]
                if v is None:
                    continue
                if math.isnan(v):
                    return f"{place.name} is NaN on the page"
                if math.isinf(v):
                    return f"{place.name} is infinite on the page"
                if v < 0:
                    return f"{place.name} is negative on the page ({v:g})"
                if v > LARGEST:
                    return f"{place.name} is {v:g} on the page: no engine counts that far"
        return None

    def _flaw(self, points: Points, found: Mapping[str, Mapping[int, Points]]) -> str | None:
        if self.moves.all_good:
            return points.lack

        def unborn() -> bool:
            return self._may_be_unborn(points.declaration, found)

        others = (positions[min(positions)] for positions in found.values())
        return (
            self._bad_value(points)
            or self.holes.why_unknown(points, unborn=unborn)
            or self.holes.began_before(points, others)
            or points.lack
        )

    def _may_be_unborn(self, declaration: Declaration, found: Mapping[str, Mapping[int, Points]]) -> bool:
        """The last page may rightly lack the whole quantity after a restart: nothing of it happened since."""
        if self.form.sparse_counters:
            return True
        last = self.moves.last

        def values(name: str) -> list[float]:
            places = found[name][min(found[name])].places if name in found else ()
            return [v for place in places if (v := last[place.at]) is not None]

        if declaration.kind == "counter" and any(values(name) for name in declaration.zero_beside):
            return True
        work = values(self.engine.traits.get("moves_with_all_work", ""))
        return declaration.population != "state" and bool(work) and not any(work)

    def _unit(self, series_name: str) -> str:
        base = series_name.removesuffix("_total")
        text = (self.target.helps.get(series_name) or self.target.helps.get(base) or "").lower()
        if not text:
            return "unknown"
        return "blocks" if "block" in text and "token" not in text else "tokens"

    def _compare(self, whole: Quantity, found: Mapping[str, Mapping[int, Points]], name: str) -> str:
        for _, points in sorted(found[name].items())[1:]:
            if self._flaw(points, found):
                continue
            other, _ = self._reduce(points)
            a, b = _magnitude(whole), _magnitude(other)
            if abs(a - b) > max(0.0 if isinstance(whole, Gauge) else 1.0, AGREE * max(abs(a), abs(b))):
                return f"{points.exported_name} says {b:g} where its newer name says {a:g}"
        return ""

    # ------------------------------------------------------------------ one quantity

    def _reduce(self, points: Points) -> tuple[Quantity, Sequence[Quantity]]:
        kind = points.declaration.kind
        if kind == "info":
            info = self._info(points)
            return info, [info] * (self.pages - 1)
        if kind == "histogram":
            return self._histogram(self._one_histogram(points))
        return self._gauge(points) if kind == "gauge" else self._counter(points)

    def _info(self, points: Points) -> Info:
        last = self.moves.last
        there = tuple(dict(p.labels) for p in points.pieces[""] if last[p.at] is not None)
        return Info(there) if 0 < len(there) < len(points.pieces[""]) else points.info

    def _counter(self, points: Points) -> tuple[Counter, list[Quantity]]:
        moves = self.moves
        chosen = points.plain
        if points.declaration.one_of:
            kept = set(self._one_of(points.pieces[""], points.declaration.one_of))
            chosen = tuple(pair for pair in chosen if pair[0] in kept)
        total, split = _add(moves.whole, chosen)
        start, _ = _add(moves.starts, chosen)
        end, _ = _add(moves.ends, chosen)
        slices = [_add(rises, chosen) for rises in moves.by_slice] if self.pages > 1 else []
        return Counter(total, start, end, split), [Counter(t, None, None, parts) for t, parts in slices]

    def _histogram(self, points: Points) -> tuple[Histogram, list[Histogram]]:
        buckets = points.buckets
        flaw = self.holes.changed_layout(points)
        if not buckets.have_one_layout:
            flaw = "the copies on the page have different bucket layouts"
        sums = [place.at for place in points.pieces["_sum"]]
        totals = points.totals

        def make(rises: Sequence[float]) -> Histogram:
            return check_histogram(
                buckets.edges,
                buckets.add(rises),
                sum([rises[i] for i in sums], 0.0),
                sum([rises[i] for i in totals], 0.0),
                flaw=flaw,
                rebuilt_sum=self.form.rebuilt_sums,
            )

        whole = make(self.moves.whole)
        if self.pages == 2:
            # One slice is the whole window.
            return whole, [whole]
        return whole, [make(rises) for rises in self.moves.by_slice] if self.pages > 1 else []

    def _gauge(self, points: Points) -> tuple[Gauge, list[Quantity]]:
        columns = [self._level(points, column) for column in self.moves.columns]
        split: dict[str, float] = {}
        if points.declaration.split:
            for place, word in points.plain:
                value = self.moves.last[place.at]
                if value is not None:
                    split[word or ""] = split.get(word or "", 0.0) + value
        seen = [v for v in columns if v is not None]
        whole = Gauge(
            first=columns[0],
            last=columns[-1],
            low=min(seen) if seen else None,
            high=max(seen) if seen else None,
            mean=math.fsum(seen) / len(seen) if seen else None,
            split=split,
        )
        slices: list[Quantity] = []
        for a, b in pairwise(columns):
            pair = [v for v in (a, b) if v is not None]
            slices.append(
                Gauge(
                    a,
                    b,
                    min(pair, default=None),
                    max(pair, default=None),
                    sum(pair) / len(pair) if pair else None,
                )
            )
        return whole, slices

    def _level(self, points: Points, column: Sequence[float | None]) -> float | None:
        """Value at one page: the largest among copies, then combined as declared."""
        groups = [[v for i in group if (v := column[i]) is not None] for group in points.levels]
        values = [max(group) for group in groups if group]
        if not values:
            return None
        across = points.declaration.across
        if across == "sum":
            return math.fsum(values)
        return max(values) if across in ("max", "one_of") else math.fsum(values) / len(values)

    # ------------------------------------------------------------------ copies of one thing

    def _one_of(self, places: Sequence[Place], labels: Sequence[str]) -> list[Place]:
        """Of series that are copies of each other but for these labels, the one that rose most."""
        best: dict[Labels, Place] = {}
        for place in places:
            key = place.without(labels)
            if key not in best or self._rose(place) > self._rose(best[key]):
                best[key] = place
        return list(best.values())

    def _rose(self, place: Place) -> float:
        first, last = self.moves.first[place.at] or 0.0, self.moves.last[place.at] or 0.0
        return last if self.lifetime else last - first

    def _one_histogram(self, points: Points) -> Points:
        """Of histograms that are copies of each other but for the declared labels, the one that counted most."""
        labels = points.declaration.one_of
        if not labels or not points.pieces["_count"]:
            return points
        chosen = frozenset(copy_key(place, labels) for place in self._one_of(points.pieces["_count"], labels))
        return points.only(chosen, labels)


def _add(rises: Sequence[float], chosen: Sequence[tuple[Place, str | None]]) -> tuple[float, dict[str, float]]:
    """The sum over series, and sums by the split label."""
    total = 0.0
    split: dict[str, float] = {}
    for place, word in chosen:
        rise = rises[place.at]
        total += rise
        if word is not None:
            split[word] = split.get(word, 0.0) + rise
    return total, split


def _magnitude(quantity: Quantity) -> float:
    if isinstance(quantity, Counter):
        return quantity.increase
    if isinstance(quantity, Histogram):
        return quantity.count
    if isinstance(quantity, Gauge):
        return quantity.last or 0.0
    return float(len(quantity.labels))


__all__ = ["CREATED", "declared_names", "reduce_target", "share_unlabelled"]
