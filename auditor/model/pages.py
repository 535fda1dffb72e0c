"""A page as it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from auditor.model.words import Labels


class Sample(NamedTuple):
    """One line of a page. ``value`` may be NaN or infinite here; readings never are."""

    name: str
    labels: Labels
    value: float


SeriesKey = tuple[str, Labels]
"""Name and labels of one series."""


@dataclass(frozen=True, eq=False)
class SeriesKeys:
    """The series of a page or a target without their values: what like engines share.

    ``memo`` keeps what was worked out from the keys alone, so that a fleet of like engines pays for it once.
    """

    keys: tuple[SeriesKey, ...]
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class PageShape(SeriesKeys):
    """All of an exposition page but its numbers."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    helps: Mapping[str, str] = field(default_factory=dict)
    samples_read: int = 0
    names_read: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Page:
    """One exposition page: the wanted samples, and what was said about their families."""

    shape: PageShape
    values: tuple[float, ...]
    """One number for each of the shape's keys. NaN and infinity may be among them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Page) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[Any, ...]:
        shape = self.shape
        return self.values, shape.keys, shape.kinds, shape.helps, shape.samples_read, shape.names_read

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The wanted samples, made at each call."""
        return tuple(Sample(name, labels, v) for (name, labels), v in zip(self.shape.keys, self.values, strict=True))

    @property
    def kinds(self) -> Mapping[str, str]:
        """Family name as written in its TYPE line -> counter, gauge, histogram, summary, info, unknown."""
        return self.shape.kinds

    @property
    def helps(self) -> Mapping[str, str]:
        """Family name -> HELP text (needed where a unit stands only there)."""
        return self.shape.helps

    @property
    def samples_read(self) -> int:
        """All sample lines of the page, wanted or not."""
        return self.shape.samples_read

    @property
    def names_read(self) -> frozenset[str]:
        """The names of all samples of the page, wanted or not."""
        return self.shape.names_read
