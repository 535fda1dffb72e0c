"""Pages that others posted, and the same page under every name a re-exporter gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures.support import (
    FIXTURES,
    VLLM,
    audit,
    audit_capture,
    check_limits,
    only,
    raw_page,
    state,
    total,
    value,
)

PUBLIC = FIXTURES / "public"
VLLM_PAGES = sorted(p for p in PUBLIC.glob("*.prom") if "vllm" in p.name)


@pytest.mark.parametrize("path", sorted(PUBLIC.glob("*.prom")), ids=lambda p: p.stem)
def test_a_report_or_a_clear_refusal(path: Path) -> None:
    report = audit(path)
    (target,) = report.targets
    if target["state"] != "measured":
        assert report.exit_code == 3
        assert len(target["reason"]) > 20
        return
    for subject in report.subjects:
        check_limits(subject.readings.values())
        assert all(v.verdict != "error" for v in subject.audits)


def test_all_vllm_pages_are_read() -> None:
    assert len(VLLM_PAGES) == 3
    assert [audit(p).targets[0]["state"] for p in VLLM_PAGES] == ["measured"] * 3


def test_a_page_of_the_first_engine() -> None:
    """vLLM V0, cut off inside its last histogram: no engine label, KV usage under its old name."""
    path = PUBLIC / "aibrix-docs-vllm-v0-qwen2.5-coder.prom"
    page, subject = raw_page(path), only(audit(path))
    assert value(subject, "finished_requests") == total(page, "vllm:request_success_total") == 4
    assert value(subject, "prompt_tokens") == total(page, "vllm:prompt_tokens_total") == 148
    assert value(subject, "generation_tokens") == total(page, "vllm:generation_tokens_total") == 955
    assert value(subject, "kv_usage") == total(page, "vllm:gpu_cache_usage_perc")
    assert value(subject, "stop_share") == 1
    assert "cache_off" in subject.flags
    assert value(subject, "prefix_hit_share") == 0
    assert state(subject, "prefill_share") == "not_exported"
    assert state(subject, "step_tokens") == "invalid"
    assert "le=+Inf" in (subject.readings["step_tokens"].reason or "")
    assert value(subject, "steps") == 998


def test_a_page_of_an_older_ray() -> None:
    path = PUBLIC / "datadog-ray-vllm-2.32-excerpt.prom"
    page, subject = raw_page(path), only(audit(path))
    assert value(subject, "prompt_tokens") == total(page, "ray_vllm:prompt_tokens_total") == 58
    assert value(subject, "generation_tokens") == total(page, "ray_vllm:generation_tokens_total") == 300
    gaps = "ray_vllm:time_per_output_token_seconds"
    mean = total(page, f"{gaps}_sum") / total(page, f"{gaps}_count")
    # This Ray kept the sums.
    assert value(subject, "itl_seconds") == pytest.approx(mean)
    assert "ray_vllm:" in (subject.readings["finished_requests"].reason or "")


def test_an_excerpt_with_one_name_of_each_generation() -> None:
    path = PUBLIC / "vllm-0.10.0-glm45-issue617-excerpt.prom"
    page, subject = raw_page(path), only(audit(path))
    assert value(subject, "lookup_hit_share") == total(page, "vllm:gpu_prefix_cache_hits_total") / 32 == 0
    assert value(subject, "kv_usage") == total(page, "vllm:kv_cache_usage_perc")
    # Creation times stand beside the counters; they are no counts.
    assert all((r.value or 0) < 1e6 for r in subject.readings.values())
    assert state(subject, "prefix_hit_share") == "absent"


@pytest.mark.parametrize("prefix", ["ray_vllm:", "kserve_vllm:", "vllm_"])
def test_renamed_pages_say_the_same(prefix: str, tmp_path: Path) -> None:
    folder = VLLM / "0.32.0" / "c-shared-prefix"
    for name in ("before", "after"):
        text = (folder / f"{name}.prom").read_text()
        (tmp_path / f"{name}.prom").write_text(text.replace("vllm:", prefix))
    (tmp_path / "workload.json").write_text((folder / "workload.json").read_text())
    plain, renamed = audit_capture(folder), audit_capture(tmp_path)
    assert renamed.flags == plain.flags
    for name, reading in plain.readings.items():
        other = renamed.readings[name]
        assert (other.state, other.value, other.low, other.high) == (
            reading.state,
            reading.value,
            reading.low,
            reading.high,
        )
        assert "vllm:" not in (other.reason or "").replace(prefix, ""), other.reason


def test_rebuilt_sums_are_ranges_around_the_truth(tmp_path: Path) -> None:
    """A real page under the names of the Ray that rebuilds sums: counts stay, times become ranges that hold."""
    folder = VLLM / "0.32.0" / "b-prefill-heavy"
    for name in ("before", "after"):
        (tmp_path / f"{name}.prom").write_text((folder / f"{name}.prom").read_text().replace("vllm:", "ray_vllm_"))
    (tmp_path / "workload.json").write_text((folder / "workload.json").read_text())
    plain, ray = audit_capture(folder), audit_capture(tmp_path)
    for name in ("prefill_seconds", "decode_seconds", "prefill_share", "queue_share", "mean_decode_seconds"):
        reading = ray.readings[name]
        assert reading.state == "bounded", name
        assert reading.low is not None
        assert reading.low <= value(plain, name), name
        assert reading.high is None or value(plain, name) <= reading.high, name
    for name in ("finished_requests", "prompt_tokens", "length_share", "prefix_hit_share", "steps"):
        assert value(ray, name) == value(plain, name), name
    for name in ("decode_seconds_per_token", "hidden_wait_share", "finished_prompt_tokens"):
        assert state(ray, name) == "invalid", name


def test_classic_and_openmetrics_of_one_server() -> None:
    classic, metrics = (
        only(audit(FIXTURES / "pages" / f"rust-front-end.{x}")) for x in ("classic.prom", "openmetrics.txt")
    )
    for name, reading in classic.readings.items():
        assert metrics.readings[name].value == reading.value, name
