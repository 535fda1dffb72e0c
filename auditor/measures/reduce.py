"""Scraped points -> quantities: the direct twin of ``promql.py``.

One reduction a kind: ``increase`` (counters, reset-aware), ``distribution`` (histograms, bucket by bucket),
``level`` (gauges: first, last, least, most, mean), ``labels`` (info series). Only this closed set exists twice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from auditor.measures.lives import CREATED, Lives, find_lives, process_key
from auditor.measures.vocabulary import HISTOGRAM_SUFFIXES, Declaration, Engine
from auditor.model import Counter, Gauge, Histogram, Info, Labels, Part, Quantity, Series, Slice, TargetWindow

PartKey = tuple[str | None, str | None]
"""Model and rank."""

LARGEST = 1e30
"""No counter of an engine gets this far; beyond it sums and squares overflow."""
BARE = "bare"
"""A counter that stands without ``_total`` on the page."""
AGREE = 0.005
"""Two names of one thing agree within one unit or this share."""


@dataclass
class _Points:
    """The series of one quantity in one part, by piece (``_bucket``, ``_sum``, ``_count`` or empty)."""

    pieces: dict[str, list[Series]] = field(default_factory=lambda: defaultdict(list))


def reduce_target(target: TargetWindow, engine: Engine, lives: Lives | None = None) -> tuple[Part, ...]:
    """Reduce one target's pages to parts, one for each model and rank on them, in sorted order.

    Parts that a metrics server has reduced already are passed through.
    """
    if target.parts or not target.times:
        return target.parts
    lives = lives or find_lives(target, engine)
    by_name = declared_names(engine, target.form)
    varying = _varying_labels(target.series, engine.replica_labels)
    found: dict[PartKey, dict[str, dict[int, _Points]]] = defaultdict(lambda: defaultdict(dict))
    for series in target.series:
        for declaration, position, piece in by_name.get(series.name, ()):
            labels = dict(series.labels)
            if any(labels.get(k, "") not in allowed for k, allowed in declaration.where.items()):
                continue
            key = _part_key(labels, engine, varying)
            found[key][declaration.name].setdefault(position, _Points()).pieces[piece].append(series)
    builder = _Builder(target, engine, lives)
    parts = {key: builder.part(key, quantities) for key, quantities in found.items()}
    return tuple(share_unlabelled(parts, engine).values())


def declared_names(engine: Engine, form: str) -> dict[str, list[tuple[Declaration, int, str]]]:
    """Exported name -> (quantity, position among its names, piece of a histogram) for every declared series."""
    out: dict[str, list[tuple[Declaration, int, str]]] = defaultdict(list)
    for declaration in engine.quantities.values():
        for position, canonical in enumerate(declaration.series):
            name = engine.exported(canonical, form)
            if declaration.kind == "histogram":
                for suffix in HISTOGRAM_SUFFIXES:
                    out[name + suffix].append((declaration, position, suffix))
            else:
                out[name].append((declaration, position, ""))
                if declaration.kind == "counter" and name.endswith("_total"):
                    out[name.removesuffix("_total")].append((declaration, position, BARE))
    return out


def _varying_labels(series: Iterable[Series], names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    values: dict[str, set[str]] = {name: set() for name in names}
    for s in series:
        for key, value in s.labels:
            if key in values and value:
                values[key].add(value)
    return tuple(name for name in names if len(values[name]) > 1)


def _part_key(labels: Mapping[str, str], engine: Engine, varying: tuple[str, ...]) -> PartKey:
    model = next((labels[k] for k in engine.model_labels if labels.get(k)), None)
    pieces = [labels[k] for k in (*engine.rank_labels, *varying) if labels.get(k, "") != ""]
    return model, "/".join(pieces) if pieces else None


def share_unlabelled(parts: dict[PartKey, Part], engine: Engine) -> dict[PartKey, Part]:
    """Give series that lack the model or rank label to the parts they speak of.

    Levels and labels are copied to every part they may describe; what counts is moved, and only where one
    part can be meant, so that nothing is counted twice.
    """
    out = dict(sorted(parts.items(), key=lambda item: (item[0][0] or "", item[0][1] or "")))
    models = {m for m, _ in out if m is not None}
    for (model, rank), part in list(out.items()):
        if model is None and models:
            hosts = [k for k in out if k[0] is not None and (rank is None or k[1] in (rank, None))]
            hosts = hosts or [k for k in out if k[0] is not None]
            _hand_over(out, (model, rank), part, hosts, engine, movable=len(models) == 1)
    for (model, rank), part in list(out.items()):
        if rank is None:
            hosts = [k for k in out if k[0] == model and k[1] is not None]
            if hosts:
                _hand_over(out, (model, rank), part, hosts, engine, movable=len(hosts) == 1)
    return {k: p for k, p in out.items() if p.quantities or p.flaws}


def _hand_over(
    out: dict[PartKey, Part],
    key: PartKey,
    part: Part,
    hosts: list[PartKey],
    engine: Engine,
    *,
    movable: bool,
) -> None:
    kept: dict[str, Quantity] = {}
    given: dict[str, Quantity] = {}
    shared: set[str] = set()
    for name, quantity in part.quantities.items():
        declaration = engine.quantities.get(name)
        state_like = declaration is not None and declaration.kind in ("info", "gauge")
        if state_like or _never_moved(quantity):
            shared.add(name)
        (given if name in shared or movable else kept)[name] = quantity
    for i, host in enumerate(hosts):
        names = given if i == 0 else {n: given[n] for n in shared}
        base = out[host]
        out[host] = _with(base, {**names, **base.quantities}, part, set(names))
    out[key] = _with(part, kept, None, set())


def _never_moved(quantity: Quantity) -> bool:
    """A counter at zero is zero for every part it may speak of, and adds nothing to their sum."""
    return isinstance(quantity, Counter) and quantity.increase == 0 and not quantity.at_end and not quantity.at_start


def _with(part: Part, quantities: dict[str, Quantity], other: Part | None, names: set[str]) -> Part:
    slices = part.slices
    forms, units, flaws = dict(part.forms), dict(part.units), dict(part.flaws)
    if other is not None:
        if other.slices and len(other.slices) == len(slices):
            slices = tuple(
                Slice(
                    a.start,
                    a.end,
                    {**{n: q for n, q in b.quantities.items() if n in names}, **a.quantities},
                    a.restarted,
                )
                for a, b in zip(slices, other.slices, strict=True)
            )
        forms = {**{k: v for k, v in other.forms.items() if k in names}, **forms}
        units = {**{k: v for k, v in other.units.items() if k in names}, **units}
        flaws = {**other.flaws, **flaws}
    return Part(
        target=part.target,
        engine=part.engine,
        model=part.model,
        rank=part.rank,
        quantities=quantities,
        slices=slices,
        restarts=part.restarts,
        pooled=part.pooled,
        multiprocess=part.multiprocess,
        started_at=part.started_at,
        forms=forms,
        units=units,
        flaws=flaws,
        doubles=part.doubles,
        copies=part.copies if other is None else {**other.copies, **part.copies},
    )


class _Builder:
    """Builds the parts of one target; holds what all of them share."""

    def __init__(self, target: TargetWindow, engine: Engine, lives: Lives) -> None:
        self.target = target
        self.engine = engine
        self.lives = lives
        self.pages = len(target.times)
        self.lifetime = self.pages == 1
        self.form = engine.form(target.form) if target.form else engine.forms[0]

    def part(self, key: PartKey, found: Mapping[str, Mapping[int, _Points]]) -> Part:
        quantities: dict[str, Quantity] = {}
        per_slice: list[dict[str, Quantity]] = [{} for _ in range(max(0, self.pages - 1))]
        forms: dict[str, str] = {}
        units: dict[str, str] = {}
        flaws: dict[str, str] = {}
        doubles: dict[str, str] = {}
        copies: dict[str, tuple[int, int]] = {}
        for name, positions in found.items():
            declaration = self.engine.quantities[name]
            for points in positions.values():
                # One counter with and without its suffix is one counter.
                bare = points.pieces.pop(BARE, None)
                if bare and not points.pieces.get(""):
                    points.pieces[""] = bare
            newest = min(positions)
            forms[name] = self.engine.exported(declaration.series[newest], self.target.form)
            flaw = _bad_value(declaration, positions[newest]) or self._vanished(forms[name], positions[newest])
            if flaw:
                flaws[name] = flaw
                continue
            whole, slices = self._reduce(declaration, positions[newest])
            quantities[name] = whole
            for target_slice, quantity in zip(per_slice, slices, strict=True):
                target_slice[name] = quantity
            if declaration.kind == "gauge" and (told := self._copies(positions[newest].pieces[""])):
                copies[name] = told
            if len(positions) > 1:
                doubles[name] = self._compare(declaration, whole, positions, newest)
            if declaration.unit_in_help:
                units[name] = self._unit(forms[name])
        return Part(
            target=self.target.address,
            engine=self.engine.name,
            model=key[0],
            rank=key[1],
            quantities=quantities,
            slices=tuple(
                Slice(self.target.times[i], self.target.times[i + 1], q, self._restarted(i + 1))
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

    def _copies(self, series: Sequence[Series]) -> tuple[int, int] | None:
        found: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
        for s in series:
            if s.values[-1] is not None:
                found[tuple(kv for kv in s.labels if kv[0] not in self.engine.copy_labels)].append(s.values[-1])
        most = max(found.values(), key=len, default=[])
        return (len(most), max(sum(v > 0 for v in values) for values in found.values())) if len(most) > 1 else None

    def _vanished(self, name: str, points: _Points) -> str | None:
        """A name of an earlier page that the last one lacks: its increase is not 0, it is unknown."""
        if self.form.sparse_counters or any(s.values[-1] is not None for p in points.pieces.values() for s in p):
            return None
        return f"{name} is on an earlier page and not on the last one"

    def _restarted(self, page: int) -> bool:
        return any(flags[page] for flags in self.lives.restarted.values())

    def _unit(self, series_name: str) -> str:
        base = series_name.removesuffix("_total")
        text = (self.target.helps.get(series_name) or self.target.helps.get(base) or "").lower()
        if not text:
            return "unknown"
        return "blocks" if "block" in text and "token" not in text else "tokens"

    def _compare(self, declaration: Declaration, whole: Quantity, positions: Mapping[int, _Points], newest: int) -> str:
        for position in sorted(positions):
            if position == newest or _bad_value(declaration, positions[position]):
                continue
            other, _ = self._reduce(declaration, positions[position])
            a, b = _magnitude(whole), _magnitude(other)
            if abs(a - b) > max(1.0 if declaration.kind != "gauge" else 0.0, AGREE * max(abs(a), abs(b))):
                old = self.engine.exported(declaration.series[position], self.target.form)
                return f"{old} says {b:g} where its newer name says {a:g}"
        return ""

    # ------------------------------------------------------------------ one quantity

    def _reduce(self, declaration: Declaration, points: _Points) -> tuple[Quantity, list[Quantity]]:
        if declaration.kind == "info":
            labels = tuple(dict(s.labels) for s in points.pieces[""] if s.values[-1] is not None)
            info = Info(labels or tuple(dict(s.labels) for s in points.pieces[""]))
            return info, [info] * (self.pages - 1)
        if declaration.kind == "histogram":
            return self._histogram(_one_histogram(points, declaration.one_of, self.lifetime))
        if declaration.kind == "gauge":
            return self._gauge(declaration, points.pieces[""])
        return self._counter(declaration, points.pieces[""])

    def _rises(self, series: Series) -> list[float]:
        """Increase of one monotone series in each slice."""
        restarted = self.lives.of(process_key(series, self.engine))
        out: list[float] = []
        last = series.values[0]
        for i in range(1, self.pages):
            value = series.values[i]
            if restarted[i]:
                last = None
            if value is None:
                out.append(0.0)
                continue
            out.append(value - (last or 0.0))
            last = value
        return out

    def _whole(self, series: Series, rises: list[float]) -> float:
        if self.lifetime:
            return series.values[0] or 0.0
        restarted = self.lives.of(process_key(series, self.engine))
        if not any(restarted) and series.values[-1] is not None:
            return series.values[-1] - (series.values[0] or 0.0)
        return math.fsum(rises)

    def _start(self, series: Series) -> float:
        """Total at the window's start; with two pages the window begins at the restart."""
        if self.lifetime or (self.pages == 2 and self.lives.of(process_key(series, self.engine))[1]):
            return 0.0
        return series.values[0] or 0.0

    def _counter(self, declaration: Declaration, series: list[Series]) -> tuple[Counter, list[Quantity]]:
        whole = _Sums()
        slices = [_Sums() for _ in range(self.pages - 1)]
        starts, ends = _Sums(), _Sums()
        for s in _one_of(series, declaration.one_of, self.lifetime):
            split = split_value(declaration, s)
            rises = self._rises(s)
            whole.add(self._whole(s, rises), split)
            starts.add(self._start(s), None)
            ends.add(s.values[-1] or 0.0, None)
            for sums, rise in zip(slices, rises, strict=True):
                sums.add(rise, split)
        counter = Counter(whole.total, starts.total, ends.total, whole.split)
        return counter, [Counter(s.total, None, None, s.split) for s in slices]

    def _histogram(self, points: _Points) -> tuple[Histogram, list[Quantity]]:
        buckets: dict[float, float] = defaultdict(float)
        slice_buckets: list[dict[float, float]] = [defaultdict(float) for _ in range(self.pages - 1)]
        layouts: dict[tuple[tuple[str, str], ...], set[float]] = defaultdict(set)
        for s in points.pieces["_bucket"]:
            labels = dict(s.labels)
            edge = _edge(labels.pop("le", ""))
            if edge is None:
                continue
            layouts[tuple(sorted(labels.items()))].add(edge)
            rises = self._rises(s)
            buckets[edge] += self._whole(s, rises)
            for b, rise in zip(slice_buckets, rises, strict=True):
                b[edge] += rise
        flaw = None
        if len({frozenset(edges) for edges in layouts.values()}) > 1:
            flaw = "the copies on the page have different bucket layouts"
        total, totals = self._plain(points.pieces["_sum"])
        has_count = bool(points.pieces["_count"])
        count, counts = self._plain(points.pieces["_count"])
        if not points.pieces["_sum"]:
            flaw = flaw or "the page has no sum for it"
        rebuilt = self.form.rebuilt_sums

        def make(b: dict[float, float], s: float, n: float) -> Histogram:
            return make_histogram(b, s, n if has_count else None, flaw=flaw, rebuilt_sum=rebuilt)

        return make(buckets, total, count), [
            make(b, s, n) for b, s, n in zip(slice_buckets, totals, counts, strict=True)
        ]

    def _plain(self, series: list[Series]) -> tuple[float, list[float]]:
        total = 0.0
        slices = [0.0] * (self.pages - 1)
        for s in series:
            rises = self._rises(s)
            total += self._whole(s, rises)
            slices = [a + b for a, b in zip(slices, rises, strict=True)]
        return total, slices

    def _gauge(self, declaration: Declaration, series: list[Series]) -> tuple[Gauge, list[Quantity]]:
        columns: list[float | None] = []
        split: dict[str, float] = {}
        for i in range(self.pages):
            columns.append(self._level(declaration, series, i))
        if declaration.split:
            for s in series:
                value = s.values[-1]
                if value is not None:
                    label = split_value(declaration, s) or ""
                    split[label] = split.get(label, 0.0) + value
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

    def _level(self, declaration: Declaration, series: list[Series], page: int) -> float | None:
        """Value at one page: the largest among copies, then combined as declared."""
        copies = (*self.engine.copy_labels, *declaration.one_of)
        groups: dict[tuple[tuple[str, str], ...], float] = {}
        for s in series:
            value = s.values[page]
            if value is None:
                continue
            key = tuple(kv for kv in s.labels if kv[0] not in copies)
            groups[key] = max(groups.get(key, value), value)
        if not groups:
            return None
        values = list(groups.values())
        if declaration.across == "sum":
            return math.fsum(values)
        return max(values) if declaration.across in ("max", "one_of") else math.fsum(values) / len(values)


