"""Prefill and decode on different nodes: each page is half a service, both together are one, nothing counted twice.

No recording of such a pair is at hand: the pages are made, 100 requests of 800 prompt and 200 answer tokens, with what
the declarations of the two engines say each node counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from auditor.model import Options, Report, SubjectReport
from tests.engines.pages import audit_pages, value, verdicts, write_page


def _histogram(name: str, labels: str, total: float, count: float, edges: Mapping[str, float]) -> dict[str, float]:
    rows = {f'{name}_bucket{{{labels},le="{edge}"}}': n for edge, n in {**edges, "+Inf": count}.items()}
    return rows | {f"{name}_sum{{{labels}}}": total, f"{name}_count{{{labels}}}": count}


def _vllm(path: Path, *, prefill: bool) -> Path:
    labels = 'engine="0",model_name="m"'
    own = (60_000, 20_000, 0) if prefill else (200, 0, 79_800)
    samples: dict[str, float] = {f"vllm:prompt_tokens_total{{{labels}}}": 80_000}
    for source, tokens in zip(("local_compute", "local_cache_hit", "external_kv_transfer"), own, strict=True):
        samples[f'vllm:prompt_tokens_by_source_total{{{labels},source="{source}"}}'] = tokens
    samples[f"vllm:generation_tokens_total{{{labels}}}"] = 100 if prefill else 20_000
    samples[f"vllm:external_prefix_cache_queries_total{{{labels}}}"] = 1 if prefill else 80_000
    samples[f"vllm:external_prefix_cache_hits_total{{{labels}}}"] = 0 if prefill else 79_800
    samples[f"vllm:num_requests_running{{{labels}}}"] = 0
    stop, length = (0, 100) if prefill else (90, 10)
    samples[f'vllm:request_success_total{{{labels},finished_reason="stop"}}'] = stop
    samples[f'vllm:request_success_total{{{labels},finished_reason="length"}}'] = length

    def add(name: str, total: float, **edges: float) -> None:
        samples.update(_histogram(f"vllm:{name}", labels, total, 100, {k.strip("_"): v for k, v in edges.items()}))

    add("request_prefill_time_seconds", 150 if prefill else 5, _2=100)
    add("request_decode_time_seconds", 0 if prefill else 450, _5=100)
    add("request_inference_time_seconds", 150 if prefill else 455, _5=100)
    add("request_queue_time_seconds", 20 if prefill else 4, _1=100)
    add("e2e_request_latency_seconds", 175 if prefill else 465, _5=100)
    add("time_to_first_token_seconds", 175 if prefill else 12, _2=100)
    add("request_params_max_tokens", 100 if prefill else 30_000, _1=100 if prefill else 0)
    add("request_prompt_tokens", 80_000, _1000=100)
    add("request_generation_tokens", 100 if prefill else 20_000, _1=100 if prefill else 0)
    return write_page(path, samples)


def _sglang(path: Path, *, prefill: bool) -> Path:
    labels = f'engine_type="{"prefill" if prefill else "decode"}",model_name="m"'
    samples: dict[str, float] = {
        f"sglang:prompt_tokens_total{{{labels}}}": 80_000,
        f'sglang:cached_tokens_total{{{labels},cache_source="device"}}': 20_000,
        f"sglang:generation_tokens_total{{{labels}}}": 100 if prefill else 20_000,
        f"sglang:num_requests_total{{{labels}}}": 100,
        f"sglang:num_running_reqs{{{labels}}}": 3 if prefill else 9,
        f"sglang:max_total_num_tokens{{{labels}}}": 4096,
    }
    if prefill:
        samples |= {
            f'sglang:prefill_effective_tokens_total{{{labels},mode="input"}}': 60_000,
            f'sglang:prefill_effective_tokens_total{{{labels},mode="device_hit"}}': 20_000,
        }
        name = "sglang:per_stage_req_latency_seconds"
        samples |= _histogram(name, f'{labels},stage="prefill_forward"', 150, 100, {"2": 100})
    samples |= _histogram("sglang:queue_time_seconds", labels, 20 if prefill else 4, 100, {"1": 100})
    for name, here in (("e2e_request_latency_seconds", 175 if prefill else 650), ("time_to_first_token_seconds", 200)):
        samples |= _histogram(f"sglang:{name}", labels, here, 100, {"10": 100})
    return write_page(path, samples)


@pytest.fixture(params=["vllm", "sglang"])
def pages(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    make = {"vllm": _vllm, "sglang": _sglang}[request.param]
    return make(tmp_path / "prefill.prom", prefill=True), make(tmp_path / "decode.prom", prefill=False)


def _one(report: Report) -> SubjectReport:
    (subject,) = report.subjects
    return subject


def test_a_pair_is_one_service_and_counts_nothing_twice(pages: tuple[Path, Path]) -> None:
    service = _one(audit_pages(*pages))
    assert value(service, "prompt_tokens") == 80_000
    assert value(service, "computed_prompt_tokens") == 60_000
    assert value(service, "prefix_hit_share") == pytest.approx(0.25)
    assert value(service, "generation_tokens") == 20_000
    assert value(service, "finished_requests") == 100
    assert "decode_node" not in service.flags
    assert "prefill_node" not in service.flags
    assert service.facts["disaggregation"] == "1 prefill and 1 decode node as one service"
    assert "error" not in verdicts(service).values()


def test_the_order_of_the_pages_does_not_matter(pages: tuple[Path, Path]) -> None:
    one, other = _one(audit_pages(*pages)), _one(audit_pages(*reversed(pages)))
    assert {k: (r.value, r.low, r.high) for k, r in one.readings.items()} == {
        k: (r.value, r.low, r.high) for k, r in other.readings.items()
    }


def test_time_is_taken_from_the_node_that_spent_it(tmp_path: Path) -> None:
    """Prefill 150 s on one node, decode 450 s on the other: a quarter, neither 1 nor 0.011."""
    service = _one(
        audit_pages(_vllm(tmp_path / "prefill.prom", prefill=True), _vllm(tmp_path / "decode.prom", prefill=False))
    )
    assert value(service, "prefill_share") == pytest.approx(0.25)
    assert verdicts(service)["time-split"] == "broken"
    assert value(service, "length_share") == pytest.approx(0.10)
    # What each node knows for its own half only is given up, with the reason.
    for name in ("e2e_seconds", "ttft_seconds", "queue_seconds", "queue_share", "hidden_wait_share"):
        assert service.readings[name].state == "invalid", name
        assert "--by target" in (service.readings[name].reason or "")


def test_request_times_of_a_pair_come_from_the_node_the_user_hears(tmp_path: Path) -> None:
    """SGLang's router sends a request to both nodes at once: the decode node's clock is the user's."""
    service = _one(
        audit_pages(_sglang(tmp_path / "prefill.prom", prefill=True), _sglang(tmp_path / "decode.prom", prefill=False))
    )
    assert value(service, "e2e_seconds") == pytest.approx(6.5)
    assert service.readings["decode_seconds"].high == pytest.approx(450)
    assert service.readings["prefill_share"].low == pytest.approx(0.25)
    # 100 requests wait on both nodes: 24 s over 200 waits would be a mean that nobody had.
    for name in ("queue_seconds", "mean_queue_seconds", "queue_share"):
        assert service.readings[name].state == "invalid", name
    assert value(service, "running_requests") == 12
    assert value(service, "kv_pool_tokens") == 8192


