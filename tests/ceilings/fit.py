"""Fits the margins in auditor/measures/ceilings/coefficients.py to simulated windows.

``python -m tests.ceilings.fit`` draws the fit set (its seeds are used nowhere else), fits, and writes the file. It
takes about half an hour on two cores and needs scipy. Nonnegative quantile regression of the logarithm of
(true speed-up / baseline's speed-up) for each kind of page and each end, then a conformal shift out of two folds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from auditor.measures.ceilings.baseline import find_baseline
from auditor.measures.ceilings.evidence import Evidence
from auditor.measures.ceilings.ranges import MOST_LOG, kind_of, terms
from auditor.measures.readings.stretch import gather
from auditor.measures.subject import Missing
from tests.ceilings.cases import known_settings, subject_of
from tests.simulator import Priors, counterfactual, random_setting, simulate, speedup, true_values
from tests.simulator.layouts import finer

FIT_SETS: tuple[tuple[str, int, int, Priors], ...] = (
    ("default", 1_000_000, 4200, Priors()),
    ("wide", 2_000_000, 4200, Priors(base_seconds=(0.0002, 0.4))),
    ("short steps", 2_500_000, 3500, Priors(base_seconds=(0.0004, 0.012))),
)
"""Name, first seed, number, priors. The cost law ``graphs``, coarser buckets and speculation are in none of them."""
MOST_PREEMPTED = 0.01
LEAST_FINISHED = 30
KINDS = ("counted", "valley", "first", "crowded", "covered", "first crowded")
WITH_UPPER = KINDS[:3]
TERMS = (
    "1", "log(gap/base)", "1 - v", "log(base/least)", "log(most/base)", "log(base/lowest)", "own gaps", "P/W",
    "(1 - v) P/W",
)  # fmt: skip
LEVELS = {"99": (0.996, 0.996), "95": (0.985, 0.985)}
"""Of each end: the two together miss a little less than the class allows."""


@dataclass(frozen=True)
class Row:
    """One simulated window: what the margins are made of, and the logarithm that they must cover."""

    kind: str
    terms: tuple[float, ...]
    error: float
    """log(true speed-up) - log(speed-up by the baseline)."""


def rows_of(e: Evidence, chunk: float, truth: float) -> list[Row]:
    """The row of a window, as far as it has gaps."""
    if e.gaps is None or e.own_gaps <= 0 or not math.isfinite(truth):
        return []
    base = find_baseline(e, chunk)
    to_base = min(MOST_LOG, max(0.0, math.log(e.mean_gap / base.seconds)))
    centre = math.log(e.service_seconds / (e.mean_gap * e.outputs)) + to_base
    return [Row(kind_of(base), terms(e, base), math.log(max(1.0, truth)) - centre)]


def draw(job: tuple[int, Priors]) -> list[Row]:
    """Rows of one seed: the engine's own buckets, and finer ones."""
    seed, priors = job
    scenario = random_setting(seed, priors)
    run = simulate(scenario.setting, scenario.workload)
    window = scenario.window(run)
    truth = true_values(run, window)
    if truth.finished < LEAST_FINISHED or truth.preemptions > MOST_PREEMPTED * truth.finished or truth.gaps <= 0:
        return []
    gained = speedup(run, counterfactual("free_prefill", scenario.setting, scenario.workload), window)
    settings = known_settings(run)
    chunk = min(run.setting.budget, run.setting.threshold or math.inf)
    out: list[Row] = []
    for layout in (scenario.layout, finer(scenario.layout)):
        try:
            out += rows_of(gather(subject_of(run, window, layout, settings)), chunk, gained)
        except Missing:
            continue
    return out


