"""Answers of a metrics server -> quantities and parts, as ``reduce.py`` makes them of pages."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditor.measures.histogram import make_histogram
from auditor.measures.promql import PIECE, Scope
from auditor.measures.vocabulary import Declaration
from auditor.model import Counter, Gauge, Histogram, Info, Quantity
from auditor.ranges.natives import Flawed, add_histograms, native_histogram
from auditor.sources.prometheus import Answer, Row

SKEW = "engine_skew_in_step"
"""Not declared: largest over mean of the engines in one step, kept beside the quantities of a slice."""
LAYOUTS_DIFFER = "the replicas have different bucket layouts, which are not merged"
ROUNDING = 1e-6
"""VictoriaMetrics keeps 12 to 15 digits of a value, so that a difference of equal sums may be this far below 0."""
EDGES_OF_INTERVALS = 2.2
"""``increase()`` extrapolates by up to 1.1 scrape intervals at either end, differently for each series."""


@dataclass(frozen=True)
class Group:
    """The labels of a row that say which part it belongs to."""

    target: tuple[str, ...] | None
    model: str | None
    rank: str | None


def group_of(row: Row, scope: Scope) -> Group:
    labels = row.labels
    engine = scope.engine
    model = next((labels[k] for k in engine.model_labels if labels.get(k)), None)
    ranks = [labels[k] for k in (*engine.rank_labels, *engine.replica_labels) if labels.get(k, "") != ""]
    target = tuple(labels.get(k, "") for k in scope.target_labels)
    return Group(target if any(target) else None, model, "/".join(ranks) if ranks else None)


def by_group(answer: Answer, scope: Scope) -> dict[Group, list[Row]]:
    out: dict[Group, list[Row]] = defaultdict(list)
    for row in answer.rows:
        out[group_of(row, scope)].append(row)
    return dict(out)


# --------------------------------------------------------------------------- whole ranges


def counter_of(rows: Iterable[Row], declaration: Declaration) -> Counter:
    """A counter by its split label.

    Raises:
        Flawed: NaN or infinite.
    """
    total: list[float] = []
    split: dict[str, float] = {}
    for row in rows:
        value = _finite(row.value, declaration)
        total.append(value)
        if declaration.split:
            label = declaration.split_word(row.labels.get(declaration.split, ""))
            split[label] = split.get(label, 0.0) + value
    return Counter(math.fsum(total), None, None, split)


def histogram_of(
    rows: Iterable[Row], declaration: Declaration, *, rebuilt_sum: bool, slack: float, layouts_differ: bool = False
) -> Histogram:
    """A histogram of bucket, sum and count rows, or of native ones.

    Args:
        slack: share by which increases of one process may contradict each other (extrapolation).

    Raises:
        Flawed: NaN or infinite, or no sum.
    """
    buckets: dict[float, float] = {}
    pieces: dict[str, float] = {}
    native: list[Mapping[str, object]] = []
    for row in rows:
        if row.histograms:
            native += [h for _, h in row.histograms]
        elif "le" in row.labels and PIECE not in row.labels:
            edge = _edge(row.labels["le"])
            # One edge may be written in two ways ("1", "1.0") by different releases.
            buckets[edge] = buckets.get(edge, 0.0) + _finite(row.value, declaration)
        else:
            pieces[row.labels.get(PIECE, "")] = _finite(row.value, declaration)
    if native:
        return add_histograms([native_histogram(h) for h in native])
    flaw = LAYOUTS_DIFFER if layouts_differ else None
    if "sum" not in pieces:
        flaw = flaw or "the metrics server has no sum for it"
    cumulative = settle(buckets, slack)
    count = pieces.get("count")
    if count is not None and buckets and math.isinf(max(buckets)):
        # Two series of one fact: within the slack of extrapolation the buckets' total is it.
        top = cumulative[max(buckets)]
        if abs(top - count) <= slack * max(top, count):
            count = top
    return make_histogram(cumulative, pieces.get("sum", 0.0), count, flaw=flaw, rebuilt_sum=rebuilt_sum)


def settle(cumulative: Mapping[float, float], slack: float) -> dict[float, float]:
    """Cumulative counts that fall by no more than extrapolation explains are lifted to the edge below."""
    out: dict[float, float] = {}
    below = 0.0
    for edge in sorted(cumulative):
        value = cumulative[edge]
        if value < below and below - value <= slack * below:
            value = below
        out[edge] = value
        below = value
    return out


def slack_of(interval_seconds: float, seconds: float) -> float:
    """Share by which two increases over one range may differ for the same events."""
    return min(0.5, EDGES_OF_INTERVALS * interval_seconds / seconds) if seconds > 0 else 0.5


# --------------------------------------------------------------------------- levels and courses


def columns_of(rows: Iterable[Row], times: Sequence[float], declaration: Declaration) -> list[float | None]:
    """A gauge at each moment: rows of a split label combined as declared.

    Raises:
        Flawed: NaN or infinite at some moment.
    """
    columns: dict[float, list[float]] = defaultdict(list)
    for row in rows:
        for at, value in row.points:
            columns[round(at, 3)].append(_finite(value, declaration))
    out: list[float | None] = []
    for at in times:
        values = columns.get(round(at, 3))
        if not values:
            out.append(None)
        elif declaration.across == "sum":
            out.append(math.fsum(values))
        else:
            out.append(max(values) if declaration.across in ("max", "one_of") else math.fsum(values) / len(values))
    return out


def gauge_of(columns: Sequence[float | None], split: Mapping[str, float] | None = None) -> Gauge:
    seen = [v for v in columns if v is not None]
    return Gauge(
        first=columns[0] if columns else None,
        last=columns[-1] if columns else None,
        low=min(seen) if seen else None,
        high=max(seen) if seen else None,
        mean=math.fsum(seen) / len(seen) if seen else None,
        split=dict(split or {}),
    )


def last_by_split(rows: Iterable[Row], end: float, declaration: Declaration) -> dict[str, float]:
    if declaration.split is None:
        return {}
    out: dict[str, float] = {}
    for row in rows:
        if row.points and abs(row.points[-1][0] - end) < 1e-3:
            label = declaration.split_word(row.labels.get(declaration.split, ""))
            out[label] = out.get(label, 0.0) + _finite(row.value, declaration)
    return out


def steps_of(rows: Iterable[Row], times: Sequence[float], declaration: Declaration) -> list[Quantity | None]:
    """A counter, or sum and count of a histogram, in each step; None where the server has nothing."""
    at: dict[float, list[tuple[Row, float]]] = defaultdict(list)
    native: dict[float, list[Mapping[str, object]]] = defaultdict(list)
    for row in rows:
        for moment, value in row.points:
            if math.isfinite(value):
                at[round(moment, 3)].append((row, value))
        for moment, raw in row.histograms:
            native[round(moment, 3)].append(raw)
    out: list[Quantity | None] = []
    for moment in times:
        key = round(moment, 3)
        if key in native:
            out.append(add_histograms([native_histogram(h) for h in native[key]]))
        elif key not in at:
            out.append(None)
        elif declaration.kind == "counter":
            rows_now = [Row(row.labels, ((moment, value),)) for row, value in at[key]]
            out.append(counter_of(rows_now, declaration))
        else:
            pieces = {row.labels.get(PIECE, ""): value for row, value in at[key]}
            flaw = "the course of a range has no buckets"
            out.append(Histogram((), (), pieces.get("sum", 0.0), pieces.get("count", 0.0), flaw))
    return out


# --------------------------------------------------------------------------- labels


def infos_of(rows: Iterable[Row], scope: Scope) -> Info:
    """The configuration labels of one engine, each distinct copy once."""
    keys = {name for names in scope.engine.config_labels.values() for name in names}
    found: list[Mapping[str, str]] = []
    for row in rows:
        labels = {k: v for k, v in row.labels.items() if k in keys and v != ""}
        if labels and labels not in found:
            found.append(labels)
    return Info(tuple(found))


def layouts(answers: Iterable[Answer], scope: Scope) -> set[tuple[str, Group]]:
    """(bucket series name, group) of histograms whose replicas have different edges."""
    counts: dict[tuple[str, Group], dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for answer in answers:
        for row in answer.rows:
            edge = _edge(row.labels.get("le", ""))
            counts[(row.labels.get("__name__", ""), group_of(row, scope))][edge] += row.value
    return {key for key, edges in counts.items() if len(set(edges.values())) > 1}


def _edge(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Flawed(f"a bucket has the edge {text!r}, which is no number") from None


def _finite(value: float, declaration: Declaration) -> float:
    if math.isnan(value):
        raise Flawed(f"{declaration.series[0]} is NaN at the metrics server")
    if math.isinf(value):
        raise Flawed(f"{declaration.series[0]} is infinite at the metrics server")
    if value < 0 and declaration.kind in ("counter", "histogram"):
        if value > -ROUNDING:
            return 0.0
        raise Flawed(f"{declaration.series[0]} goes below 0 at the metrics server ({value:g})")
    return value
