"""Fits the margins in auditor/measures/ceilings/coefficients.py to simulated windows.

``python -m tests.ceilings.fit`` draws the fit set (its seeds are used nowhere else), fits, and writes the file. It
takes about half an hour on two cores and needs scipy. Nonnegative quantile regression of the logarithm of
(true speed-up / baseline's speed-up) for each kind of page and each end, then a conformal shift out of two folds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from auditor.measures.ceilings.baseline import find_baseline
from auditor.measures.ceilings.coefficients import Margins
from auditor.measures.ceilings.evidence import Evidence
from auditor.measures.ceilings.lulls import lull_base
from auditor.measures.ceilings.ranges import MOST_LOG, kind_of, terms
from auditor.measures.readings.stretch import gather
from auditor.measures.subject import Missing
from tests.ceilings.cases import known_settings, subject_of
from tests.simulator import Priors, VllmSetting, counterfactual, random_setting, simulate, speedup, true_values
from tests.simulator.layouts import finer

EngineName = Literal["vllm", "sglang"]
ALONE: tuple[str, int, int, Priors] = ("prefill alone", 8_000_000, 800, Priors())
FIT_SETS: tuple[tuple[str, int, int, Priors], ...] = (
    ("default", 1_000_000, 4200, Priors()),
    ("wide", 2_000_000, 4200, Priors(base_seconds=(0.0002, 0.4))),
    ("short steps", 2_500_000, 1400, Priors(base_seconds=(0.0004, 0.012))),
    ("speculation", 3_000_000, 1200, Priors(speculation_share=1.0)),
)
"""Name, first seed, number, priors. The cost law ``graphs``, and coarser buckets are in none of them."""
LULL_SEEDS = (6_000_000, 1600)
MOST_PREEMPTED = 0.01
LEAST_FINISHED = 30
LEAST_ROWS = 150
KINDS = ("counted", "valley", "short valley", "first", "crowded", "covered", "first crowded")
WITH_UPPER = KINDS[:4]
TERMS = (
    "1", "log(gap/base)", "1 - v", "log(base/least)", "log(most/base)", "log(base/lowest)", "own gaps", "P/W",
    "(1 - v) P/W", "drafts",
)  # fmt: skip
LEVELS = {"99": (0.9965, 0.9965), "95": (0.985, 0.985)}
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


def draw(job: tuple[int, Priors, EngineName]) -> list[Row]:
    """Rows of one seed: the engine's own buckets, and finer ones."""
    seed, priors, engine = job
    scenario = random_setting(seed, priors, engine=engine)
    run = simulate(scenario.setting, scenario.workload)
    window = scenario.window(run)
    truth = true_values(run, window)
    if truth.finished < LEAST_FINISHED or truth.preemptions > MOST_PREEMPTED * truth.finished or truth.gaps <= 0:
        return []
    gained = speedup(run, counterfactual("free_prefill", scenario.setting, scenario.workload), window)
    settings = known_settings(run)
    chunk = chunk_of(run.setting)
    out: list[Row] = []
    for layout in (scenario.layout, finer(scenario.layout)):
        try:
            out += rows_of(gather(subject_of(run, window, layout, settings)), chunk, gained)
        except Missing:
            continue
    return out


def chunk_of(setting: Any) -> float:
    """Most prompt tokens of one request in a step."""
    if isinstance(setting, VllmSetting):
        return min(setting.budget, setting.threshold or math.inf)
    return float(setting.chunk)


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


def fit(rows: Sequence[Row]) -> dict[str, dict[str, Margins]]:
    """Margins by class and kind."""
    order = np.random.default_rng(1).permutation(len(rows))
    shuffled = [rows[i] for i in order]
    out: dict[str, dict[str, Margins]] = {}
    for level, (low, high) in LEVELS.items():
        out[level] = {}
        for kind in KINDS:
            members = [r for r in shuffled if r.kind == kind]
            x, y = np.array([r.terms for r in members]), np.array([r.error for r in members])
            upper = conformal_fit(x, y, high) if kind in WITH_UPPER else None
            out[level][kind] = (conformal_fit(x, -y, low), upper)
    return out


def shift(shared: Mapping[str, Mapping[str, Margins]], rows: Sequence[Row]) -> dict[str, dict[str, Margins]]:
    """The same margins with each constant raised until other rows are covered (kinds with few rows: by all rows)."""
    out: dict[str, dict[str, Margins]] = {}
    for level, (low_level, high_level) in LEVELS.items():
        out[level] = {}
        for kind, (low, high) in shared[level].items():
            own = [r for r in rows if r.kind == kind]
            for_low = own if len(own) >= LEAST_ROWS else [r for r in rows if r.kind in shared[level]]
            for_high = own if len(own) >= LEAST_ROWS else [r for r in rows if r.kind in WITH_UPPER]
            low_by = _excess([-r.error - _dot(shared[level][r.kind][0], r.terms) for r in for_low], low_level)
            high_by = _excess(
                [r.error - _dot(shared[level][r.kind][1] or (), r.terms) for r in for_high if r.kind in WITH_UPPER],
                high_level,
            )
            out[level][kind] = (
                (low[0] + low_by, *low[1:]),
                None if high is None else (high[0] + high_by, *high[1:]),
            )
    return out


