"""True coverage of the 95 % intervals of shares and means, over pages of long simulated runs: docs/intervals.md.

``python -m tests.ceilings.prove_intervals --doc docs/intervals.md`` runs each setting for some thousand requests and
cuts the run into windows of about 30, 100 and 300 finished requests. An interval is right when it holds the value of
the whole run. Neighbouring windows are not independent, and requests of a window share steps: both are in the figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from auditor.measures.subject import Subject
from auditor.model import Histogram
from tests.ceilings.cases import known_settings, subject_of
from tests.ceilings.prove import put, quantile
from tests.simulator import Priors, Run, random_setting, simulate, true_values

FIRST_SEED = 60_000_000
SIZES = (30, 100, 300)
MOST_WINDOWS = 40
"""Windows of one size in one run."""
READINGS = (
    "prefill_share", "queue_share", "length_share", "prefix_hit_share", "mean_prefill_seconds", "mean_decode_seconds",
    "mean_queue_seconds", "ttft_seconds", "e2e_seconds", "itl_seconds", "output_length_tokens", "prompt_length_tokens",
)  # fmt: skip
HISTOGRAMS = {
    "queue_share": "queue_seconds", "mean_queue_seconds": "queue_seconds", "mean_prefill_seconds": "prefill_seconds",
    "mean_decode_seconds": "decode_seconds", "prefill_share": "prefill_seconds", "ttft_seconds": "ttft_seconds",
    "e2e_seconds": "e2e_seconds", "output_length_tokens": "output_length_tokens",
    "prompt_length_tokens": "prompt_length_tokens",
}  # fmt: skip
WAITS = 0.02
HEAVY = 0.2
"""Heavy tail: half of the sum comes from fewer than this share of the requests."""
PRIORS = Priors(load=(0.1, 0.9), requests=(3000, 5000), tight_pool_share=0.1)


@dataclass(frozen=True)
class Cell:
    """One reading of the windows of one size in one run."""

    seed: int
    reading: str
    size: int
    windows: int
    inside: int
    no_interval: int
    width: float
    """Median width of the intervals over the width that would be right (3.92 standard deviations of the value)."""
    heavy: bool
    waits: bool
    """Requests of the run waited for a seat for more than ``WAITS`` of queue + service."""


def cells(seed: int) -> list[Cell]:
    """All readings of one run."""
    scenario = random_setting(seed, PRIORS)
    run = simulate(scenario.setting, scenario.workload)
    ends = np.sort(run.column("ended")[run.finished])
    if len(ends) < 1000:
        return []
    # The first tenth warms up, the last one drains.
    ends = ends[len(ends) // 10 : -len(ends) // 10]
    settings = known_settings(run)
    whole = subject_of(run, [float(ends[0]), float(ends[-1])], scenario.layout, settings)
    waits = true_values(run).queue_share > WAITS
    right = {name: whole.read(name).value for name in READINGS}
    tails = {name: heavy_tail(whole, name) for name in READINGS}
    out: list[Cell] = []
    for size in SIZES:
        subjects = list(windows(run, ends, size, scenario.layout, settings))
        for name in READINGS:
            truth = right[name]
            if truth is None or not truth > 0 or (name.endswith("share") and truth >= 1):
                continue
            cell = score(subjects, name, truth)
            if cell is not None:
                out.append(replace(cell, seed=seed, size=size, heavy=tails[name], waits=waits))
    return out


def windows(run: Run, ends: np.ndarray, size: int, layout: object, settings: Mapping[str, object]) -> Iterator[Subject]:
    """Subjects of neighbouring windows with ``size`` finished requests each."""
    edges = [float(t) for t in ends[::size]][: MOST_WINDOWS + 1]
    for start, end in itertools.pairwise(edges):
        if end > start:
            yield subject_of(run, [start, end], layout, settings)  # type: ignore[arg-type]


def score(subjects: Sequence[Subject], name: str, truth: float) -> Cell | None:
    """How often intervals hold the truth."""
    inside = without = 0
    widths, values = [], []
    for s in subjects:
        found = s.read(name)
        if found.value is None:
            continue
        values.append(found.value)
        if found.low is None or found.high is None:
            without += 1
            continue
        widths.append(found.high - found.low)
        inside += found.low <= truth * (1 + 1e-9) and found.high >= truth * (1 - 1e-9)
    if len(widths) < 5:
        return None
    ideal = 3.92 * statistics.pstdev(values)
    width = statistics.median(widths) / ideal if ideal > 0 else math.inf
    return Cell(0, name, 0, len(widths), inside, without, width, False, False)


def heavy_tail(s: Subject, name: str) -> bool:
    """Half of the whole run's sum comes from less than a fifth of its requests, by the buckets' upper edges."""
    quantity = HISTOGRAMS.get(name)
    if quantity is None or not s.has(quantity):
        return False
    h: Histogram = s.histogram(quantity)
    top = weight = 0.0
    edges = [e if math.isfinite(e) else 2 * h.edges[-2] for e in h.edges]
    total = sum(c * e for c, e in zip(h.counts, edges, strict=True))
    for count, edge in sorted(zip(h.counts, edges, strict=True), key=lambda pair: -pair[1]):
        if weight + count * edge >= total / 2:
            return (top + (total / 2 - weight) / edge) / max(1.0, h.count) < HEAVY
        top += count
        weight += count * edge
    return False


# --------------------------------------------------------------------------- tables


def table(found: Sequence[Cell]) -> str:
    """Coverage by reading and number of requests, with and without heavy tails."""
    lines = ["| reading | " + " | ".join(f"n = {size}" for size in SIZES) + " | width over the right one (n = 100) |"]
    lines.append("|---" * (len(SIZES) + 2) + "|")
    for name in READINGS:
        for waits, heavy in ((False, False), (False, True), (True, False), (True, True)):
            members = [c for c in found if (c.reading, c.waits, c.heavy) == (name, waits, heavy)]
            if members:
                words = [name, *(["requests wait"] if waits else []), *(["heavy tail"] if heavy else [])]
                lines.append(_row(", ".join(words), members))
    return "\n".join(lines)


def _row(title: str, members: Sequence[Cell]) -> str:
    parts = []
    for size in SIZES:
        of = [c for c in members if c.size == size]
        count = sum(c.windows for c in of)
        if not count:
            parts.append("-")
            continue
        worst = quantile([c.inside / c.windows for c in of], 0.05)
        parts.append(
            f"{100 * sum(c.inside for c in of) / count:.1f} % of {count:,} (5 % of runs below {100 * worst:.0f} %)"
        )
    widths = [c.width for c in members if c.size == 100 and math.isfinite(c.width)]
    width = statistics.median(widths) if widths else math.nan
    shown = "-" if not widths else f"{width:.2f}" if width < 100 else "above 100"
    return f"| {title} | " + " | ".join(parts) + f" | {shown} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=160)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kept", type=Path, nargs="*", default=[], help="cells of earlier runs, to be added")
    parser.add_argument("--keep", type=Path, help="also write every cell, one JSON object a line")
    parser.add_argument("--doc", type=Path, help="put the table between the marks of this file")
    given = parser.parse_args()
    found = [Cell(**json.loads(line)) for path in given.kept for line in path.read_text().splitlines()]
    with ProcessPoolExecutor(given.processes) as pool:
        for some in pool.map(cells, range(FIRST_SEED, FIRST_SEED + given.runs)):
            found += some
            if given.keep is not None:
                with given.keep.open("a", encoding="utf-8") as out:
                    out.writelines(json.dumps(asdict(c)) + "\n" for c in some)
    text = f"{len({c.seed for c in found})} settings, seeds from {FIRST_SEED:,}.\n\n{table(found)}"
    if given.doc is None:
        print(text)
    else:
        put(text, given.doc)


if __name__ == "__main__":
    main()