@pytest.mark.parametrize(("index", "flag"), [(0, "prefill_node"), (1, "decode_node")])
def test_one_node_alone_is_not_taken_for_the_service(pages: tuple[Path, Path], index: int, flag: str) -> None:
    node = _one(audit_pages(pages[index]))
    assert flag in node.flags
    assert verdicts(node)["time-split"] == "not_applicable"
    assert verdicts(node)["role"] == "broken"
    assert "disaggregation" not in node.facts


def test_nodes_can_be_looked_at_one_by_one(pages: tuple[Path, Path]) -> None:
    report = audit_pages(*pages, options=Options(by="target"))
    assert [len(s.flags) > 0 for s in report.subjects] == [True, True]
    assert {f for s in report.subjects for f in s.flags} >= {"prefill_node", "decode_node"}
    assert all(value(s, "prompt_tokens") == 80_000 for s in report.subjects)


def test_two_prefill_nodes_add(tmp_path: Path) -> None:
    pages = [_sglang(tmp_path / f"prefill-{i}.prom", prefill=True) for i in range(2)]
    service = _one(audit_pages(*pages, _sglang(tmp_path / "decode.prom", prefill=False)))
    assert value(service, "prompt_tokens") == 160_000
    assert value(service, "finished_requests") == 100
    assert service.facts["disaggregation"] == "2 prefill and 1 decode nodes as one service"


def test_unified_replicas_beside_each_other_are_no_pair(tmp_path: Path) -> None:
    page = _sglang(tmp_path / "a.prom", prefill=True)
    text = page.read_text(encoding="utf-8").replace('"prefill"', '"unified"')
    for name in ("a.prom", "b.prom"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    service = _one(audit_pages(tmp_path / "a.prom", tmp_path / "b.prom"))
    assert value(service, "prompt_tokens") == 160_000
    assert value(service, "finished_requests") == 200
    assert "disaggregation" not in service.facts