def _dot(coefficients: Sequence[float], values: Sequence[float]) -> float:
    return sum(c * v for c, v in zip(coefficients, values, strict=True))


def _excess(left: Sequence[float], level: float) -> float:
    """Conformal quantile of what margins leave uncovered, at least 0."""
    listed = sorted(left)
    return max(0.0, listed[min(len(listed) - 1, math.ceil((len(listed) + 1) * level) - 1)]) if listed else 0.0


def draw_lulls(seed: int) -> list[Row]:
    """Rows of one seed seen over 60 and 240 scrapes, where the series has lulls."""
    priors = FIT_SETS[0][3] if seed % 2 == 0 else FIT_SETS[1][3]
    scenario = random_setting(seed, priors)
    run = simulate(scenario.setting, scenario.workload)
    start, end = scenario.window(run)
    truth = true_values(run, (start, end))
    if truth.finished < LEAST_FINISHED or truth.preemptions > MOST_PREEMPTED * truth.finished or truth.gaps <= 0:
        return []
    out: list[Row] = []
    gained = math.nan
    for scrapes in (60, 240):
        times = [float(t) for t in np.linspace(start, end, scrapes + 1)]
        subject = subject_of(run, times, scenario.layout, known_settings(run))
        e = gather(subject)
        found = lull_base(subject, e.longest_prefill_seconds)
        if found is None or e.gaps is None:
            continue
        if math.isnan(gained):
            gained = speedup(run, counterfactual("free_prefill", scenario.setting, scenario.workload), (start, end))
        exact = min(found[0], e.mean_gap)
        base = find_baseline(e, chunk_of(run.setting))
        base = replace(base, seconds=exact, low_seconds=exact, least_seconds=exact, most_seconds=exact)
        to_base = min(MOST_LOG, math.log(e.mean_gap / exact))
        centre = math.log(e.service_seconds / (e.mean_gap * e.outputs)) + to_base
        out.append(Row("lulls", terms(e, base), math.log(max(1.0, gained)) - centre))
    return out


def fit_lulls(rows: Sequence[Row]) -> tuple[Any, Any]:
    """Margins of both classes for a baseline out of lulls."""
    order = np.random.default_rng(1).permutation(len(rows))
    x, y = np.array([rows[i].terms for i in order]), np.array([rows[i].error for i in order])
    wide, narrow = ((conformal_fit(x, -y, level), conformal_fit(x, y, level)) for level in (0.998, 0.985))
    return wide, narrow


def spell(margins: tuple[Iterable[float], Iterable[float] | None]) -> str:
    """One entry of the file. Rounded up: never narrower than what was fitted."""

    def numbers(values: Iterable[float]) -> str:
        return "(" + ", ".join(f"{math.ceil(v * 1000 - 1e-6) / 1000:g}" for v in values) + ")"

    low, high = margins
    return f"(\n        {numbers(low)},\n        {'None' if high is None else numbers(high)},\n    )"


HEAD = '''"""Calibrated margins on the logarithm of the speed-up, made by ``python -m tests.ceilings.fit``, not by hand.

Each entry is (low end, high end), one coefficient for each of TERMS; None where nothing bounds above.
"""

from __future__ import annotations

Margins = tuple[tuple[float, ...], tuple[float, ...] | None]

'''
LULLS = "LULLS_99: Margins = {}\nLULLS_95: Margins = {}\n"


def write(shared: Any, alone: Any, lulls: tuple[Any, Any], path: Path) -> None:
    """Write coefficients.py."""
    text = HEAD + "TERMS = (\n" + "".join(f'    "{t}",\n' for t in TERMS) + ")\n\n"
    for prefix, found in (("AT", shared), ("ALONE", alone)):
        for level, table in found.items():
            entries = "".join(f'    "{kind}": {spell(m)},\n' for kind, m in table.items())
            text += f"{prefix}_{level}: dict[str, Margins] = {{\n{entries}}}\n"
    text += "\n# The baseline is read off moments without prompts in a series of scrapes; only the high end is used.\n"
    text += LULLS.format(*(spell(m) for m in lulls))
    path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("auditor/measures/ceilings/coefficients.py"))
    given = parser.parse_args()

    def rows_of_sets(sets: Iterable[tuple[str, int, int, Priors]], engine: EngineName) -> list[Row]:
        jobs = [(first + i, priors, engine) for _, first, count, priors in sets for i in range(count)]
        return [row for found in pool.map(draw, jobs, chunksize=20) for row in found]

    with ProcessPoolExecutor(given.processes) as pool:
        shared, alone = rows_of_sets(FIT_SETS, "vllm"), rows_of_sets((ALONE,), "sglang")
        quiet = list(pool.map(draw_lulls, range(LULL_SEEDS[0], LULL_SEEDS[0] + LULL_SEEDS[1]), chunksize=20))
    lulls = fit_lulls([row for found in quiet for row in found])
    found = fit(shared)
    write(found, shift(found, alone), lulls, given.out)


if __name__ == "__main__":
    main()
