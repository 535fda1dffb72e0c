"""The published context experiment as pages: the cluster was drained after each arm, and KV use peaked at about 50 %.

Throughput moved 1.6 % while the context moved over a factor of four: the KV pool was never the constraint. The pages
are made here, to these figures: a pool of 1,110,255 tokens, an idle page at either end, three pages under load.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from auditor.entry import run

# KV use, running, waiting, finished so far.
COURSE = [(0.0, 0, 0, 0), (0.37, 9, 0, 61), (0.5, 14, 0, 208), (0.44, 11, 0, 340), (0.0, 0, 0, 401)]


def page(usage: float, running: int, waiting: int, done: int) -> str:
    labels = 'engine="0",model_name="m"'
    gauges = {"kv_cache_usage_perc": usage, "num_requests_running": running, "num_requests_waiting": waiting}
    counters = {"num_preemptions_total": 0, "prompt_tokens_total": 2_000 * done, "generation_tokens_total": 700 * done}
    lines = []
    for name, value in gauges.items():
        lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{labels}}} {value}"]
    for name, value in counters.items():
        lines += [f"# TYPE vllm:{name.removesuffix('_total')} counter", f"vllm:{name}{{{labels}}} {value}"]
    lines += [
        "# TYPE vllm:request_success counter",
        f'vllm:request_success_total{{{labels},finished_reason="stop"}} {done}',
        "# TYPE vllm:cache_config_info gauge",
        'vllm:cache_config_info{block_size="16",engine="0",kv_cache_size_tokens="1110255"} 1.0',
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def pages(tmp_path: Path) -> list[str]:
    paths = []
    for i, moment in enumerate(COURSE):
        path = tmp_path / f"{i}.prom"
        path.write_text(page(*moment), encoding="utf-8")
        paths.append(str(path))
    return paths


def kv_pool(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["audit", *arguments, "--as", "json"]) == 0
    subject: dict[str, Any] = json.loads(capsys.readouterr().out)["subjects"][0]
    return subject


def test_the_pool_was_never_the_constraint(pages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    subject = kv_pool(capsys, "--series", *pages, "--every", "150s")
    verdict = subject["audits"]["kv-pool"]
    assert verdict["verdict"] == "holds"
    assert verdict["summary"] == "50 % used at most; no limit binds: nothing waits at any scrape"
    assert subject["readings"]["kv_usage_peak"]["value"] == 0.5
    # The fullest moment held 0.5 x 1,110,255 tokens for 14 requests; the last one with any held 0.44 for 11.
    assert subject["readings"]["kv_tokens_per_running_request"]["value"] == pytest.approx(0.44 * 1_110_255 / 11)


def test_the_drained_ends_alone_do_not_tell(pages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    verdict = kv_pool(capsys, "--before", pages[0], pages[-1], "--seconds", "600")["audits"]["kv-pool"]
    assert verdict["verdict"] == "undecided"
    assert "nothing was running on any page" in verdict["summary"]


def test_one_page_does_not_tell(pages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    verdict = kv_pool(capsys, pages[2])["audits"]["kv-pool"]
    assert verdict["verdict"] == "undecided"
    assert "50 % used at the scrape" in verdict["summary"]
