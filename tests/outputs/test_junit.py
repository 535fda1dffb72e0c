"""JUnit XML: right cases for right verdicts, and XML whatever the labels are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml

from auditor.outputs.junit import render
from auditor.outputs.text import RenderOptions
from tests.outputs.documents import HOSTILE, audited, gated


def cases(document: Mapping[str, Any]) -> dict[str, str]:
    root = ElementTree.fromstring(render(document, RenderOptions()))
    out = {}
    for case in root.iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        out[case.get("name", "")] = kinds[0] if kinds else "passed"
        assert len(kinds) < 2
    return out


def test_a_gate() -> None:
    found = cases(gated())
    assert found == {
        "waits": "failure", "answers": "error", "soft": "skipped", "known": "skipped", "old": "failure",
        "engine-liveness": "passed", "metrics-integrity": "passed", "http://m": "skipped", "note 1": "skipped",
    }  # fmt: skip


def test_each_line_explains_itself_and_points_at_the_file() -> None:
    root = ElementTree.fromstring(render(gated(), RenderOptions()))
    (case,) = [c for c in root.iter("testcase") if c.get("name") == "waits"]
    assert (case.get("file"), case.get("line"), case.get("classname")) == ("premises.yaml", "2", "vllm, model m")
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("message") == "premises.yaml:2: expected at most 10 %, found 50 % (40 % .. 60 %, n 400)"


def test_counts_are_those_of_the_cases() -> None:
    xml = JUnitXml.fromstring(render(gated(), RenderOptions()))
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (9, 2, 1, 4)


def test_an_audit() -> None:
    assert cases(audited().to_json()) == {
        "queueing: no wait m": "failure",
        "preemption: none preempted": "skipped",
        "role: whole service": "skipped",
        "metrics-integrity: a premise": "passed",
        "engine-liveness: a premise": "passed",
        "http://m": "skipped",
    }


def test_nothing_measured_is_an_error() -> None:
    from tests.gate.making import judge, report

    bad: dict[str, Any] = {
        "address": "http://a",
        "state": "failed",
        "engine": None,
        "version": None,
        "reason": "refused",
        "flags": [],
    }
    result = judge(report(targets=[bad], coverage=0.0), "extends: strict")
    found = cases(result.report.with_exit_code(3).to_json())
    assert set(found.values()) == {"error"}
    assert {"evidence 1", "http://a", "engine alive"} <= set(found)


@pytest.mark.parametrize("document", [gated(HOSTILE), audited(HOSTILE).to_json()], ids=["gate", "audit"])
def test_hostile_labels(document: Mapping[str, Any]) -> None:
    data = render(document, RenderOptions())
    root = ElementTree.fromstring(data)
    assert len(list(root.iter("testcase"))) == len(list(ElementTree.fromstring(render(
        gated() if "gate" in document else audited().to_json(), RenderOptions())).iter("testcase")))  # fmt: skip
    text = "".join(root.itertext()) + "".join(v for e in root.iter() for v in e.attrib.values())
    assert "<script>" in text  # still readable, and text only
    assert not [e for e in root.iter() if e.tag == "script"]
    assert not any(ord(c) < 32 and c not in "\n\t" for c in text)
    assert "\u202e" not in text
