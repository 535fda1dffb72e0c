"""Everything that was answered for one engine and form -> the targets and parts of a window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.measures.promql import PIECE, Query
from auditor.measures.reduce import share_unlabelled
from auditor.measures.vocabulary import HISTOGRAM_SUFFIXES, Declaration
from auditor.model import Gauge, Part, Quantity, Slice, TargetWindow
from auditor.ranges.asking import combine_answers
from auditor.ranges.assembling import (
    SKEW,
    Group,
    by_group,
    columns_of,
    counter_of,
    gauge_of,
    group_of,
    histogram_of,
    infos_of,
    last_by_split,
    layouts,
    slack_of,
    steps_of,
)
from auditor.ranges.finding import Found
from auditor.ranges.natives import Flawed
from auditor.ranges.planning import MOST_DETAILED_ENGINES, Plan
from auditor.ranges.truth import Seen, Truth, addresses
from auditor.sources.prometheus import Answer, Row


@dataclass(frozen=True)
class Collected:
    """The answers for one engine and form, in the order of the plan's queries."""

    found: Found
    truth: Truth
    plan: Plan
    whole: list[Answer]
    born: Mapping[str, Answer]
    levels: list[Answer]
    course: list[Answer]
    skew: list[Answer]
    details: list[Answer]
    layouts: list[Answer]
    stored: list[Answer]


@dataclass
class _Draft:
    """A part in the making."""

    quantities: dict[str, Quantity] = field(default_factory=dict)
    flaws: dict[str, str] = field(default_factory=dict)
    slices: list[dict[str, Quantity]] = field(default_factory=list)


def build_targets(one: Collected, address: str) -> list[TargetWindow]:
    """The metrics server itself with what it added up, each target, and those that were silent.

    Args:
        address: what pooled parts are filed under.
    """
    builder = _Builder(one)
    builder.fill()
    return builder.targets(address)


