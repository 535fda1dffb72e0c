"""Producers that are known and not audited: recognised by name, told what their pages export."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.entry import run
from auditor.measures.vocabulary import load_vocabulary
from tests.engines.pages import audit_pages

PAGES = {
    "TensorRT-LLM": ("trtllm_request_prefill_time_seconds_sum 3", "prefill and decode time"),
    "Text Generation Inference": ('tgi_batch_forward_duration_sum{method="prefill"} 3', "per batch, not per request"),
    "LMDeploy": ("lmdeploy:request_decode_time_seconds_count 3", "finish reasons"),
    "Triton Inference Server": ("nv_inference_request_success 3", "no tokens"),
    "NVIDIA Dynamo's front end": ("dynamo_frontend_requests_total 3", "scrape the workers"),
    "the SMG gateway": ("smg_http_requests_total 3", "scrape the workers"),
    "the SGLang router": ("sgl_router_requests_total 3", "scrape the workers"),
    "the vLLM router": ("vllm_router_requests_total 3", "scrape the workers"),
    "the Gateway API inference extension": ("inference_pool_average_kv_cache_utilization 0.3", "scrape the workers"),
    "the LiteLLM proxy": ("litellm_requests_metric_total 3", "scrape the workers"),
}


@pytest.mark.parametrize("title", sorted(PAGES))
def test_known_producers_are_refused_by_name(title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line, words = PAGES[title]
    page = tmp_path / "page.prom"
    page.write_text(f"process_cpu_seconds_total 1\n{line}\n", encoding="utf-8")
    report = audit_pages(page)
    (target,) = report.targets
    assert target["state"] == "not_an_engine"
    assert target["reason"].startswith(f"{title}: known, not audited")
    assert words in target["reason"]
    assert report.subjects == ()
    assert report.exit_code == 3
    assert run(["audit", str(page)]) == 3
    assert title.split()[-1] in capsys.readouterr().out


def test_every_refusal_is_tried() -> None:
    listed = {r.title for r in load_vocabulary().refusals}
    assert listed - {"an NVIDIA Dynamo component"} == set(PAGES)


def test_a_worker_behind_dynamo_is_audited_by_its_engine(tmp_path: Path) -> None:
    """Dynamo passes the engine's names through and adds its own."""
    page = tmp_path / "worker.prom"
    page.write_text(
        "dynamo_component_requests_total 3\n"
        'vllm:prompt_tokens_total{model_name="m",engine="0",dynamo_namespace="n"} 40\n'
        'vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 2\n',
        encoding="utf-8",
    )
    report = audit_pages(page)
    assert [t["state"] for t in report.targets] == ["measured"]
    assert report.subjects[0].readings["prompt_tokens"].value == 40


def test_a_refused_target_sinks_no_other(tmp_path: Path) -> None:
    bad = tmp_path / "tgi.prom"
    bad.write_text("tgi_queue_size 3\n", encoding="utf-8")
    good = tmp_path / "vllm.prom"
    good.write_text('vllm:prompt_tokens_total{model_name="m",engine="0"} 40\n', encoding="utf-8")
    report = audit_pages(bad, good)
    assert sorted(t["state"] for t in report.targets) == ["measured", "not_an_engine"]
    assert len(report.subjects) == 1
