"""A real Pushgateway takes what nightly pushes, replaces it, and its refusals are said."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from auditor.delivery import push
from auditor.delivery.pushgateway import group_path
from auditor.http import Transport
from auditor.model import OutputError
from auditor.outputs import load_outputs
from auditor.outputs.text import RenderOptions
from tests.conftest import need_program

REPORT = Path(__file__).parents[2] / "fixtures" / "reports" / "schema-1" / "nightly-22.json"


@pytest.fixture
def gateway() -> Iterator[str]:
    program = need_program("prometheus-pushgateway", "pushgateway")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [program, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
                    break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def exposition(document: dict[str, Any]) -> str:
    rendered = load_outputs()["prometheus"].render(document, RenderOptions())
    return rendered.decode() if isinstance(rendered, bytes) else rendered


def scrape(url: str) -> dict[str, list[Any]]:
    with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {f.name: f.samples for f in families}


@pytest.mark.live
def test_a_push_is_what_the_report_says_and_replaces_the_last_one(gateway: str) -> None:
    document = json.loads(REPORT.read_text())
    push(gateway, exposition(document), transport=Transport())
    samples = scrape(gateway)["premise_auditor_reading"]
    chat = {s.labels["reading"]: s.value for s in samples if s.labels["model"] == "chat"}
    assert chat["ttft_seconds"] == document["subjects"][0]["readings"]["ttft_seconds"]["value"]
    assert {s.labels["job"] for s in samples} == {"premise_auditor"}
    document["subjects"] = document["subjects"][1:]
    push(f"{gateway}/", exposition(document), transport=Transport())
    assert {s.labels["model"] for s in scrape(gateway)["premise_auditor_reading"]} == {"code", "summary"}


@pytest.mark.live
def test_a_refusal_is_said_in_the_gateways_words(gateway: str) -> None:
    with pytest.raises(OutputError, match=r"Pushgateway: .*400"):
        push(gateway, "this is { no exposition", transport=Transport())


@pytest.mark.live
def test_groups_with_odd_values(gateway: str) -> None:
    push(gateway, "x 1\n", transport=Transport(), grouping={"team": "a/b", "site": "", "room": "a b"})
    (sample,) = scrape(gateway)["x"]
    assert (sample.labels["team"], sample.labels.get("site", ""), sample.labels["room"]) == ("a/b", "", "a b")


def test_a_gateway_that_is_not_there() -> None:
    with pytest.raises(OutputError, match=r"^Pushgateway: "):
        push("http://127.0.0.1:9", "x 1\n", transport=Transport(timeout_seconds=2))


def test_group_paths() -> None:
    """The base64 form is RFC 4648's URL alphabet; an empty value is a lone equals sign (Pushgateway's README)."""
    assert group_path({"job": "a", "path": "/var/tmp", "none": ""}) == "job/a/path@base64/L3Zhci90bXA/none@base64/="
