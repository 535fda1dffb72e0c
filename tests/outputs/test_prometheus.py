"""Prometheus text, read back by prometheus-client: names of the contract, label values unharmed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from auditor.outputs.prometheus import render
from auditor.outputs.text import RenderOptions
from tests.outputs.documents import HOSTILE, audited, gated

Key = tuple[str, frozenset[tuple[str, str]]]


def samples(document: Mapping[str, Any]) -> dict[Key, float]:
    data = render(document, RenderOptions())
    assert isinstance(data, bytes)
    out: dict[Key, float] = {}
    for family in text_string_to_metric_families(data.decode("utf-8")):
        for s in family.samples:
            key = (s.name, frozenset(s.labels.items()))
            assert key not in out
            out[key] = s.value
    return out


def key(name: str, **labels: str) -> Key:
    return f"premise_auditor_{name}", frozenset({"engine": "vllm", "model": "m", **labels}.items())


def test_the_contracts_names() -> None:
    found = samples(gated())
    assert found[key("reading", reading="queue_share")] == 0.5
    assert found[key("reading_low", reading="queue_share")] == 0.4
    assert found[key("reading_high", reading="queue_share")] == 0.6
    assert found[key("audit", audit="queueing", verdict="broken")] == 1
    assert found[key("lever_ceiling", lever="batched-tokens", end="low")] == 1.1
    assert key("lever_ceiling", lever="batched-tokens", end="high") not in found
    assert found[key("premise", premise="waits", verdict="broken", level="error")] == 1
    assert found[("premise_auditor_exit_code", frozenset())] == 1
    # 2026-11-29T19:24:20.5Z: date -ud 2026-11-29T19:24:20Z +%s
    assert found[("premise_auditor_run_timestamp_seconds", frozenset())] == 1795980260.5


def test_what_is_missing_has_no_sample_and_is_counted_as_missing() -> None:
    found = samples(audited().to_json())
    assert key("reading", reading="length_share") not in found
    assert found[key("reading_missing", reading="length_share", state="no_traffic")] == 1
    assert key("reading", reading="prefill_share") not in found
    assert found[key("reading_missing", reading="prefill_share", state="bounded")] == 1
    assert found[key("reading_low", reading="prefill_share")] == 0.2
    assert key("reading_high", reading="prefill_share") not in found
    assert not [k for k in found if k[0] == "premise_auditor_premise"]


def test_a_window_without_an_end_has_no_timestamp() -> None:
    report = audited()
    report = replace(report, window={**report.window, "end": None})
    assert not [k for k in samples(report.to_json()) if "timestamp" in k[0]]


def test_hostile_labels_stay_values() -> None:
    found, plain = samples(gated(HOSTILE)), samples(gated())
    assert len(found) == len(plain)
    models = {dict(labels)["model"] for _, labels in found if "model" in dict(labels)}
    (model,) = models
    assert model.startswith("a|b`c`<script>")
    assert '"' in model
    assert "\n" not in model


def test_labels_that_are_no_label_names() -> None:
    report = audited()
    labels = {"engine": "vllm", "reading": "mine", "9 lives": "x", "__name__": "y", "model": None}
    found = samples(replace(report, subjects=(replace(report.subjects[0], labels=labels),)).to_json())
    name, pairs = next(k for k in found if k[0] == "premise_auditor_reading")
    assert dict(pairs) == {
        "reading": "queue_share", "engine": "vllm", "subject_reading": "mine", "_9_lives": "x",
        "subject_name__": "y", "model": "",
    } or name == ""  # fmt: skip


def test_without_subjects_there_is_still_an_exit_code() -> None:
    empty = replace(audited(), subjects=()).with_exit_code(3).to_json()
    assert samples(empty)[("premise_auditor_exit_code", frozenset())] == 3
