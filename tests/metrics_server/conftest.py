from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from auditor.http import Transport
from auditor.measures.vocabulary import Vocabulary, load_vocabulary
from auditor.model import Options, Window
from auditor.pipeline import audit_window
from auditor.ranges import RangeRequest, collect_range
from auditor.sources.prometheus import MetricsServer

Gather = Callable[..., Window]


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return load_vocabulary()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of our own need no gentleness."""
    defaults = dict(MetricsServer.__init__.__kwdefaults__)
    defaults.update(pauses_seconds=(0.0, 0.0), queries_per_second=10_000.0)
    monkeypatch.setattr(MetricsServer.__init__, "__kwdefaults__", defaults)


@pytest.fixture
def gather(vocabulary: Vocabulary) -> Gather:
    def run(url: str, seconds: float, end: float, **options: Any) -> Window:
        transport = options.pop("transport", Transport())
        return collect_range(RangeRequest(url, seconds, end, **options), vocabulary, transport=transport)

    return run


def readings_of(window: Window, *, subject: int = 0, by: str = "model") -> dict[str, Any]:
    report = audit_window(window, Options(by=by)).to_json()
    readings: dict[str, Any] = report["subjects"][subject]["readings"]
    return readings
