"""The two readers of one declaration agree: rendered queries on real servers against ``reduce.py`` on the same samples.

The servers are those of the machine (Debian 12 has Prometheus 2.42.0 and VictoriaMetrics 1.79.5).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from auditor.measures.merging import merge_quantities
from auditor.measures.reduce import reduce_target
from auditor.measures.vocabulary import Vocabulary
from auditor.model import Counter, Gauge, Histogram, Info, Options, Page, Part, Quantity, TargetWindow, Window
from auditor.pipeline import audit_window
from auditor.sources.exposition import parse_page
from tests.metrics_server.conftest import Gather, readings_of
from tests.metrics_server.samples import (
    END,
    FIXTURES,
    Replica,
    direct_target,
    restart_pages,
    series_pages,
    store_pages,
)
from tests.metrics_server.servers import Store, both
from tests.simulator import even_times, page_text, random_setting, simulate, snapshots

pytestmark = pytest.mark.live
SERVERS = list(both())
NO_RATIO_OF_INCREASES = {
    "kv_usage", "kv_usage_max", "kv_usage_peak",  # levels
    "unmatched_first_token_share", "unfinished_prompt_share",  # differences of nearly equal numbers
    "naive_rate_error",  # holds an increase against the length of the window
}  # fmt: skip


def pooled(window: Window) -> Part:
    return next(p for t in window.targets for p in t.parts if p.pooled)


def numbers(quantity: Quantity) -> dict[str, float | None]:
    """Every number of a quantity that both readers must agree on."""
    if isinstance(quantity, Counter):
        return {"increase": quantity.increase, **{f"split {k}": v for k, v in quantity.split.items()}}
    if isinstance(quantity, Histogram):
        buckets = zip(quantity.edges, quantity.counts, strict=True)
        return {"sum": quantity.sum, "count": quantity.count, **{f"le {e:g}": n for e, n in buckets}}
    if isinstance(quantity, Gauge):
        return {k: getattr(quantity, k) for k in ("first", "last", "low", "high")}
    return {}


def window_of(target: TargetWindow, seconds: float, end: float) -> Window:
    return Window("series", end - seconds, end, seconds, (target,))


@pytest.fixture(scope="module")
def pages(vocabulary: Vocabulary) -> list[tuple[float, Page]]:
    return series_pages(vocabulary)


@pytest.fixture(scope="module", params=SERVERS)
def series_server(request: pytest.FixtureRequest, pages: list[tuple[float, Page]]) -> Iterator[str]:
    with both()[request.param](store_pages(pages, job="vllm", instance="a:8000")) as url:
        yield url


def test_every_quantity_of_the_captured_series(
    series_server: str, pages: list[tuple[float, Page]], vocabulary: Vocabulary, gather: Gather
) -> None:
    """The window begins and ends at a scrape, so nothing is extrapolated: equal up to the servers' own rounding."""
    end, seconds = pages[-1][0], pages[-1][0] - pages[0][0]
    ranged = pooled(gather(series_server, seconds, end)).quantities
    (direct,) = reduce_target(direct_target(pages, vocabulary, "a:8000"), vocabulary.engine("vllm"))
    kinds = {n: q for n, q in direct.quantities.items() if not isinstance(q, Info)}
    assert set(kinds) == set(ranged)
    assert sum(isinstance(q, Histogram) for q in kinds.values()) >= 15
    for name, quantity in kinds.items():
        expected, found = numbers(quantity), numbers(ranged[name])
        assert set(expected) == set(found), name
        for key, value in expected.items():
            if isinstance(quantity, Gauge) and key in ("low", "high"):
                continue
            # VictoriaMetrics keeps 12 to 15 decimal digits of a float.
            assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-9), (name, key)


def test_gauge_peaks_lie_within_the_looks_taken(
    series_server: str, pages: list[tuple[float, Page]], vocabulary: Vocabulary, gather: Gather
) -> None:
    """A range looks at a gauge at fixed moments, the page reader at every scrape: no peak may exceed the true one."""
    end, seconds = pages[-1][0], pages[-1][0] - pages[0][0]
    ranged = pooled(gather(series_server, seconds, end)).quantities
    (direct,) = reduce_target(direct_target(pages, vocabulary, "a:8000"), vocabulary.engine("vllm"))
    for name in ("running_requests", "waiting_requests", "kv_usage"):
        true, seen = direct.quantities[name], ranged[name]
        assert isinstance(true, Gauge)
        assert isinstance(seen, Gauge)
        assert None not in (true.low, true.high, seen.low, seen.high, true.mean, seen.mean)
        assert true.low <= seen.low <= seen.high <= true.high  # type: ignore[operator]
        assert seen.mean == pytest.approx(true.mean, rel=0.05, abs=0.1)
    detail = next(p for w in [gather(series_server, seconds, end)] for t in w.targets for p in t.parts if not p.pooled)
    peak, usage = detail.quantities["kv_usage"], direct.quantities["kv_usage"]
    assert isinstance(peak, Gauge)
    assert isinstance(usage, Gauge)
    # By engine the peak is max_over_time(), which sees every stored sample.
    assert peak.high == pytest.approx(usage.high, rel=1e-9)


