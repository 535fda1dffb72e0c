"""From a simulated run to the product's own Window: as if its pages had been scraped, without the text between."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.measures.targets import build_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Page, PageShape, Setting, Window
from tests.simulator.snapshot import Snapshot


def page_of(snapshot: Snapshot) -> Page:
    """The page that a reader would get from the snapshot's text."""
    samples = list(snapshot.samples())
    shape = PageShape(
        keys=tuple((name, tuple(labels)) for name, labels, _ in samples),
        kinds={f.name: f.kind for f in snapshot.families.values()},
        helps={f.name: f.help for f in snapshot.families.values()},
        samples_read=len(samples),
        names_read=frozenset(name for name, _, _ in samples),
    )
    return Page(shape, tuple(float(value) for _, _, value in samples))


def window_of(
    pages: Sequence[Snapshot],
    times: Sequence[float],
    *,
    settings: dict[str, Setting] | None = None,
    address: str = "simulated",
) -> Window:
    """The window of a simulated server's pages, scraped at ``times`` (seconds of the run)."""
    target = build_target(
        address,
        [(at, page_of(p)) for at, p in zip(times, pages, strict=True)],
        load_vocabulary(),
        saved=False,
    )
    return Window(
        kind="scrapes" if len(pages) == 2 else "series",
        start=times[0],
        end=times[-1],
        seconds=times[-1] - times[0],
        targets=(target,),
        settings=settings or {},
        source="simulated",
    )
