"""What every series of a target did between its pages: reset-aware differences, taken for all series at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from operator import sub

from auditor.measures.lives import Column, Lives, process_key
from auditor.measures.vocabulary import Engine
from auditor.model import TargetWindow

LARGEST = 1e30
"""No counter of an engine gets this far; beyond it sums and squares overflow."""


class Moves:
    """Increases of the series of one target, by their index in its table."""

    def __init__(self, target: TargetWindow, engine: Engine, lives: Lives) -> None:
        self._table = target.table
        self._engine = engine
        self._lives = lives
        self.pages = len(target.times)
        self.columns: tuple[Column, ...] = self._table.columns
        self.is_plain = self._table.is_complete and not any(map(any, lives.restarted.values()))
        """Every series is on every page and nothing restarted: increases are differences."""

    @property
    def first(self) -> Column:
        return self.columns[0]

    @property
    def last(self) -> Column:
        return self.columns[-1]

    @cached_property
    def by_slice(self) -> Sequence[Sequence[float]]:
        """For each slice of the window, the increase of every series in it."""
        if self.is_plain:
            return [tuple(map(sub, now, before)) for before, now in pairwise(self.columns)]
        rises = [self._rises(index) for index in range(len(self._table))]
        return [tuple([rise[i] for rise in rises]) for i in range(self.pages - 1)]

    @cached_property
    def whole(self) -> Sequence[float]:
        """The increase of every series in the whole window; its total where the window is a life so far."""
        if self.pages == 1:
            return self.ends
        if self.pages == 2:
            return self.by_slice[0]
        if self.is_plain:
            return tuple(map(sub, self.last, self.first))
        return [self._whole(index) for index in range(len(self._table))]

    @cached_property
    def starts(self) -> Sequence[float]:
        """The total of every series at the window's start; with two pages the window begins at the restart."""
        if self.pages == 1:
            return [0.0] * len(self._table)
        if self.pages == 2 and not self.is_plain:
            return [0.0 if self._restarted(i)[1] else value or 0.0 for i, value in enumerate(self.first)]
        return _or_zero(self.first)

    @cached_property
    def ends(self) -> Sequence[float]:
        """The total of every series at the window's end."""
        return _or_zero(self.last)

    @cached_property
    def all_good(self) -> bool:
        """Every series is on every page, with what an engine can count: finite, not negative, not too large."""
        return self._table.is_complete and all(
            math.isfinite(sum(c)) and min(c, default=0.0) >= 0 and max(c, default=0.0) <= LARGEST  # type: ignore
            for c in self.columns
        )

    def _restarted(self, index: int) -> tuple[bool, ...]:
        return self._lives.of(process_key(self._table.shared.keys[index][1], self._engine))

    def _rises(self, index: int) -> list[float]:
        """Increase of one monotone series in each slice."""
        restarted = self._restarted(index)
        out: list[float] = []
        last = self.first[index]
        for i in range(1, self.pages):
            value = self.columns[i][index]
            if restarted[i]:
                last = None
            if value is None:
                out.append(0.0)
                continue
            out.append(value - (last or 0.0))
            last = value
        return out

    def _whole(self, index: int) -> float:
        last = self.last[index]
        if not any(self._restarted(index)) and last is not None:
            return last - (self.first[index] or 0.0)
        rises = [slice_rises[index] for slice_rises in self.by_slice]
        # fsum refuses what only a page with infinite or absurd counters has; such a series is found invalid later.
        total = sum(rises)
        return math.fsum(rises) if math.isfinite(total) else total


def _or_zero(column: Column) -> Sequence[float]:
    return [value or 0.0 for value in column]