def quantile_fit(x: Any, y: Any, level: float) -> Any:
    """Nonnegative coefficients b with y <= x b for the share ``level`` of rows (Koenker and Bassett 1978)."""
    import scipy.sparse
    from scipy.optimize import linprog

    n, p = x.shape
    cost = np.concatenate([np.zeros(p), np.full(n, level), np.full(n, 1 - level)])
    balance = scipy.sparse.hstack([scipy.sparse.csr_matrix(x), scipy.sparse.eye(n), -scipy.sparse.eye(n)])
    return linprog(cost, A_eq=balance, b_eq=y, bounds=(0, None), method="highs").x[:p]


def conformal_fit(x: Any, y: Any, level: float) -> tuple[float, ...]:
    """The fit on all rows, its constant raised until rows outside the fit of the other fold are covered as well."""
    n = len(y)
    fold = np.arange(n) % 2
    left = np.empty(n)
    for half in (0, 1):
        inside = fold == half
        left[inside] = y[inside] - x[inside] @ quantile_fit(x[~inside], y[~inside], level)
    shift = float(np.sort(left)[min(n - 1, math.ceil((n + 1) * level) - 1)])
    out = quantile_fit(x, y, level)
    out[0] += max(0.0, shift)
    return tuple(float(v) for v in out)


def fit(rows: Sequence[Row]) -> dict[str, dict[str, tuple[tuple[float, ...], tuple[float, ...] | None]]]:
    """Margins by class and kind."""
    order = np.random.default_rng(1).permutation(len(rows))
    shuffled = [rows[i] for i in order]
    out: dict[str, dict[str, tuple[tuple[float, ...], tuple[float, ...] | None]]] = {}
    for level, (low, high) in LEVELS.items():
        out[level] = {}
        for kind in KINDS:
            members = [r for r in shuffled if r.kind == kind]
            x, y = np.array([r.terms for r in members]), np.array([r.error for r in members])
            upper = conformal_fit(x, y, high) if kind in WITH_UPPER else None
            out[level][kind] = (conformal_fit(x, -y, low), upper)
    return out


def spell(margins: tuple[Iterable[float], Iterable[float] | None]) -> str:
    """One entry of the file. Rounded up: never narrower than what was fitted."""

    def numbers(values: Iterable[float]) -> str:
        return "(" + ", ".join(f"{math.ceil(v * 1000 - 1e-6) / 1000:g}" for v in values) + ")"

    low, high = margins
    return f"({numbers(low)}, {'None' if high is None else numbers(high)})"


HEAD = '''"""Calibrated margins, on the logarithm of the speed-up; made by ``python -m tests.ceilings.fit``, not by hand.

Each entry is (low end, high end), one coefficient for each of TERMS; None where nothing bounds above.
"""

from __future__ import annotations

Margins = tuple[tuple[float, ...], tuple[float, ...] | None]

'''
LULLS = "LULLS_99: Margins = {}\nLULLS_95: Margins = {}\n"


def write(found: Any, lulls: tuple[Any, Any], path: Path) -> None:
    """Write coefficients.py."""
    text = HEAD + "TERMS = (\n" + "".join(f'    "{t}",\n' for t in TERMS) + ")\n\n"
    for level, table in found.items():
        entries = "".join(f'    "{kind}": {spell(m)},\n' for kind, m in table.items())
        text += f"AT_{level}: dict[str, Margins] = {{\n{entries}}}\n"
    text += '\n# The baseline is read off moments without prompts in a series of scrapes.\n'
    text += LULLS.format(*(spell(m) for m in lulls))
    path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("auditor/measures/ceilings/coefficients.py"))
    given = parser.parse_args()
    jobs = [(first + i, priors) for _, first, count, priors in FIT_SETS for i in range(count)]
    with ProcessPoolExecutor(given.processes) as pool:
        rows = [row for found in pool.map(draw, jobs, chunksize=20) for row in found]
    from auditor.measures.ceilings.coefficients import LULLS_95, LULLS_99

    write(fit(rows), (LULLS_99, LULLS_95), given.out)


if __name__ == "__main__":
    main()