def test_every_quantity_of_an_unaligned_window(
    series_server: str, pages: list[tuple[float, Page]], vocabulary: Vocabulary, gather: Gather
) -> None:
    """A window that begins and ends between scrapes: within the events of one interval and the extrapolation."""
    end = pages[-3][0] + 0.7
    seconds = end - (pages[4][0] - 0.9)
    inside = [(at, page) for at, page in pages if end - seconds <= at <= end]
    covered = inside[-1][0] - inside[0][0]
    ranged = pooled(gather(series_server, seconds, end)).quantities
    (direct,) = reduce_target(direct_target(inside, vocabulary, "a:8000"), vocabulary.engine("vllm"))
    (around,) = reduce_target(direct_target(pages[3:-2], vocabulary, "a:8000"), vocabulary.engine("vllm"))
    extrapolated = seconds / covered - 1
    assert 0 < extrapolated < 2.1 / covered
    compared = 0
    for name, quantity in direct.quantities.items():
        if isinstance(quantity, Gauge | Info):
            continue
        wide = numbers(around.quantities[name])
        for key, value in numbers(quantity).items():
            found = numbers(ranged[name])[key]
            assert value is not None
            assert found is not None
            one_interval = (wide[key] or 0.0) - value
            tolerance = value * extrapolated + max(0.0, one_interval) + 1e-6
            assert abs(found - value) <= tolerance, (name, key, found, value)
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("cut", [0, 3, 11])
def test_ratios_agree_to_one_percent(
    series_server: str, pages: list[tuple[float, Page]], vocabulary: Vocabulary, gather: Gather, cut: int
) -> None:
    end = pages[-1][0] + 1.3
    seconds = end - pages[cut][0] + 0.5
    window = gather(series_server, seconds, end)
    ranged = readings_of(window)
    # VictoriaMetrics counts from the last sample before the window, Prometheus from the first one inside.
    inside = pages[max(0, cut - 1) if window.source.startswith("Victoria") else cut :]
    direct = readings_of(window_of(direct_target(inside, vocabulary, "a:8000"), seconds, end))
    ratios = [n for n, r in direct.items() if r["value"] and (r["unit"] == "ratio" or n.startswith("mean_"))]
    assert {"prefill_share", "decode_share", "queue_share", "length_share"} <= set(ratios)
    for name in ratios:
        if name in NO_RATIO_OF_INCREASES:
            continue
        assert ranged[name]["value"] == pytest.approx(direct[name]["value"], rel=0.01), name


def test_estimates_say_that_they_are(series_server: str, pages: list[tuple[float, Page]], gather: Gather) -> None:
    readings = readings_of(gather(series_server, 100.0, pages[-1][0]))
    assert any("estimate" in c for c in readings["finished_requests"]["caveats"])


def test_exact_is_the_direct_path(
    series_server: str, pages: list[tuple[float, Page]], vocabulary: Vocabulary, gather: Gather
) -> None:
    end, seconds = pages[-1][0], pages[-1][0] - pages[0][0]
    window = gather(series_server, seconds, end, exact=True)
    (direct,) = reduce_target(direct_target(pages, vocabulary, "a:8000"), vocabulary.engine("vllm"))
    (exact,) = reduce_target(window.targets[0], vocabulary.engine("vllm"))
    for name, quantity in direct.quantities.items():
        if isinstance(quantity, Info):
            continue
        found = numbers(exact.quantities[name])
        for key, value in numbers(quantity).items():
            assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-9), (name, key)
    assert window.seconds == pytest.approx(seconds)
    assert not any("estimate" in c for c in readings_of(window)["finished_requests"]["caveats"])


# --------------------------------------------------------------------------- a simulated fleet


