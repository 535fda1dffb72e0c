"""What one engine gives and what it does not, as rows of words: for ``auditor explain ENGINE`` and docs/engines.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.measures.vocabulary import Declaration, Engine


@dataclass(frozen=True)
class QuantityRow:
    """One quantity of an engine: where it stands on a page and what to beware of."""

    name: str
    series: str
    counts: str
    caveats: tuple[str, ...]
    missing: str


def series_words(q: Declaration) -> str:
    """The newest series of a quantity with the labels that select and split it."""
    inside = [f"{label}={'|'.join(values) or '(empty)'}" for label, values in q.where.items()]
    if q.split:
        inside.append(f"by {q.split}")
    return q.series[0] + (f" ({', '.join(inside)})" if inside else "")


def quantity_rows(engine: Engine) -> list[QuantityRow]:
    """All quantities of the engine in the order of its file."""
    return [
        QuantityRow(q.name, series_words(q), q.counts, (*_older(q), *q.caveats), q.missing)
        for q in engine.quantities.values()
    ]


def _older(q: Declaration) -> tuple[str, ...]:
    return (f"older name: {', '.join(q.series[1:])}",) if len(q.series) > 1 else ()


def form_lines(engine: Engine) -> Iterator[str]:
    """How producers write the engine's names."""
    for form in engine.forms:
        yield f"{form.prefix}... {form.note or 'its own page'}"
