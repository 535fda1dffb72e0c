"""The HTML report with at least ten pictures: how long it takes and how large it gets.

python -m tests.benchmarks.html_report      one run in this process; prints its figures as JSON
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.measuring import ROOT, Row, alternate, cpu_seconds_of, run_child

SERIES = ROOT / "fixtures" / "vllm" / "0.32.0" / "l-series"
PICTURES = 10
LIBRARIES = (sys.executable, "-c", "import matplotlib.figure, matplotlib.backends.backend_agg, jinja2")


def make_document() -> dict[str, Any]:
    """The report of a recorded series, its subject repeated under other model names until there are enough pictures."""
    from auditor.collect import Inputs, collect
    from auditor.model import Options
    from auditor.pipeline import audit_window

    pages = tuple(str(p) for p in sorted(SERIES.glob("*.prom.gz")))
    document = audit_window(collect(Inputs(series=pages, every_seconds=2.0)), Options()).to_json()
    course = document.pop("course", None)
    (subject,) = document["subjects"]
    document["subjects"] = []
    for i in range(4):
        twin = copy.deepcopy(subject)
        twin["labels"]["model"] = f"model {i}"
        if course is not None:
            twin["course"] = course
        document["subjects"].append(twin)
    return document


def run() -> dict[str, float]:
    document = make_document()
    from auditor.outputs.html import render
    from auditor.outputs.text import RenderOptions

    start = time.process_time()
    page = render(document, RenderOptions(width=100, colour=False, show_all=False))
    seconds = time.process_time() - start
    return {"cpu_seconds": seconds, "bytes": len(page.encode()), "pictures": page.count("<img") + page.count("<svg")}


def measure() -> Iterator[Row]:
    found: dict[str, float] = {}

    def ours() -> float:
        found.update(run_child("tests.benchmarks.html_report"))
        return found["cpu_seconds"]

    mine, libraries, ratio = alternate(ours, lambda: cpu_seconds_of(LIBRARIES), 3)
    yield Row(
        f"HTML report, {found['pictures']:.0f} pictures",
        f"{mine:.2f} s CPU, {found['bytes'] / 1e3:,.0f} kB",
        f"{libraries:.2f} s: importing matplotlib and jinja2",
        ratio,
        f"under 3 s and 1 MB, {PICTURES} pictures or more",
        mine < 3 and found["bytes"] < 1e6 and found["pictures"] >= PICTURES,
    )


if __name__ == "__main__":
    print(json.dumps(run()))
