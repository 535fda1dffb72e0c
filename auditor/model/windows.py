"""What happened between two moments, as the sources saw it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from auditor.model.pages import SeriesKeys
from auditor.model.quantities import Part
from auditor.model.readings import Setting
from auditor.model.words import Labels, TargetState, WindowKind


@dataclass(frozen=True)
class Series:
    """One series of one target. ``values`` runs along the target's ``times``; None where it was not there."""

    name: str
    labels: Labels
    values: tuple[float | None, ...]


class SeriesTable(Sequence[Series]):
    """The series of one target side by side: shared keys, and one column of values a page."""

    __slots__ = ("columns", "is_complete", "shared")

    def __init__(self, shared: SeriesKeys, columns: Sequence[Sequence[float | None]]) -> None:
        self.shared = shared
        self.columns = tuple(columns)
        self.is_complete = not any(None in column for column in self.columns)
        """No series is missing on any page."""

    @classmethod
    def of(cls, series: Iterable[Series]) -> SeriesTable:
        listed = list(series)
        keys = SeriesKeys(tuple((s.name, s.labels) for s in listed))
        return cls(keys, tuple(zip(*(s.values for s in listed), strict=True)))

    def __len__(self) -> int:
        return len(self.shared.keys)

    @overload
    def __getitem__(self, index: int) -> Series: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Series, ...]: ...
    def __getitem__(self, index: int | slice) -> Series | tuple[Series, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        name, labels = self.shared.keys[index]
        return Series(name, labels, tuple(column[index] for column in self.columns))

    def __iter__(self) -> Iterator[Series]:
        rows = zip(*self.columns, strict=True) if self.columns else iter([()] * len(self))
        for (name, labels), values in zip(self.shared.keys, rows, strict=True):
            yield Series(name, labels, values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SeriesTable({list(self)!r})"


@dataclass(frozen=True)
class TargetWindow:
    """What one target gave in the window: points (scraped pages) or parts (reduced by a metrics server)."""

    address: str
    state: TargetState
    engine: str | None = None
    version: str | None = None
    reason: str | None = None
    times: tuple[float | None, ...] = ()
    """Unix seconds at which each page was asked for; None where nobody knows."""
    form: str = ""
    """The prefix under which this target exports its engine's names, for example ``vllm:``."""
    helps: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    series: Sequence[Series] = ()
    parts: tuple[Part, ...] = ()
    samples_read: int = 0
    coverage: float = 1.0
    """Share of the window that this target's pages or samples cover."""

    def __post_init__(self) -> None:
        if not isinstance(self.series, SeriesTable):
            object.__setattr__(self, "series", SeriesTable.of(self.series))

    @property
    def table(self) -> SeriesTable:
        """The series, as the table that they always are."""
        assert isinstance(self.series, SeriesTable)
        return self.series


@dataclass(frozen=True)
class Window:
    """What happened between two moments, as the sources saw it; everything right of it is pure."""

    kind: WindowKind
    start: float | None
    end: float | None
    seconds: float | None
    targets: tuple[TargetWindow, ...]
    coverage: float = 1.0
    restarts: int = 0
    warnings: tuple[str, ...] = ()
    partial_response: str = ""
    """What a metrics server warned about its own answers; empty where it did not."""
    step_seconds: float | None = None
    """Distance between the samples behind a range."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    source: str = ""
    """How the window was made, in words a report can print: ``t0.prom -> t1.prom``."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a boot log told beside settings: ``boot_effects`` (sentences), ``log_hit_rate`` (0..1)."""
