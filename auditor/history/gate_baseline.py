"""A store as the baseline of a gate: how was this reading on the nights so far?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.history.baseline import MIN_NIGHTS, Baseline, NoBaseline, make_baseline
from auditor.history.nights import group_nights, load_runs
from auditor.history.series import Point, SubjectNights, find_subject, load_subject
from auditor.history.store import Store, open_store


@dataclass
class StoreBaseline:
    """Baselines out of a store. Close it, or use it as a context manager."""

    store: Store
    min_nights: int = MIN_NIGHTS
    _known: dict[str, SubjectNights | None] = field(default_factory=dict)

    def of(
        self,
        reading: str,
        labels: Mapping[str, Any],
        *,
        at: str | None = None,
        tonight: Point | None = None,
    ) -> tuple[float, float, float] | None:
        """(median, low, high) of comparable nights, None without enough of them; ``explain`` then says why.

        Args:
            reading: name of a reading; ``at`` p50, p90 or p99 of a distribution.
            labels: the subject's labels, exactly as in its report.
            tonight: kind, length and traffic that the nights must be like; by default those of the latest night.
        """
        found = self.find(reading, labels, at=at, tonight=tonight)
        return None if isinstance(found, NoBaseline) else (found.median, found.low, found.high)

    def explain(self, reading: str, labels: Mapping[str, Any], *, at: str | None = None) -> str | None:
        """Why there is no baseline, or None where there is one."""
        found = self.find(reading, labels, at=at)
        return found.reason if isinstance(found, NoBaseline) else None

    def find(
        self, reading: str, labels: Mapping[str, Any], *, at: str | None = None, tonight: Point | None = None
    ) -> Baseline | NoBaseline:
        name = reading if at in (None, "mean") else f"{reading}.{at}"
        nights = self._nights(labels)
        if nights is None:
            return NoBaseline("not enough history: this subject is not in the store", 0)
        points = nights.points.get(name)
        if points is None:
            return NoBaseline(f"not enough history: {name} was never kept for this subject", 0)
        like = tonight or next((p for p in reversed(points) if p is not None and p.value is not None), None)
        if like is None:
            return NoBaseline(f"not enough history: {name} never had a value", 0)
        return make_baseline(like, points, unit=nights.units[name], min_nights=self.min_nights)

    def _nights(self, labels: Mapping[str, Any]) -> SubjectNights | None:
        key = repr(sorted(labels.items()))
        if key not in self._known:
            subject = find_subject(self.store, labels)
            nights = group_nights(load_runs(self.store))[-90:]
            self._known[key] = None if subject is None else load_subject(self.store, subject, nights, facts=False)
        return self._known[key]

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> StoreBaseline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_baseline(path: str, *, min_nights: int = MIN_NIGHTS) -> StoreBaseline:
    """Open a store to ask it for baselines.

    Raises:
        UsageError: there is no such file.
        OutputError: it cannot be read.
    """
    return StoreBaseline(open_store(path), min_nights)
