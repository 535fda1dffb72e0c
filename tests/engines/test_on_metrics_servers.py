"""SGLang's and llama.cpp's declarations through real metrics servers: the same readings as from the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.http import Transport
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Page
from auditor.ranges import RangeRequest, collect_range
from auditor.sources.exposition import parse_page
from auditor.sources.files import read_file
from tests.engines.pages import FIXTURES, audit_capture
from tests.metrics_server.conftest import readings_of
from tests.metrics_server.samples import END, store_pages
from tests.metrics_server.servers import both

pytestmark = pytest.mark.live
STEP, SCRAPES = 15.0, 8
# Windows whose series all stood on the first page: increase() leaves out a new series' first value.
FOLDERS = (FIXTURES / "sglang" / "0.5.23" / "overload-queue", FIXTURES / "llamacpp" / "11434" / "prefix-hit")
SECONDS = STEP * (SCRAPES - 1)


def _pages(folder: Path) -> list[tuple[float, Page]]:
    """Half of the scrapes before the load, half after it."""
    vocabulary = load_vocabulary()
    before, after = (
        parse_page(read_file(str(folder / f"{name}.prom")), wanted=vocabulary.wanted) for name in ("before", "after")
    )
    times = [END - SECONDS + STEP * i for i in range(SCRAPES)]
    return [(at, before if i < SCRAPES // 2 else after) for i, at in enumerate(times)]


@pytest.fixture(
    scope="module", params=[(f, s) for f in FOLDERS for s in both()], ids=lambda p: f"{p[0].parts[-3]}-{p[1]}"
)
def stored(request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    folder, server = request.param
    with both()[server](store_pages(_pages(folder), job="engine", instance="a:30000")) as url:
        yield folder, url


def test_readings_are_those_of_the_pages(stored: tuple[Path, str]) -> None:
    """The window begins and ends at a scrape, so nothing is extrapolated."""
    folder, url = stored
    window = collect_range(RangeRequest(url, SECONDS, END), load_vocabulary(), transport=Transport())
    ranged = readings_of(window)
    direct = audit_capture(folder, seconds=SECONDS)
    compared = 0
    for name, reading in direct.readings.items():
        if reading.state not in ("measured", "bounded"):
            continue
        found = ranged[name]
        assert found["state"] in ("measured", "partial", "bounded"), (name, found)
        for key in ("value", "low", "high"):
            wanted = getattr(reading, key)
            # A mean's interval on a range is wider by what the server extrapolates.
            if key != "value" and reading.value is not None:
                continue
            if wanted is None:
                assert found[key] is None, (name, key)
            else:
                assert found[key] == pytest.approx(wanted, rel=1e-6, abs=1e-9), (name, key)
        compared += 1
    assert compared > (40 if "sglang" in folder.parts else 12)