class _Sums:
    """A sum, and sums by a split label."""

    def __init__(self) -> None:
        self.total = 0.0
        self.split: dict[str, float] = {}

    def add(self, value: float, split: str | None) -> None:
        self.total += value
        if split is not None:
            self.split[split] = self.split.get(split, 0.0) + value


def _one_of(series: list[Series], labels: tuple[str, ...], lifetime: bool) -> list[Series]:
    """Of series that are copies of each other but for these labels, the one that rose most."""
    if not labels:
        return series
    best: dict[tuple[tuple[str, str], ...], Series] = {}

    def rise(s: Series) -> float:
        first, last = s.values[0] or 0.0, s.values[-1] or 0.0
        return last if lifetime else last - first

    for s in series:
        key = tuple(kv for kv in s.labels if kv[0] not in labels)
        if key not in best or rise(s) > rise(best[key]):
            best[key] = s
    return list(best.values())


def _one_histogram(points: _Points, labels: tuple[str, ...], lifetime: bool) -> _Points:
    """Of histograms that are copies of each other but for these labels, the one that counted most."""
    if not labels or not points.pieces["_count"]:
        return points

    def copy_of(s: Series) -> Labels:
        return tuple(kv for kv in s.labels if kv[0] in labels)

    def rest(s: Series) -> Labels:
        return tuple(kv for kv in s.labels if kv[0] not in labels and kv[0] != "le")

    chosen = {(rest(s), copy_of(s)) for s in _one_of(points.pieces["_count"], labels, lifetime)}
    kept = _Points()
    for piece, series in points.pieces.items():
        kept.pieces[piece] = [s for s in series if (rest(s), copy_of(s)) in chosen]
    return kept


