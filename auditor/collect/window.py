"""Targets -> Window: coverage, restarts, and what our own scrapes did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from auditor.collect.inputs import Inputs
from auditor.measures.lives import find_lives
from auditor.measures.targets import find_twins
from auditor.measures.vocabulary import Vocabulary
from auditor.model import Page, TargetWindow, Window
from auditor.sources.files import STDIN


def shown_name(address: str) -> str:
    return address if "://" in address or address == STDIN else Path(address).name


def twin_warnings(pages: Iterable[tuple[str, Page]]) -> list[str]:
    """What to say where one server was read twice: by name and by number, or through a balancer and directly."""
    twins = find_twins(pages)
    if not twins:
        return []
    address, earlier = twins[0]
    more = f" (and {len(twins) - 1} more pairs)" if len(twins) > 1 else ""
    return [
        f"{address} and {earlier} share their creation times{more}: if they are one server, its requests count twice "
        "here; name it once"
    ]


def make_window(
    kind: Any,
    targets: Sequence[TargetWindow],
    inputs: Inputs,
    vocabulary: Vocabulary,
    *,
    seconds: float | None = None,
    start: float | None = None,
    end: float | None = None,
    coverage: float = 1.0,
    warnings: Sequence[str] = (),
    source: str = "",
) -> Window:
    answered = sum(t.state == "measured" for t in targets) / len(targets) if targets else 0.0
    restarts = sum(
        find_lives(t, vocabulary.engine(t.engine)).count
        for t in targets
        if t.state == "measured" and t.engine and len(t.times) > 1
    )
    if start is None and end is not None and seconds is not None:
        start = end - seconds
    return Window(
        kind=kind,
        start=start,
        end=end,
        seconds=seconds,
        targets=tuple(targets),
        coverage=min(coverage, answered) if targets else 0.0,
        restarts=restarts,
        warnings=(*warnings, *_disturbed(targets, vocabulary)),
        settings=inputs.settings,
        source=source,
    )


def _disturbed(targets: Sequence[TargetWindow], vocabulary: Vocabulary) -> tuple[str, ...]:
    """What our own scrapes did to live servers whose pages change by being read, one sentence an engine."""
    scraped = {t.engine: None for t in targets if t.state == "measured" and t.engine and "://" in t.address}
    traits = [vocabulary.engine(name).traits for name in scraped if name]
    return tuple(str(t["scrape_disturbs"]) for t in traits if "scrape_disturbs" in t)
