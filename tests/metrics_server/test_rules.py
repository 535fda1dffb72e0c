"""Recording rules, alerts and the dashboard: valid, equal to the readings, and answered by real servers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.http import Client, Transport
from auditor.measures.recording import RATIOS, rate_over, ratio_text, whole_scope
from auditor.measures.vocabulary import load_vocabulary
from auditor.monitoring.dashboard import render_dashboard
from auditor.monitoring.rules import render_rules
from auditor.sources.prometheus import MetricsServer
from tests.metrics_server.conftest import Gather, readings_of
from tests.metrics_server.samples import END, Replica
from tests.metrics_server.servers import Store, both, require_programs

ENGINES = [e.name for e in load_vocabulary().engines]
HERE = Path(__file__).parent
START = END - 3600.0


@pytest.mark.live
@pytest.mark.parametrize("engine", ENGINES)
def test_promtool_accepts_the_rules(engine: str, tmp_path: Path) -> None:
    require_programs()
    path = tmp_path / "rules.yaml"
    path.write_text(render_rules(load_vocabulary().engine(engine)))
    command = ["promtool", "check", "rules", "--lint=all", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.live
def test_promtool_runs_the_rules_on_a_worked_case(tmp_path: Path) -> None:
    require_programs()
    rules = tmp_path / "rules.yaml"
    rules.write_text(render_rules(load_vocabulary().engine("vllm")))
    case = tmp_path / "case.yaml"
    case.write_text((HERE / "vllm_rules_test.yaml").read_text().replace("RULES", str(rules)))
    done = subprocess.run(["promtool", "test", "rules", case], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def store() -> Store:
    """Two replicas, with what the dashboard's last panels need besides."""
    store = Store()
    for i in range(2):
        replica = Replica(f"a{i}:1", started=START - 9000)
        replica.run(store, START - 60, END)
        for name, each in (("drafts", 2.0), ("accepted_tokens", 3.0)):
            points = [(START - 60 + 15 * k, each * 3 * k) for k in range(245)]
            store.add(f"vllm:spec_decode_num_{name}_total", replica.labels, points)
        for piece, each in (("count", 19.0), ("sum", 2.0)):
            points = [(START - 60 + 15 * k, each * 3 * k) for k in range(245)]
            store.add(f"vllm:inter_token_latency_seconds_{piece}", replica.labels, points)
        for edge in ("0.1", "0.2", "+Inf"):
            points = [(START - 60 + 15 * k, 19.0 * 3 * k) for k in range(245)]
            store.add("vllm:inter_token_latency_seconds_bucket", {**replica.labels, "le": edge}, points)
    return store


@pytest.fixture(scope="module", params=list(both()))
def url(request: pytest.FixtureRequest, store: Store) -> Iterator[str]:
    with both()[request.param](store) as address:
        yield address


@pytest.mark.live
def test_every_panel_of_the_dashboard_has_an_answer(url: str) -> None:
    panels = json.loads(render_dashboard(load_vocabulary().engine("vllm")))["panels"]
    texts = [t["expr"] for panel in panels for t in panel["targets"]]
    assert len(texts) >= 15
    with Client(Transport()) as client:
        server = MetricsServer(client, url, queries_per_second=1000.0)
        for text in texts:
            asked = text.replace("$__rate_interval", "5m").replace("$model", ".*")
            assert "$" not in asked
            rows = server.instant(asked, END).rows
            assert rows, text
            assert all(row.value == row.value for row in rows), text


@pytest.mark.live
def test_recorded_ratios_are_the_readings(url: str, gather: Gather) -> None:
    """The rules write the ratios a second time, as PromQL: they must say what the report says, within 1 %."""
    readings = readings_of(gather(url, 3600.0, END))
    scope = whole_scope(load_vocabulary().engine("vllm"))
    with Client(Transport()) as client:
        server = MetricsServer(client, url, queries_per_second=1000.0)
        for name in RATIOS:
            text = ratio_text(scope, name, rate_over("1h"))
            assert text is not None
            (row,) = server.instant(text, END).rows
            assert row.value == pytest.approx(readings[name]["value"], rel=0.01), name
    # By hand: 0.4 / (0.4 + 2), 0.1 / 2.5, (3 - 2.5) / 3, 40 of 100 tokens, one in four, none, 1 + 3 / 2.
    expected = {
        "prefill_share": 1 / 6, "queue_share": 0.04, "hidden_wait_share": 1 / 6, "prefix_hit_share": 0.4,
        "length_share": 0.25, "preemptions_per_request": 0.0, "tokens_per_draft_step": 2.5,
    }  # fmt: skip
    assert {n: readings[n]["value"] for n in RATIOS} == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_dashboard_is_whole(engine: str) -> None:
    document: dict[str, Any] = json.loads(render_dashboard(load_vocabulary().engine(engine)))
    panels = document["panels"]
    assert len({p["id"] for p in panels}) == len(panels) >= 3
    assert len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}) == len(panels)
    assert all(p["description"] and p["targets"] for p in panels)