class _Builder:
    def __init__(self, one: Collected) -> None:
        self.one = one
        self.scope, self.plan, self.truth = one.found.scope, one.plan, one.truth
        self.engine = self.scope.engine
        self.rebuilt = self.engine.form(self.scope.form).rebuilt_sums
        self.slack = slack_of(self.truth.interval_seconds, self.plan.window.seconds)
        self.main: dict[Group, _Draft] = defaultdict(_Draft)
        self.detail: dict[Group, _Draft] = defaultdict(_Draft)
        self.differing = layouts(one.layouts, self.scope)

    # ------------------------------------------------------------------ filling

    def fill(self) -> None:
        for query, answer in zip(self.plan.whole, self.one.whole, strict=True):
            self._whole(query, answer)
        for query, answer in zip(self.plan.levels, self.one.levels, strict=True):
            self._level(query, answer)
        if self.plan.step is not None:
            self._course()
        for query, answer in zip(self.plan.details, self.one.details, strict=True):
            self._detail(query, answer)

    def _declared(self, query: Query) -> Declaration:
        return self.engine.quantities[query.quantity]

    def _whole(self, query: Query, answer: Answer) -> None:
        declaration = self._declared(query)
        lost = self.one.born.get(query.quantity)
        if lost is not None:
            # Added row by row: a correction may be negative (a history that the server took for an increase).
            answer = combine_answers(answer, lost, "add")
        for group, rows in by_group(answer, self.scope).items():
            draft = self.main[group]
            try:
                draft.quantities[query.quantity] = self._monotone(declaration, rows, group)
            except Flawed as flaw:
                draft.flaws[query.quantity] = str(flaw)

    def _monotone(self, declaration: Declaration, rows: list[Row], group: Group) -> Quantity:
        if declaration.kind == "counter":
            return counter_of(rows, declaration)
        differ = any((name, group) in self.differing for name in self.scope.present(declaration, "_bucket"))
        return histogram_of(rows, declaration, rebuilt_sum=self.rebuilt, slack=self.slack, layouts_differ=differ)

    def _level(self, query: Query, answer: Answer) -> None:
        declaration = self._declared(query)
        times = self.plan.level_times
        for group, rows in by_group(answer, self.scope).items():
            draft = self.main[group]
            try:
                columns = columns_of(rows, times, declaration)
                split = last_by_split(rows, self.plan.window.end, declaration)
            except Flawed as flaw:
                draft.flaws[query.quantity] = str(flaw)
                continue
            draft.quantities[query.quantity] = gauge_of(columns, split)
            if self.plan.step is None:
                continue
            begin = self.plan.course_range.start
            for i, target in enumerate(self._slices(draft)):
                low = begin + i * self.plan.step - 1e-3
                inside = columns[bisect_left(times, low) : bisect_right(times, low + self.plan.step + 2e-3)]
                if any(c is not None for c in inside):
                    target[query.quantity] = gauge_of(inside)

    def _slices(self, draft: _Draft) -> list[dict[str, Quantity]]:
        if not draft.slices:
            draft.slices = [{} for _ in range(self.plan.steps)]
        return draft.slices

    def _course(self) -> None:
        times = self.plan.course_times
        for query, answer in zip(self.plan.course, self.one.course, strict=True):
            declaration = self._declared(query)
            for group, rows in by_group(answer, self.scope).items():
                try:
                    steps = steps_of(rows, times, declaration)
                except Flawed:
                    # The whole range has the reason; a course with a hole in it says nothing more.
                    continue
                for target, quantity in zip(self._slices(self.main[group]), steps, strict=True):
                    if quantity is not None:
                        target[query.quantity] = quantity
        for answer in self.one.skew:
            for row in answer.rows:
                values = {round(at, 3): value for at, value in row.points}
                for at, target in zip(times, self._slices(self.main[group_of(row, self.scope)]), strict=True):
                    value = values.get(round(at, 3))
                    if value is not None and value == value:
                        target[SKEW] = Gauge(None, value, value, value, value)

    def _detail(self, query: Query, answer: Answer) -> None:
        declaration = self._declared(query)
        drafts = self.main if self.scope.by == "rank" else self.detail
        for group, rows in by_group(answer, self.scope).items():
            draft = drafts[group]
            try:
                if declaration.kind == "info":
                    draft.quantities[query.quantity] = infos_of(rows, self.scope)
                elif declaration.kind == "gauge":
                    draft.quantities[query.quantity] = self._detailed_gauge(rows)
                else:
                    draft.quantities[query.quantity] = self._monotone(declaration, rows, group)
            except Flawed as flaw:
                draft.flaws[query.quantity] = str(flaw)

    @staticmethod
    def _detailed_gauge(rows: list[Row]) -> Gauge:
        seen = {row.labels.get(PIECE, ""): row.value for row in rows}
        if any(value != value or value in (float("inf"), float("-inf")) for value in seen.values()):
            raise Flawed("this gauge is NaN or infinite at the metrics server")
        return Gauge(seen.get("first"), seen.get("last"), None, seen.get("high"), None)

    # ------------------------------------------------------------------ parts

    def targets(self, address: str) -> list[TargetWindow]:
        groups = {group.target for group in (*self.main, *self.detail) if group.target is not None}
        keys = sorted(groups | {t.key for t in self.truth.targets})
        names = addresses(keys, self.scope.target_labels)
        seen = {t.key: t for t in self.truth.targets}
        by_place: dict[str, dict[tuple[str | None, str | None], Part]] = defaultdict(dict)
        pooled: dict[str, list[Part]] = defaultdict(list)
        for group, draft in self.main.items():
            own = group.target is not None
            place = names[group.target] if group.target else address
            part = self._part(draft, place, group, seen, pooled=self.scope.by != "rank")
            if part.pooled:
                pooled[place].append(part)
            else:
                by_place[place if own else address][(part.model, part.rank)] = part
        for group, draft in self.detail.items():
            place = names[group.target] if group.target else address
            by_place[place][(group.model, group.rank)] = self._part(draft, place, group, seen, pooled=False)
        parts: dict[str, list[Part]] = defaultdict(list)
        for place, listed in pooled.items():
            shared = share_unlabelled({(p.model, p.rank): p for p in listed}, self.engine)
            parts[place] += shared.values()
        for place, keyed in by_place.items():
            parts[place] += share_unlabelled(keyed, self.engine).values()
        out = []
        if address in parts:
            out.append(self._target(address, tuple(parts.pop(address)), self.truth.coverage))
        if len(seen) <= MOST_DETAILED_ENGINES:
            for key, target in seen.items():
                out.append(self._target(names[key], tuple(parts.pop(names[key], ())), target.coverage))
        for place, listed in parts.items():
            out.append(self._target(place, tuple(listed), self.truth.coverage))
        return [*out, *self.truth.silent]

    def _left_out(self) -> dict[str, str]:
        """What is only known by engine, where there are too many of them."""
        if len(self.truth.targets) <= MOST_DETAILED_ENGINES:
            return {}
        reason = f"more than {MOST_DETAILED_ENGINES} targets: none is asked for by itself; narrow it with --match"
        return {d.name: reason for d in self.engine.quantities.values() if d.kind == "info" and self.scope.has(d)}

    def _name(self, declaration: Declaration) -> str:
        """The newest of its names that is there, as reduce.py would say it."""
        for canonical in declaration.series:
            name = self.engine.exported(canonical, self.scope.form)
            if any(name + suffix in self.scope.names for suffix in ("", *HISTOGRAM_SUFFIXES)):
                return name
        return next(iter(self.scope.present(declaration)), "")

    def _target(self, address: str, parts: tuple[Part, ...], coverage: float) -> TargetWindow:
        return TargetWindow(
            address=address,
            state="measured",
            engine=self.engine.name,
            form=self.scope.form,
            parts=parts,
            coverage=coverage,
        )

    def _part(
        self, draft: _Draft, place: str, group: Group, seen: Mapping[tuple[str, ...], Seen], *, pooled: bool
    ) -> Part:
        members = [
            t
            for key, t in seen.items()
            if (group.target is None or key == group.target)
            and (group.model is None or not t.models or group.model in t.models)
        ]
        single = members[0] if len(members) == 1 else None
        starts = self.plan.course_times
        names = {d: self._name(self.engine.quantities[d]) for d in draft.quantities}
        return Part(
            target=place,
            engine=self.engine.name,
            model=group.model,
            rank=group.rank,
            quantities=_ordered(draft.quantities, self.engine.quantities),
            slices=tuple(Slice(at - (self.plan.step or 0.0), at, q) for at, q in zip(starts, draft.slices, strict=True))
            if draft.slices
            else (),
            restarts=sum(t.restarts for t in members),
            gone=sum(not t.at_end for t in members),
            pooled=pooled,
            multiprocess=bool(members) and all(t.multiprocess for t in members),
            started_at=single.last_started_at if single else None,
            forms={name: found for name, found in names.items() if found},
            units={n: "unknown" for n in draft.quantities if self.engine.quantities[n].unit_in_help},
            flaws={**draft.flaws, **(self._left_out() if pooled else {})},
        )


def _ordered(quantities: Mapping[str, Quantity], declared: Mapping[str, Declaration]) -> dict[str, Quantity]:
    return {name: quantities[name] for name in declared if name in quantities}


__all__ = ["Collected", "build_targets"]