def split_value(declaration: Declaration, series: Series) -> str | None:
    """The value of the declared split label, in the words the readings use; None without a split."""
    if declaration.split is None:
        return None
    return declaration.split_word(dict(series.labels).get(declaration.split, ""))


def make_histogram(
    cumulative: Mapping[float, float],
    total: float,
    count: float | None,
    *,
    flaw: str | None = None,
    rebuilt_sum: bool = False,
) -> Histogram:
    """A histogram from cumulative counts by edge; says what is wrong with it instead of guessing."""
    edges = tuple(sorted(cumulative))
    if not edges:
        return Histogram((), (), total, count or 0.0, flaw or "the page has no buckets for it", rebuilt_sum)
    if edges[0] < 0:
        flaw = flaw or "it has a bucket below zero"
    if not math.isinf(edges[-1]):
        flaw = flaw or "its last bucket (le=+Inf) is missing"
    top = cumulative[edges[-1]]
    n = count if count is not None else top
    counts: list[float] = []
    below = 0.0
    for edge in edges:
        counts.append(cumulative[edge] - below)
        below = cumulative[edge]
    # Sums of doubles may fall short by a rounding; more than that is a contradiction.
    if min(counts) < -1e-6 * max(1.0, top):
        flaw = flaw or "a bucket holds fewer observations than the one below it"
    if abs(top - n) > max(1.0, AGREE * n):
        flaw = flaw or f"its buckets hold {top:g} observations, its count says {n:g}"
    if flaw:
        return Histogram((), (), total, n, flaw, rebuilt_sum)
    return Histogram(edges, tuple(max(0.0, c) for c in counts), total, n, None, rebuilt_sum)


def _edge(text: str) -> float | None:
    try:
        edge = float(text)
    except ValueError:
        return None
    return None if math.isnan(edge) else edge


def _bad_value(declaration: Declaration, points: _Points) -> str | None:
    for series in points.pieces.values():
        for s in series:
            for v in s.values:
                if v is None:
                    continue
                if math.isnan(v):
                    return f"{s.name} is NaN on the page"
                if math.isinf(v):
                    return f"{s.name} is infinite on the page"
                if v < 0:
                    return f"{s.name} is negative on the page ({v:g})"
                if v > LARGEST or 0 < v < 1 / LARGEST:
                    return f"{s.name} is {v:g} on the page: no engine counts that far"
    return None


def _magnitude(quantity: Quantity) -> float:
    if isinstance(quantity, Counter):
        return quantity.increase
    if isinstance(quantity, Histogram):
        return quantity.count
    if isinstance(quantity, Gauge):
        return quantity.last or 0.0
    return float(len(quantity.labels))


__all__ = ["CREATED", "declared_names", "make_histogram", "reduce_target", "share_unlabelled"]
