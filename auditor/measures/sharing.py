"""Series that lack the model or rank label -> the parts they speak of."""

from __future__ import annotations

from dataclasses import replace

from auditor.measures.grouping import PartKey
from auditor.measures.vocabulary import Engine
from auditor.model import Counter, Part, Quantity, Slice


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
        names = given if i == 0 else {n: q for n, q in given.items() if n in shared}
        base = out[host]
        out[host] = _with(base, {**names, **base.quantities}, part, set(names))
    # What is wrong with it is wrong with all it may speak of; kept here too it would be a subject of its own.
    out[key] = _with(replace(part, flaws={}), kept, None, set())


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
