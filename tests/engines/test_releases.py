"""Older SGLang releases, a gateway's re-export, and pages that others posted: a report or a refusal, never a guess."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.entry import run
from tests.engines.pages import FIXTURES, audit_pages, value, verdicts

PUBLIC = FIXTURES / "public"
DRIVEN = ("0.4.6.post5", "0.5.6")
# 0: a report. 3: a clear refusal, or nothing moved on an excerpt of gauges.
ENDS = {
    "aibrix-docs-vllm-v0-qwen2.5-coder.prom": 0,
    "datadog-ray-vllm-2.32-excerpt.prom": 0,
    "production-stack-router-issue318-excerpt.prom": 3,
    "sglang-0.5.1-issue13485-excerpt.prom": 3,
    "sglang-2024-11-pr1853-excerpt.prom": 0,
    "sglang-docs-2025-03.prom": 0,
    "sglang-docs-production-metrics.prom": 0,
    "smg-gateway-renamed-sglang-pr813-excerpt.prom": 0,
    "vllm-0.10.0-glm45-issue617-excerpt.prom": 0,
}


@pytest.mark.parametrize("release", DRIVEN)
def test_the_collector_of_older_releases(release: str) -> None:
    """40 scripted requests: 29,192 prompt, 8,210 cached and 5,447 answer tokens."""
    folder = FIXTURES / "sglang" / release / "driven-collector"
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    (subject,) = audit_pages(folder / "after.prom").subjects
    assert value(subject, "finished_requests") == truth["requests"]
    assert value(subject, "prompt_tokens") == truth["prompt_tokens"]
    assert value(subject, "generation_tokens") == truth["generation_tokens"]
    assert value(subject, "cached_prompt_tokens") == truth["cached_tokens"]
    assert value(subject, "prefix_hit_share") == pytest.approx(8210 / 29192)
    assert verdicts(subject)["prefix-cache"] == "holds"
    # These releases count cached tokens without their tier: no tier is 0 for that.
    assert subject.readings["host_hit_share"].state == "not_exported"
    # 80.942 s end to end, 5.244 s to first tokens.
    assert subject.readings["decode_seconds"].high == pytest.approx(80.94156 - 5.24356, abs=1e-4)


def test_prefill_time_came_with_0_5_6() -> None:
    old, new = (FIXTURES / "sglang" / r / "driven-collector" / "after.prom" for r in DRIVEN)
    (before,), (after,) = audit_pages(old).subjects, audit_pages(new).subjects
    assert before.readings["prefill_share"].state == "not_exported"
    assert "0.5.6" in (before.readings["prefill_share"].reason or "")
    assert after.readings["prefill_share"].low == pytest.approx(4.84356 / (4.84356 + 75.698), rel=1e-4)
    assert value(after, "kv_pool_tokens") == 8192
    assert value(after, "aborted_requests") == 3


def test_the_first_page_had_another_model_label() -> None:
    (subject,) = audit_pages(PUBLIC / "sglang-2024-11-pr1853-excerpt.prom").subjects
    assert subject.labels["model"] == "MODEL_PATH"
    assert value(subject, "prompt_tokens") == 230794
    assert value(subject, "kv_pool_tokens") == 570979
    assert subject.settings["context"].value == 131072
    assert subject.settings["seats"].value == 2231


def test_the_documentation_page_of_2025() -> None:
    """11,008 first tokens for 11,228 ends: no difference of those sums is a decode time."""
    (subject,) = audit_pages(PUBLIC / "sglang-docs-2025-03.prom").subjects
    assert value(subject, "prompt_tokens") == 8128902
    assert value(subject, "generation_tokens") == 7557572
    assert value(subject, "finished_requests") == 11228
    assert value(subject, "running_requests") == 162
    assert value(subject, "waiting_requests") == 2826
    assert value(subject, "kv_usage") == pytest.approx(0.28)
    assert subject.readings["itl_seconds"].count == 7400757
    assert subject.readings["decode_seconds"].state == "invalid"
    hits = subject.readings["prefix_hit_share"]
    assert hits.state == "not_exported"
    assert "0.4.5" in (hits.reason or "")


def test_a_gateway_renames_and_its_workers_stay_apart(tmp_path: Path) -> None:
    """SMG writes underscores and adds worker_addr: two workers with equal labels otherwise are two engines."""
    text = (PUBLIC / "smg-gateway-renamed-sglang-pr813-excerpt.prom").read_text(encoding="utf-8")
    (one,) = audit_pages(PUBLIC / "smg-gateway-renamed-sglang-pr813-excerpt.prom").subjects
    assert one.labels["engine"] == "sglang"
    assert one.readings["decode_seconds"].reason
    assert "sglang_" in one.readings["decode_seconds"].reason
    row = next(line for line in text.splitlines() if line.startswith("sglang_realtime_tokens_total"))
    page = tmp_path / "two.prom"
    rows = [row, row.replace("WORKER_ADDR", "OTHER")]
    rows += [r.replace("realtime_tokens", "num_retracted_requests").rpartition(" ")[0] + " 0" for r in rows]
    page.write_text("\n".join(rows) + "\n", encoding="utf-8")
    (both,) = audit_pages(page).subjects
    assert len(both.parts) == 2
    assert value(both, "computed_prompt_tokens") == 2 * 55


def test_an_unnamed_page_is_not_taken_for_an_engine(tmp_path: Path) -> None:
    """``sglang_`` alone may be anybody's prefix: a name must be known."""
    page = tmp_path / "app.prom"
    page.write_text("# TYPE sglang_jobs_done_total counter\nsglang_jobs_done_total 3\n", encoding="utf-8")
    report = audit_pages(page)
    assert report.targets[0]["state"] == "not_an_engine"


def test_every_public_page_is_listed() -> None:
    assert {p.name for p in PUBLIC.glob("*.prom")} == set(ENDS)


@pytest.mark.parametrize("name", sorted(ENDS))
def test_public_pages_end_in_a_report_or_a_refusal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["audit", str(PUBLIC / name)])
    shown = capsys.readouterr()
    assert code == ENDS[name]
    assert "Traceback" not in shown.out + shown.err
    assert shown.out.strip()
    report = audit_pages(PUBLIC / name)
    for subject in report.subjects:
        assert "error" not in verdicts(subject).values()
        for reading in subject.readings.values():
            assert reading.value is not None or reading.reason, reading.name
    if not report.subjects:
        assert "scrape the workers" in str(report.targets[0]["reason"])
