"""vLLM and SGLang in one run: each by its own rules, side by side only where a word means the same on both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.entry import run
from auditor.model import Options
from tests.engines.pages import FIXTURES, audit_pages, value

VLLM = FIXTURES / "vllm" / "0.32.0" / "c-shared-prefix" / "after.prom"
SGLANG = FIXTURES / "sglang" / "0.5.23" / "overload-queue" / "after.prom"
LLAMACPP = FIXTURES / "llamacpp" / "11434" / "mixed" / "after.prom"


@pytest.mark.parametrize("by", ["model", "target", "all"])
def test_engines_are_never_added_to_each_other(by: str) -> None:
    report = audit_pages(VLLM, SGLANG, options=Options(by=by))
    assert {s.labels["engine"] for s in report.subjects} == {"vllm", "sglang"}
    alone = {str(p): audit_pages(p).subjects[0] for p in (VLLM, SGLANG)}
    for subject in report.subjects:
        page = VLLM if subject.labels["engine"] == "vllm" else SGLANG
        assert value(subject, "prompt_tokens") == value(alone[str(page)], "prompt_tokens")
        assert value(subject, "prefix_hit_share") == value(alone[str(page)], "prefix_hit_share")


def test_side_by_side_stands_what_means_the_same() -> None:
    fleet = audit_pages(VLLM, SGLANG).to_json()["fleet"]
    assert fleet["engines"] == ["sglang", "vllm"]
    order = [s["engine"] for s in fleet["subjects"]]
    shares = dict(zip(order, fleet["readings"]["prefix_hit_share"], strict=True))
    assert shares["vllm"] == value(audit_pages(VLLM).subjects[0], "prefix_hit_share")
    assert shares["sglang"] == value(audit_pages(SGLANG).subjects[0], "prefix_hit_share")
    assert "mean_queue_seconds" in fleet["readings"]


def test_what_differs_is_left_out_and_says_why() -> None:
    """SGLang counts prompt tokens at finish, has decode as a range, and other streams in its gaps."""
    fleet = audit_pages(VLLM, SGLANG).to_json()["fleet"]
    for name, words in {
        "prompt_tokens": "at finish",
        "decode_seconds": "a range",
        "prefill_share": "a range",
        "itl_seconds": "streaming requests only",
        "finished_requests": "aborted requests are in it",
        "e2e_seconds": "aborted requests are in it",
    }.items():
        assert name not in fleet["readings"], name
        assert words in fleet["left_out"][name], name
    assert not set(fleet["readings"]) & set(fleet["left_out"])


def test_every_row_has_a_value_for_every_engine() -> None:
    fleet = audit_pages(VLLM, SGLANG, LLAMACPP).to_json()["fleet"]
    assert len(fleet["subjects"]) == 3
    assert fleet["readings"]
    for name, values in fleet["readings"].items():
        assert len(values) == 3, name
        assert None not in values, name


def test_one_engine_has_nothing_to_be_beside() -> None:
    assert "fleet" not in audit_pages(VLLM).to_json()
    assert (
        "fleet" not in audit_pages(SGLANG, FIXTURES / "sglang" / "0.5.6" / "driven-collector" / "after.prom").to_json()
    )


def test_the_screen_and_the_json_show_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["audit", str(VLLM), str(SGLANG)]) == 0
    shown = capsys.readouterr().out
    assert "SIDE BY SIDE  what sglang and vllm export with the same meaning" in shown
    assert run(["audit", str(VLLM), str(SGLANG), "--as", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["fleet"]["engines"] == ["sglang", "vllm"]
