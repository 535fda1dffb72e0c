"""The starter file passes the reader, and the JSON Schema says what the reader says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from auditor.collect import Inputs, collect
from auditor.gate.judge import Terms, judge_report
from auditor.gate.nodes import PremisesError
from auditor.gate.reader import parse_premises
from auditor.gate.schema import premises_schema
from auditor.gate.starter import starter_file
from auditor.gating import known_names
from auditor.model import Options, Report
from auditor.pipeline import audit_window
from tests.gate import making
from tests.gate.making import NAMES, TODAY, measured, report, subject

FIXTURES = Path(__file__).parents[2] / "fixtures"
HOSTILE = "a\nb: [*x, {\"]}' # \x1b[31m\x85\u2028\u202e ::error::%0A *[?"


def demo() -> Report:
    pages = FIXTURES / "demo"
    inputs = Inputs(targets=(str(pages / "after.prom"),), before=str(pages / "before.prom"), seconds=175.1)
    return audit_window(collect(inputs), Options())


def test_the_starter_of_the_demo_passes_the_reader_and_its_own_limits_hold() -> None:
    found, names = demo(), known_names()
    text = starter_file(found, names, min_requests=30, min_coverage=0.9)
    file = parse_premises(text, file="premises.yaml", names=names)
    own = [p for p in file.premises if p.preset is None]
    assert {p.of for p in own} >= {"queue_share", "ttft_seconds", "e2e_seconds"}
    gate = judge_report(found, file, names, Terms(today=TODAY)).report.gate
    assert gate is not None
    assert {p["verdict"] for p in gate["premises"] if p["preset"] is None} == {"holds"}
    # 88.5 % of the demo's answers are cut off: no limit is proposed from that, and the file says it.
    assert "length_share" not in {p.of for p in own}
    assert "# today: answers complete: broken" in text


def test_everything_that_the_starter_shows_as_a_comment_reads_too() -> None:
    names = known_names()
    text = starter_file(demo(), names, min_requests=30, min_coverage=0.9)
    head, tail = text.split("  # Other kinds of premises:\n")
    shown = re.sub(r"^(\s*)# (?=- |waivers:|  - )", r"\1", tail, flags=re.M)
    file = parse_premises(head + shown, file="premises.yaml", names=names)
    assert {p.kind for p in file.premises} == {"reading", "audit", "before", "claim"}
    assert file.waivers[0].premise == "answers complete"


def test_hostile_labels_stay_inside_their_comment_and_their_quotes() -> None:
    share = measured("queue_share", 0.02, 0.01, 0.03)
    found = report(
        subject(share, labels={"engine": "vllm", "model": HOSTILE}, audits={"queueing": "broken"}),
        subject(share, labels={"engine": "vllm", "model": "m"}),
    )
    found = replace(found, window={**found.window, "source": HOSTILE})
    file = parse_premises(starter_file(found, NAMES, min_requests=30, min_coverage=0.9), file="p", names=NAMES)
    mine = [p for p in file.premises if p.preset is None]
    assert [p.selector["model"] for p in mine if p.selects(found.subjects[0].labels)] != []
    assert sum(p.selects(found.subjects[0].labels) for p in mine) == len(mine) // 2
    gate = judge_report(found, file, NAMES, Terms(today=TODAY)).report.gate
    assert gate is not None
    assert {p["verdict"] for p in gate["premises"] if p["preset"] is None} == {"holds"}


@pytest.mark.parametrize("found", [report(subject(requests=0)), report(subject(requests=None), subject(requests=3))])
def test_a_window_without_evidence_still_gives_a_file_that_reads(found: Report) -> None:
    file = parse_premises(starter_file(found, NAMES, min_requests=30, min_coverage=0.9), file="p", names=NAMES)
    assert [p.name for p in file.premises if p.preset is None] == ["engine alive"]


def load(text: str) -> Any:
    """As an editor would: dates stay text."""
    return yaml.load(text, Loader=yaml.BaseLoader) if "level: off" in text else _with_text_dates(yaml.safe_load(text))


def _with_text_dates(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _with_text_dates(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_text_dates(v) for v in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def test_the_schema_is_one_and_takes_what_the_reader_takes() -> None:
    from tests.gate.test_reader import WHOLE

    schema = premises_schema(NAMES)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for text in (WHOLE.replace("    level: off\n", ""), "extends: strict", "premises: [{audit: queueing}]"):
        making.parse(text)
        assert [e.message for e in validator.iter_errors(load(text))] == []
    starter = starter_file(demo(), known_names(), min_requests=30, min_coverage=0.9)
    real = Draft202012Validator(premises_schema(known_names()))
    assert [e.message for e in real.iter_errors(load(starter))] == []
    assert [e.message for e in validator.iter_errors(yaml.safe_load("premises: [{audit: queueing, level: off}]"))] == []


@pytest.mark.parametrize(
    "text",
    [
        "premisses: []",
        "extends: recomended",
        "premises: [{reading: lenght_share, at_most: 10%}]",
        "premises: [{reading: length_share}]",
        "premises: [{reading: length_share, at_most: 1%, at_least: 2%}]",
        "premises: [{reading: length_share, at_most: soon}]",
        "premises: [{reading: length_share, between: [1%]}]",
        "premises: [{reading: length_share, between: 1%}]",
        "premises: [{reading: queue_share, worse_than_baseline_by: 10}]",
        "premises: [{reading: ttft_seconds, at: p95, at_most: 2s}]",
        "premises: [{audit: queuing}]",
        "premises: [{audit: queueing, at_most: 1%}]",
        "premises: [{audit: queueing, belief: no queueing}]",
        "premises: [{audit: queueing, level: fatal}]",
        "premises: [{audit: queueing, on_undecided: pass}]",
        "premises: [{audit: queueing, for: {modle: m}}]",
        "premises: [{belief: decode dominate}]",
        "premises: [{before: batch-tokens}]",
        "premises: [{claim: {prefil_rate: 1}}]",
        "premises: [{claim: {prefill_rate: 1, prefill_share: 1}}]",
        "premises: [{name: x}]",
        "premises: {audit: queueing}",
        "min_requests: 0",
        "min_coverage: 2",
        "waivers: [{premise: x, until: '2027-01-31'}]",
        "waivers: [{premise: x, reason: y}]",
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(text: str) -> None:
    with pytest.raises(PremisesError):
        making.parse(text)
    assert list(Draft202012Validator(premises_schema(NAMES)).iter_errors(load(text)))