@pytest.mark.parametrize("name", SERVERS)
def test_a_simulated_fleet(name: str, vocabulary: Vocabulary, gather: Gather) -> None:
    """Three replicas with different loads; every reading of the sum against the pages of all three."""
    store = Store()
    targets = []
    for i, seed in enumerate((7, 8, 11)):
        scenario = random_setting(seed)
        run = simulate(scenario.setting, scenario.workload)
        shots = snapshots(run, even_times(run, 60), layout=scenario.layout)
        address = f"r{i}:8000"
        pages = [
            (END - 15.0 * (59 - k), parse_page(page_text(shot).encode(), wanted=vocabulary.wanted))
            for k, shot in enumerate(shots)
        ]
        store.series.update(store_pages(pages, job="vllm", instance=address).series)
        targets.append(direct_target(pages, vocabulary, address))
    with both()[name](store) as url:
        ranged = gather(url, 15.0 * 59, END, by="all")
    engine = vocabulary.engine("vllm")
    parts = [p for t in targets for p in reduce_target(t, engine)]
    assert len(parts) == 3
    total = pooled(ranged)
    compared = 0
    for quantity, declaration in engine.quantities.items():
        found = [p.quantities[quantity] for p in parts if quantity in p.quantities]
        if not found or isinstance(found[0], Gauge | Info):
            continue
        direct = merge_quantities(found, declaration)
        expected, got = numbers(direct), numbers(total.quantities[quantity])
        if not isinstance(direct, Histogram) or not direct.flaw:
            assert set(expected) == set(got), quantity
        for key, value in expected.items():
            if key.startswith("le ") and isinstance(direct, Histogram) and direct.flaw:
                continue
            assert got[key] == pytest.approx(value, rel=1e-9, abs=1e-6), (quantity, key)
            compared += 1
    assert compared > 200


# --------------------------------------------------------------------------- a restart


@pytest.mark.parametrize("name", SERVERS)
def test_a_restart_resets_a_process_in_ours_and_single_series_in_increase(
    name: str, vocabulary: Vocabulary, gather: Gather
) -> None:
    """f-restart: what the second life counted above the first life's end, increase() takes for plain growth."""
    pages = restart_pages(vocabulary)
    (direct,) = reduce_target(direct_target(pages, vocabulary, "a:8000"), vocabulary.engine("vllm"))
    with both()[name](store_pages(pages, job="vllm", instance="a:8000")) as url:
        ranged = gather(url, 30.0, END)
        exact = gather(url, 30.0, END, exact=True)
    assert ranged.restarts == exact.restarts == 1
    quantities = pooled(ranged).quantities
    # A counter that fell: both add the first life's increase and all of the second life.
    assert numbers(quantities["generation_tokens"]) == pytest.approx(numbers(direct.quantities["generation_tokens"]))
    # Steps of one token stood at 21, 149 and, after the restart, at 168: ours is (149 - 21) + 168.
    # increase() sees no fall and says (149 - 21) + (168 - 149).
    assert numbers(direct.quantities["step_tokens"])["le 1"] == 296
    assert numbers(quantities["step_tokens"])["le 1"] == pytest.approx(147)
    # First tokens within 10 ms: 0, 3 and then 4 (of which 0, 0 and 2 within 5 ms).
    assert _at_most(direct.quantities["ttft_seconds"], 0.01) == 7
    assert _at_most(quantities["ttft_seconds"], 0.01) == pytest.approx(4)
    # Raw samples give the one answer that a page reader gives.
    (again,) = reduce_target(exact.targets[0], vocabulary.engine("vllm"))
    for quantity, found in direct.quantities.items():
        if not isinstance(found, Info):
            expected = {k: v for k, v in numbers(found).items() if v is not None}
            got = {k: v for k, v in numbers(again.quantities[quantity]).items() if v is not None}
            assert got == pytest.approx(expected, rel=1e-9, abs=1e-9), quantity


def _at_most(quantity: Quantity, edge: float) -> float:
    assert isinstance(quantity, Histogram)
    return sum(n for e, n in zip(quantity.edges, quantity.counts, strict=True) if e <= edge)


# --------------------------------------------------------------------------- case 18


