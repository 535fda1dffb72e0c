"""Series of a target -> which quantity of which part each of them feeds: worked out once for targets alike."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from auditor.measures.lives import ProcessKey, pick_all, process_key
from auditor.measures.vocabulary import HISTOGRAM_SUFFIXES, Declaration, Engine
from auditor.model import Info, Labels, SeriesKey, TargetWindow

PartKey = tuple[str | None, str | None]
"""Model and rank."""

BARE = "bare"
"""A counter that stands without ``_total`` on the page."""


class Place(NamedTuple):
    """One series of a target: where its values stand in each column of the table, and what it is."""

    at: int
    name: str
    labels: Labels
    process: ProcessKey

    def without(self, names: Iterable[str]) -> Labels:
        """Its labels but these: the same for copies that differ in nothing else."""
        return tuple([pair for pair in self.labels if pair[0] not in names])


@dataclass(frozen=True)
class Buckets:
    """The buckets of a histogram. ``add`` takes a value of each series to one total for each edge."""

    edges: tuple[float, ...]
    add: Callable[[Sequence[float]], Sequence[float]]
    have_one_layout: bool


@dataclass(eq=False)
class Points:
    """The series of one quantity in one part, by piece (``_bucket``, ``_sum``, ``_count`` or empty)."""

    declaration: Declaration
    engine: Engine
    exported_name: str
    pieces: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    _chosen: dict[frozenset[tuple[Labels, Labels]], Points] = field(default_factory=dict)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        return tuple(place for places in self.pieces.values() for place in places)

    @cached_property
    def at(self) -> frozenset[int]:
        """Where they all stand in a column of the table."""
        return frozenset(place.at for place in self.places)

    @cached_property
    def members(self) -> tuple[tuple[Place, ...], ...]:
        """Series that a page has together or not at all: those of a histogram with the same labels.

        A series of a counter stands alone; copies of one level stand together, since one of them is enough.
        """
        if self.declaration.kind == "counter":
            return tuple((place,) for place in self.places)
        but = ("le",) if self.declaration.kind == "histogram" else self._copy_labels
        groups: dict[Labels, list[Place]] = defaultdict(list)
        for place in self.places:
            groups[place.without(but)].append(place)
        return tuple(map(tuple, groups.values()))

    @cached_property
    def lack(self) -> str | None:
        """What no page has of a histogram, and what would be a zero without this reason."""
        if self.declaration.kind != "histogram":
            return None
        for members in self.members:
            names = {place.name.rpartition("_")[2] for place in members}
            if "sum" not in names:
                return "the page has no sum for it"
            if names == {"sum"}:
                return "the page has neither a count nor buckets for it"
        return None

    @cached_property
    def totals(self) -> tuple[int, ...]:
        """For each histogram the series that counts all its observations: its count, else its highest bucket."""
        found: dict[Labels, tuple[float, int]] = {}
        for place in self.pieces["_bucket"]:
            labels, edge = place.without(("le",)), _edge(dict(place.labels).get("le", ""))
            if edge is not None and edge >= found.get(labels, (-math.inf, 0))[0]:
                found[labels] = (edge, place.at)
        found |= {place.without(("le",)): (math.inf, place.at) for place in self.pieces["_count"]}
        return tuple(at for _, at in found.values())

    @cached_property
    def plain(self) -> tuple[tuple[Place, str | None], ...]:
        """Series of a counter or gauge, each with the value of its split label in the readings' words."""
        return tuple((place, split_value(self.declaration, place.labels)) for place in self.pieces[""])

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Series of a gauge; copies of one level stand together."""
        return self._alike(self._copy_labels)

    @property
    def _copy_labels(self) -> tuple[str, ...]:
        return (*self.engine.copy_labels, *self.declaration.one_of)

    @cached_property
    def copies(self) -> tuple[tuple[int, ...], ...]:
        """Series of a gauge; those that several processes export of one engine stand together."""
        return self._alike(self.engine.copy_labels)

    def _alike(self, but: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        groups: dict[Labels, list[int]] = defaultdict(list)
        for place in self.pieces[""]:
            groups[place.without(but)].append(place.at)
        return tuple(map(tuple, groups.values()))

    @cached_property
    def info(self) -> Info:
        return Info(tuple(dict(place.labels) for place in self.pieces[""]))

    @cached_property
    def buckets(self) -> Buckets:
        at_edge: dict[float, list[int]] = defaultdict(list)
        layouts: dict[Labels, set[float]] = defaultdict(set)
        for place in self.pieces["_bucket"]:
            edge = _edge(dict(place.labels).get("le", ""))
            if edge is not None:
                layouts[place.without(("le",))].add(edge)
                at_edge[edge].append(place.at)
        edges = tuple(sorted(at_edge))
        one_layout = len({frozenset(found) for found in layouts.values()}) <= 1
        if all(len(found) == 1 for found in at_edge.values()):
            return Buckets(edges, pick_all([at_edge[edge][0] for edge in edges]), one_layout)
        groups = [pick_all(at_edge[edge]) for edge in edges]
        return Buckets(edges, lambda values: [sum(pick(values), 0.0) for pick in groups], one_layout)

    def only(self, chosen: frozenset[tuple[Labels, Labels]], one_of: Sequence[str]) -> Points:
        """The series of some copies: ``chosen`` holds their other labels, and those in which copies differ."""
        if chosen not in self._chosen:
            kept = Points(self.declaration, self.engine, self.exported_name)
            for piece, places in self.pieces.items():
                kept.pieces[piece] = [p for p in places if copy_key(p, one_of) in chosen]
            self._chosen[chosen] = kept
        return self._chosen[chosen]


def copy_key(place: Place, one_of: Sequence[str]) -> tuple[Labels, Labels]:
    """A series of a histogram as (what it is of, which copy of it)."""
    return place.without((*one_of, "le")), tuple(pair for pair in place.labels if pair[0] in one_of)


Grouped = Mapping[PartKey, Mapping[str, Mapping[int, Points]]]
"""Part -> quantity -> position among its names -> its series."""


def group_series(target: TargetWindow, engine: Engine) -> Grouped:
    """The series of a target by part and quantity; remembered with the series it has in common with others."""
    memo = target.table.shared.memo
    key = ("grouped", engine, target.form)
    if key not in memo:
        memo[key] = _group(target.table.shared.keys, engine, target.form)
    grouped: Grouped = memo[key]
    return grouped


def _group(keys: Sequence[SeriesKey], engine: Engine, form: str) -> Grouped:
    by_name = declared_names(engine, form)
    varying = _varying_labels(keys, engine.replica_labels)
    found: dict[PartKey, dict[str, dict[int, Points]]] = defaultdict(lambda: defaultdict(dict))
    for index, (name, pairs) in enumerate(keys):
        place = Place(index, name, pairs, process_key(pairs, engine))
        for declaration, position, piece in by_name.get(name, ()):
            labels = dict(pairs)
            if any(labels.get(k, "") not in allowed for k, allowed in declaration.where.items()):
                continue
            positions = found[_part_key(labels, engine, varying)][declaration.name]
            if position not in positions:
                shown = engine.exported(declaration.series[position], form)
                positions[position] = Points(declaration, engine, shown)
            positions[position].pieces[piece].append(place)
    for quantities in found.values():
        for positions in quantities.values():
            for points in positions.values():
                # One counter with and without its suffix is one counter.
                bare = points.pieces.pop(BARE, None)
                if bare and not points.pieces.get(""):
                    points.pieces[""] = bare
    return found


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


def _varying_labels(keys: Iterable[SeriesKey], names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    values: dict[str, set[str]] = {name: set() for name in names}
    for _, labels in keys:
        for key, value in labels:
            if key in values and value:
                values[key].add(value)
    return tuple(name for name in names if len(values[name]) > 1)


def _part_key(labels: Mapping[str, str], engine: Engine, varying: tuple[str, ...]) -> PartKey:
    model = next((labels[k] for k in engine.model_labels if labels.get(k)), None)
    pieces = [labels[k] for k in (*engine.rank_labels, *varying) if labels.get(k, "") != ""]
    return model, "/".join(pieces) if pieces else None


def split_value(declaration: Declaration, labels: Labels) -> str | None:
    """The value of the declared split label, in the words the readings use; None without a split."""
    if declaration.split is None:
        return None
    return declaration.split_word(dict(labels).get(declaration.split, ""))


def _edge(text: str) -> float | None:
    try:
        edge = float(text)
    except ValueError:
        return None
    return None if math.isnan(edge) else edge
