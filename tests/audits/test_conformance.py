"""What every audit must have, whoever wrote it: its text, its examples, its readings, its size."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

import auditor.audits
from auditor.audits import Audit, audit_id, load_audits
from auditor.audits.judging import GRAVE
from auditor.measures.examples import example_subject
from auditor.measures.flags import ELSEWHERE, FLAGS
from auditor.measures.readings import READINGS
from auditor.model import Options, Verdict
from auditor.pipeline import read_subject, run_audit

HEADINGS = ["Premise:", "Why it matters:", "How it is measured:", "When it misleads:", "What to do:"]
CONTRACT = {
    "time-split", "prefix-cache", "length-truncation", "step-fill", "derived-rates", "queueing", "kv-pool",
    "preemption", "speculation", "request-accounting", "engine-liveness", "metrics-integrity", "role",
}  # fmt: skip
# The rate that is only ever refuted or left open: its other example is the open one.
NEVER_HOLDS = {"derived-rates"}

every_audit = pytest.mark.parametrize(("name", "module"), load_audits().items(), ids=list(load_audits()))


def verdicts(name: str, module: Audit) -> list[tuple[str, Verdict]]:
    options = Options()
    return [
        (e.verdict, run_audit(name, read_subject(example_subject(e, options), options), options))
        for e in module.EXAMPLES
    ]


def test_every_audit_of_the_contract_is_there() -> None:
    assert set(load_audits()) >= CONTRACT


@every_audit
def test_docstring_has_the_headings_in_order(name: str, module: Audit) -> None:
    paragraphs = module.__doc__.strip().split("\n\n")
    assert paragraphs[0].endswith("?"), "the first line is the question"
    assert [p.split(":")[0] + ":" for p in paragraphs[1:]] == HEADINGS


@every_audit
def test_name_is_the_file_name(name: str, module: Audit) -> None:
    file = Path(cast(ModuleType, module).__file__ or "")
    assert file.parent == Path(auditor.audits.__file__).parent
    assert file.stem == name.replace("-", "_")
    assert audit_id(cast(ModuleType, module)) == name
    assert all(v.audit == name for _, v in verdicts(name, module))


@every_audit
def test_file_is_short(name: str, module: Audit) -> None:
    text = Path(cast(ModuleType, module).__file__ or "").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300


@every_audit
def test_no_series_name_stands_in_an_audit(name: str, module: Audit) -> None:
    text = Path(cast(ModuleType, module).__file__ or "").read_text(encoding="utf-8")
    assert not re.search(r"\b(vllm|sglang|llamacpp)[:_][a-z]", text)


@every_audit
def test_needs_are_readings(name: str, module: Audit) -> None:
    assert module.NEEDS
    assert [n for n in module.NEEDS if n not in READINGS] == []


@every_audit
def test_examples_get_their_verdict(name: str, module: Audit) -> None:
    got = verdicts(name, module)
    assert [v.verdict for _, v in got] == [expected for expected, _ in got], [v.summary for _, v in got]


@every_audit
def test_one_example_holds_and_one_breaks(name: str, module: Audit) -> None:
    words = {e.verdict for e in module.EXAMPLES}
    assert "broken" in words
    assert ("undecided" if name in NEVER_HOLDS else "holds") in words


@every_audit
def test_verdicts_are_whole(name: str, module: Audit) -> None:
    for _, v in verdicts(name, module):
        assert v.premise
        assert v.question.endswith("?")
        assert v.summary
        assert v.expected
        assert v.found
        assert v.readings == tuple(module.NEEDS)
        assert not re.search(r"nan|inf\b|None|\be[+-]\d", v.summary), v.summary
        if v.verdict == "broken":
            assert v.severity == ("problem" if name in GRAVE else "warning")
            assert v.next, "a broken premise says what to do"
        else:
            assert v.severity == "info"


@every_audit
def test_flags_that_it_carries_exist(name: str, module: Audit) -> None:
    known = {*FLAGS, *ELSEWHERE}
    for _, v in verdicts(name, module):
        assert set(v.flags) <= known


@every_audit
def test_an_empty_window_is_no_error_and_no_verdict(name: str, module: Audit) -> None:
    """No quantity at all: nothing can be said, and nothing may be."""
    from tests.audits.running import judge

    for kind in ("lifetime", "scrapes", "series"):
        v = judge(name, {}, kind=kind, seconds=None)
        assert v.verdict in ("undecided", "not_applicable"), (kind, v.summary)
        assert v.summary