@pytest.mark.parametrize("name", SERVERS)
def test_case_18_two_events_are_two(name: str, gather: Gather) -> None:
    case = FIXTURES / "cases/18-increase-is-not-integer"
    recorded = json.loads((case / "input.json").read_text())
    values = [(float(at), float(v)) for at, v in recorded["data"]["result"][0]["values"]]
    end = float(recorded["eval_time"])
    store = Store()
    labels = {"job": "api", "instance": "target:8080", "engine": "0", "model_name": "m"}
    store.add("vllm:generation_tokens_total", labels, values)
    with both()[name](store) as url:
        estimated = gather(url, 150.0, end)
        exact = gather(url, 150.0, end, exact=True)
    increase = readings_of(estimated)["generation_tokens"]["value"]
    # Prometheus: 2 * 150 / 135. VictoriaMetrics counts from the sample before the window and does not extrapolate.
    assert increase == pytest.approx(2.2222 if name == "prometheus" else 2.0, abs=5e-5)
    readings = readings_of(exact)
    assert readings["generation_tokens"]["value"] == 2
    assert exact.seconds == pytest.approx(135.0)
    assert readings["generation_tokens_per_wall_second"]["value"] == pytest.approx(0.014815, abs=5e-7)
    assert exact.coverage == pytest.approx(135 / 150)
    assert any("135 s of the 150 s" in w for w in exact.warnings)


def test_the_report_of_a_range_is_a_report(series_server: str, pages: list[tuple[float, Page]], gather: Gather) -> None:
    window = gather(series_server, 170.0, pages[-1][0])
    report = audit_window(window, Options()).to_json()
    assert report["window"]["kind"] == "range"
    assert report["exit_code"] == 0
    course = report["course"]
    assert len(course["times"]) == 17
    shares = [v for v in course["readings"]["prefill_share"] if v is not None]
    assert len(shares) > 10
    assert course["summary"]["busiest_step"]["generation_tokens"] > 0
    assert Replica.PROMPT == 100


# --------------------------------------------------------------------------- other engines, forms and layouts

PAIRS = {
    "vllm": (
        "vllm/0.11.0/c-shared-prefix",
        "vllm/0.32.0/g-data-parallel-2",
        "vllm/0.32.0/g-api-servers-2",
        "vllm/0.32.0/h-spec-ngram",
        "vllm/0.32.0/n-mfu",
    ),
    "sglang": (
        "sglang/0.5.23/mixed",
        "sglang/0.5.23/retracted",
        "sglang/0.5.23/n4-parallel",
        "sglang/0.5.23-dp2/mixed-dp2-priority",
    ),
    "llamacpp": ("llamacpp/11434/mixed", "llamacpp/11434/prefix-hit"),
}
"""Captures of two pages; each is loaded as one target of one server, so releases and layouts are mixed."""


def pair_targets(names: tuple[str, ...], vocabulary: Vocabulary) -> tuple[Store, dict[str, TargetWindow]]:
    store, targets = Store(), {}
    for name in names:
        address = f"{name.rpartition('/')[2]}:8000"
        # The first page twice: a window needs a sample before what happens in it.
        texts = [(FIXTURES / name / f"{which}.prom").read_bytes() for which in ("before", "before", "after")]
        pages = [(END - 30.0 + 15.0 * i, parse_page(t, wanted=vocabulary.wanted)) for i, t in enumerate(texts)]
        store.series.update(store_pages(pages, job="engines", instance=address).series)
        targets[address] = direct_target(pages, vocabulary, address)
    return store, targets


@pytest.mark.parametrize("engine", list(PAIRS))
@pytest.mark.parametrize("name", SERVERS)
def test_releases_ranks_and_front_ends(name: str, engine: str, vocabulary: Vocabulary, gather: Gather) -> None:
    """By engine: every number of every quantity, whatever labels, copies and processes the page has."""
    store, targets = pair_targets(PAIRS[engine], vocabulary)
    with both()[name](store) as url:
        window = gather(url, 30.0, END, by="rank")
    compared = 0
    for address, target in targets.items():
        ranged = {(p.model, p.rank): p for t in window.targets if t.address == address for p in t.parts}
        direct = reduce_target(target, vocabulary.engine(engine))
        assert set(ranged) == {(p.model, p.rank) for p in direct}
        for part in direct:
            other = ranged[part.model, part.rank]
            for quantity, found in part.quantities.items():
                if isinstance(found, Info):
                    continue
                expected, got = numbers(found), numbers(other.quantities[quantity])
                for key, value in expected.items():
                    if isinstance(found, Gauge) and key in ("low", "high"):
                        continue
                    where = (address, part.rank, quantity, key)
                    if value is None:
                        assert got[key] is None, where
                        continue
                    assert got[key] == pytest.approx(value, rel=1e-9, abs=1e-6), where
                    compared += 1
    assert compared > 40 * len(targets) if engine != "llamacpp" else compared > 10
