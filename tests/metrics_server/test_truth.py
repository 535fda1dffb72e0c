"""What a window of the past is worth: newcomers, restarts, gaps, copies, limits; on real servers, by construction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auditor.measures.readings.step_facts import died_inside
from auditor.model import Options, UsageError, Window
from auditor.pipeline import audit_window, build_subjects
from tests.metrics_server.conftest import Gather, readings_of
from tests.metrics_server.samples import END, Replica
from tests.metrics_server.servers import Server, Store, both, prometheus, victoria_metrics

pytestmark = pytest.mark.live
START = END - 3600.0
LONG_AGO = START - 90_000.0
TOLERANCE = {"prometheus": 3.1, "victoria-metrics": 1e-6}
"""Prometheus extrapolates by up to an interval (3 requests) for each series that begins inside the window."""


@pytest.fixture(scope="module", params=list(both()))
def server(request: pytest.FixtureRequest) -> tuple[str, Server]:
    return request.param, both()[request.param]


def value(window: Window, reading: str, **options: str) -> float:
    found = readings_of(window, **options)[reading]["value"]
    assert isinstance(found, float)
    return found


@pytest.fixture(scope="module")
def fleet(server: tuple[str, Server]) -> Iterator[tuple[str, str]]:
    """Two steady replicas (720 requests each in the hour), a newcomer, a stranger, a dead one and one with a gap."""
    store = Store()
    for i in range(2):
        Replica(f"10.0.0.{i}:8000", started=LONG_AGO).run(store, START - 60, END)
    # Started 20 s before its first scrape, which shows 5 requests: 365 in all.
    Replica("10.0.0.7:8000", started=START + 1780).run(store, START + 1800, END, first=5)
    # Came with 5000 requests of its past; 360 in the window.
    Replica("10.0.0.8:8000", started=LONG_AGO).run(store, START + 1800, END, first=5000)
    Replica("10.0.0.9:8000").down(store, START, END)
    # Ten minutes without an answer: 40 of 240 scrapes, and what happened meanwhile shows at the next one.
    gap = Replica("10.0.0.5:8000", started=LONG_AGO)
    gap.run(store, START - 60, START + 1200)
    gap.down(store, START + 1215, START + 1800)
    gap.run(store, START + 1815, END, first=300 + 3 * 125)
    with server[1](store) as url:
        yield server[0], url


def test_sums_of_a_fleet_with_newcomers(fleet: tuple[str, str], gather: Gather) -> None:
    name, url = fleet
    window = gather(url, 3600.0, END)
    # 2 x 720, the gap's 720 of which none is lost, 365 and 360.
    expected = 2 * 720 + 720 + 365 + 360
    assert value(window, "finished_requests") == pytest.approx(expected, abs=TOLERANCE[name])
    assert value(window, "prefill_share") == pytest.approx(0.4 / 2.4)
    assert value(window, "prefix_hit_share") == pytest.approx(0.4)
    assert value(window, "length_share") == pytest.approx(0.25)
    assert value(window, "running_requests") == 10
    assert value(window, "kv_usage") == pytest.approx(0.25)
    assert value(window, "kv_pool_tokens") == 5000
    assert value(window, "engine_skew") == pytest.approx(720 / (expected / 5), rel=0.01)


def test_newcomers_strangers_gaps_and_the_dead_are_named(fleet: tuple[str, str], gather: Gather) -> None:
    window = gather(fleet[1], 3600.0, END)
    text = "\n".join(window.warnings)
    assert "1 replica started inside the window" in text
    assert "1 replica came into the window without a start time inside it" in text
    assert "scrapes are missing at 1 replica: 10.0.0.5:8000 83%" in text
    assert "10.0.0.9:8000: did not answer one of" in text
    states = {t.address: t.state for t in window.targets}
    assert states["10.0.0.9:8000"] == "failed"
    assert states["10.0.0.7:8000"] == "measured"
    coverage = {t.address: t.coverage for t in window.targets}
    assert coverage["10.0.0.5:8000"] == pytest.approx(200 / 240, abs=0.01)
    assert coverage["10.0.0.7:8000"] == coverage["10.0.0.8:8000"] == 1.0
    # Five that were there, one of them to five sixths, and one that never answered.
    assert window.coverage == pytest.approx((4 + 200 / 240) / 6, abs=0.01)
    assert window.restarts == 0


def test_a_replaced_replica_is_gone_and_took_its_prompts_along(server: tuple[str, Server], gather: Gather) -> None:
    """A rollout: the old pod ends after half an hour, the new one has another name. No start time moves anywhere."""
    store = Store()
    Replica("10.0.0.1:8000", started=LONG_AGO).run(store, START - 60, START + 1800)
    Replica("10.0.0.2:8000", started=START + 1790).run(store, START + 1800, END)
    with server[1](store) as url:
        windows = [gather(url, 3600.0, END), gather(url, 3600.0, END, exact=True)]
    for window in windows:
        assert window.restarts == 0
        (subject,) = build_subjects(window, Options())
        assert died_inside(subject)


def test_without_a_start_time_newcomers_give_the_least(server: tuple[str, Server], gather: Gather) -> None:
    store = Store()
    Replica("a:1").run(store, START - 60, END)
    Replica("b:1").run(store, START + 1800, END, first=5)
    with server[1](store) as url:
        window = gather(url, 3600.0, END)
    assert value(window, "finished_requests") == pytest.approx(720 + 360, abs=TOLERANCE[server[0]])
    assert any("the least there was" in w for w in window.warnings)


def test_a_series_that_is_born_inside_the_window_counts_from_zero(server: tuple[str, Server], gather: Gather) -> None:
    """Some producers show a finish reason only once it happened: its first value is an increase."""
    store = Store()
    replica = Replica("a:1", started=LONG_AGO)
    replica.run(store, START - 60, END)
    labels = {**replica.labels, "finished_reason": "abort"}
    store.add("vllm:request_success_total", labels, [(START + 1800 + 15 * i, 7.0) for i in range(121)])
    with server[1](store) as url:
        window = gather(url, 3600.0, END)
    assert value(window, "abort_share") == pytest.approx(7 / 727, rel=1e-3)


@pytest.mark.parametrize("by", ["model", "rank", "target", "all"])
def test_subjects_and_the_number_of_queries(server: tuple[str, Server], gather: Gather, by: str) -> None:
    """Two models, one of them with two data-parallel ranks; the queries do not grow with replicas."""
    counts = []
    for replicas in (2, 9):
        store = Store()
        for i in range(replicas):
            for rank in "01":
                Replica(f"a{i}:1", rank=rank, started=LONG_AGO).run(store, START - 60, END, every=60)
        Replica("b:1", model="small", started=LONG_AGO).run(store, START - 60, END, every=60, per_scrape=1)
        with server[1](store) as url:
            lines: list[str] = []
            from auditor.http import Transport
            from auditor.measures.vocabulary import load_vocabulary
            from auditor.ranges import RangeRequest, collect_range

            window = collect_range(
                RangeRequest(url, 3600.0, END, by=by), load_vocabulary(), transport=Transport(), say=lines.append
            )
        counts.append(next(line for line in lines if "queries" in line).split()[0])
        report = audit_window(window, Options(by=by)).to_json()
        found = {
            tuple(v for k, v in s["labels"].items() if k != "engine"): s["readings"]["finished_requests"]["value"]
            for s in report["subjects"]
        }
        big, small = replicas * 2 * 180, 60
        expected: dict[tuple[str | None, ...], float] = {
            "model": {("small",): small, ("tiny",): big},
            "all": {(): big + small},
            "target": {("b:1",): small, **{(f"a{i}:1",): 360 for i in range(replicas)}},
            "rank": {
                ("small", "b:1", "0"): small,
                **{("tiny", f"a{i}:1", r): 180 for i in range(replicas) for r in "01"},
            },
        }[by]  # type: ignore[assignment]
        assert found == pytest.approx(expected)
        if by == "model":
            tiny = next(s for s in report["subjects"] if s["labels"]["model"] == "tiny")
            assert len(tiny["parts"]) == 2 * replicas
            assert tiny["readings"]["kv_pool_tokens"]["value"] == 2000 * replicas
    assert counts[0] == counts[1]


def test_copies_of_a_pair_of_servers_count_once(server: tuple[str, Server], gather: Gather) -> None:
    """The second copy lacks a stretch, as the store of a restarted server does."""
    store = Store()
    Replica("a:1", started=LONG_AGO, extra={"prometheus_replica": "p-0"}).run(store, START - 60, END)
    Replica("a:1", started=LONG_AGO, extra={"prometheus_replica": "p-1"}).run(store, START - 60, START + 900)
    with server[1](store) as url:
        window = gather(url, 3600.0, END)
        exact = gather(url, 3600.0, END, exact=True)
    assert value(window, "finished_requests") == pytest.approx(720)
    assert value(window, "running_requests") == 2
    assert value(exact, "finished_requests") == 720
    assert any("prometheus_replica" in w for w in window.warnings)


def test_a_replica_label_of_real_replicas_is_left_alone(server: tuple[str, Server], gather: Gather) -> None:
    store = Store()
    for i in range(2):
        Replica(f"a{i}:1", started=LONG_AGO, extra={"replica": str(i)}).run(store, START - 60, END)
    with server[1](store) as url:
        assert value(gather(url, 3600.0, END), "finished_requests") == pytest.approx(1440)


def test_a_server_that_was_down_lowers_coverage_and_is_named(server: tuple[str, Server], gather: Gather) -> None:
    store = Store()
    for i in range(2):
        replica = Replica(f"a{i}:1", started=LONG_AGO)
        replica.run(store, START - 60, START + 1200)
        replica.run(store, START + 2400, END, first=300 + 3 * 164)
    with server[1](store) as url:
        window = gather(url, 3600.0, END)
    assert any("the metrics server stored nothing from" in w for w in window.warnings)
    assert window.coverage == pytest.approx(2 / 3, abs=0.04)
    assert value(window, "finished_requests") == pytest.approx(1440)
    assert readings_of(window)["finished_requests"]["state"] == "partial"


def test_a_night_without_replicas_is_no_gap(server: tuple[str, Server], gather: Gather) -> None:
    store = Store()
    replica = Replica("a:1", started=LONG_AGO)
    replica.run(store, START - 60, START + 1200)
    replica.run(store, START + 2400, END, first=300 + 3 * 84)
    store.add("up", {"job": "node", "instance": "n:9100"}, [(START - 60 + 15 * i, 1.0) for i in range(245)])
    with server[1](store) as url:
        window = gather(url, 3600.0, END)
    assert any("no replica was there from" in w for w in window.warnings)
    assert window.coverage == 1.0


def test_a_label_on_one_side_only(server: tuple[str, Server], gather: Gather) -> None:
    """model_name is on no up series and no process_start_time_seconds: both are joined by target."""
    store = Store()
    Replica("a:1", started=LONG_AGO).run(store, START - 60, END)
    Replica("b:1", model="small", started=LONG_AGO).run(store, START - 60, END)
    with server[1](store) as url:
        window = gather(url, 3600.0, END, match='{model_name="small"}')
    assert value(window, "finished_requests") == pytest.approx(720)
    assert window.coverage == 1.0
    assert [t.address for t in window.targets][1:] == ["b:1"]


def test_buckets_of_different_layouts_are_not_merged(server: tuple[str, Server], gather: Gather) -> None:
    store = Store()
    Replica("a:1", started=LONG_AGO).run(store, START - 60, END)
    other = Replica("b:1", started=LONG_AGO)
    own = Store()
    other.run(own, START - 60, END)
    for (name, labels), points in own.series.items():
        edge = dict(labels).get("le")
        moved = tuple((k, "2000.0" if k == "le" and v == "1000.0" else v) for k, v in labels)
        store.series[(name, moved if name == "vllm:request_prompt_tokens_bucket" and edge else labels)] = points
    with server[1](store) as url:
        readings = readings_of(gather(url, 3600.0, END))
    assert readings["prompt_length_tokens"]["state"] == "invalid"
    assert "bucket layouts" in readings["prompt_length_tokens"]["reason"]
    assert readings["finished_prompt_tokens"]["value"] == pytest.approx(144_000)
    assert readings["prefill_time_seconds"]["p50"]["high"] == 0.5


def test_two_forms_of_names_are_two_groups_of_one_subject(server: tuple[str, Server], gather: Gather) -> None:
    store = Store()
    Replica("a:1", started=LONG_AGO).run(store, START - 60, END)
    own = Store()
    Replica("b:1", started=LONG_AGO).run(own, START - 60, END)
    for (name, labels), points in own.series.items():
        store.series[(name.replace("vllm:", "kserve_vllm:"), labels)] = points
    with server[1](store) as url:
        window = gather(url, 3600.0, END)
    assert value(window, "finished_requests") == pytest.approx(1440)
    assert value(window, "running_requests") == 4


def test_old_and_new_names_of_a_mixed_fleet_count_once(server: tuple[str, Server], gather: Gather) -> None:
    """One release shows the usage under its old name, one under both: each engine is taken once."""
    store = Store()
    Replica("both:1", started=LONG_AGO).run(store, START - 60, END, every=15)
    own = Store()
    Replica("old:1", started=LONG_AGO).run(own, START - 60, END)
    for (name, labels), points in own.series.items():
        store.series[(name.replace("kv_cache_usage", "gpu_cache_usage"), labels)] = points
    for (name, labels), points in list(store.series.items()):
        if name == "vllm:kv_cache_usage_perc":
            store.series[("vllm:gpu_cache_usage_perc", labels)] = [(at, 0.9) for at, _ in points]
    with server[1](store) as url:
        assert value(gather(url, 3600.0, END), "kv_usage") == pytest.approx(0.25)


# --------------------------------------------------------------------------- limits of real servers


def test_prometheus_that_refuses_long_ranges_is_asked_in_shorter_ones(gather: Gather) -> None:
    store = Store()
    for i in range(3):
        Replica(f"a{i}:1", started=LONG_AGO).run(store, START - 60, END)
    with prometheus(store, "--query.max-samples=500") as url:
        window = gather(url, 3600.0, END)
    assert any("shorter ranges" in w for w in window.warnings)
    # Extrapolation at each cut evens out what lies between the last and the first sample of two pieces.
    assert value(window, "finished_requests") == pytest.approx(2160, rel=0.01)
    assert value(window, "prefill_share") == pytest.approx(0.4 / 2.4, rel=0.01)


def test_victoria_that_refuses_long_ranges_is_asked_in_shorter_ones(gather: Gather) -> None:
    store = Store()
    for i in range(3):
        Replica(f"a{i}:1", started=LONG_AGO).run(store, START - 60, END)
    with victoria_metrics(store, "-search.maxPointsPerTimeseries=100") as url:
        window = gather(url, 3600.0, END)
    assert any("shorter ranges" in w for w in window.warnings)
    assert value(window, "finished_requests") == pytest.approx(2160)
    running = readings_of(window)["running_requests"]
    assert (running["value"], running["mean"], running["max"]) == (6, 6, 6)


def test_exact_refuses_above_its_budget(
    server: tuple[str, Server], gather: Gather, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    Replica("a:1", started=LONG_AGO).run(store, START - 60, END)
    monkeypatch.setattr("auditor.ranges.exact.MOST_SAMPLES", 5000)
    # 61 series with a reduction, 241 samples each (240 where the server leaves the window's start out).
    with server[1](store) as url, pytest.raises(UsageError, match=r"about 1\d,\d{3} samples, more than 5,000"):
        gather(url, 3600.0, END, exact=True)


def test_exact_counts_a_newcomer_from_its_start(server: tuple[str, Server], gather: Gather) -> None:
    store = Store()
    Replica("b:1", started=START + 1780).run(store, START + 1800, END, first=5)
    with server[1](store) as url:
        window = gather(url, 3600.0, END, exact=True)
    assert value(window, "finished_requests") == 365
    assert window.seconds == pytest.approx(1820)


def test_too_many_targets_are_not_shown_singly(
    server: tuple[str, Server], gather: Gather, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.ranges.planning.MOST_DETAILED_ENGINES", 2)
    monkeypatch.setattr("auditor.ranges.parts.MOST_DETAILED_ENGINES", 2)
    store = Store()
    for i in range(3):
        Replica(f"a{i}:1", started=LONG_AGO).run(store, START - 60, END)
    with server[1](store) as url:
        window = gather(url, 3600.0, END)
    assert len(window.targets) == 1
    readings = readings_of(window)
    assert readings["finished_requests"]["value"] == pytest.approx(2160)
    assert readings["kv_usage"]["value"] == pytest.approx(0.25)
    for name in ("engine_skew", "kv_pool_tokens"):
        assert readings[name]["value"] is None
        assert readings[name]["reason"]
