"""What every lever must have, whoever wrote it: its text, its costs, a reason for every end that is missing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from auditor.audits import load_audits
from auditor.levers import LeverFunction, load_levers
from auditor.measures.examples import example_subject
from auditor.measures.flags import ELSEWHERE, FLAGS
from auditor.measures.readings import READINGS
from auditor.model import Example, Lever, Options, Readings
from auditor.pipeline import read_subject

HEADINGS = ["What it touches:", "What it costs:", "When it is not worth a test:"]
EVERY = load_levers()
each = pytest.mark.parametrize(("name", "lever"), EVERY.items(), ids=list(EVERY))


def _source(lever: LeverFunction) -> Path:
    return Path(sys.modules[lever.__module__].__file__ or "")


def _windows() -> list[Readings]:
    """The windows of every audit's examples, and an empty one: a wide sample of what a page can say."""
    options = Options()
    examples = [e for module in load_audits().values() for e in module.EXAMPLES] + [Example("holds", "", {})]
    return [read_subject(example_subject(e, options), options) for e in examples]


WINDOWS = _windows()


def _found(lever: LeverFunction) -> list[Lever]:
    return [lever(readings, Options()) for readings in WINDOWS]


@each
def test_docstring_says_what_it_touches_costs_and_when_it_is_useless(name: str, lever: LeverFunction) -> None:
    paragraphs = (sys.modules[lever.__module__].__doc__ or "").strip().split("\n\n")
    assert [h for h in HEADINGS if any(p.startswith(h) for p in paragraphs[1:])] == HEADINGS


@each
def test_name_is_the_file_name_and_the_file_is_short(name: str, lever: LeverFunction) -> None:
    file = _source(lever)
    assert file.stem == name.replace("-", "_")
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    assert not re.search(r"\b(vllm|sglang|llamacpp)[:_][a-z]", text)
    assert all(found.lever == name for found in _found(lever))


@each
def test_it_rests_on_readings_and_flags_that_exist(name: str, lever: LeverFunction) -> None:
    known = {*READINGS, *FLAGS, *ELSEWHERE}
    for found in _found(lever):
        assert set(found.needs) <= known, found.needs


@each
def test_what_it_touches_are_readings(name: str, lever: LeverFunction) -> None:
    for found in _found(lever):
        assert set(found.touches) <= set(READINGS), found.touches
        assert found.touches or found.verdict == "not_applicable"


@each
def test_ranges_are_ranges_and_missing_ends_have_a_reason(name: str, lever: LeverFunction) -> None:
    for found in _found(lever):
        assert found.summary
        assert not re.search(r"nan|\binf\b|None|\be[+-]\d", found.summary), found.summary
        for low, high in (found.ceiling_speedup, found.ceiling_speedup_95):
            assert low is None or low >= 1
            assert low is None or high is None or low <= high
        if None in found.ceiling_speedup and found.verdict != "not_applicable":
            assert found.reason, found.summary
            assert found.settles, found.summary


@each
def test_the_rule_of_worth(name: str, lever: LeverFunction) -> None:
    """A test is worth it from the low end, useless by the high end: never by a wish."""
    worth = Options().worth
    for found in _found(lever):
        low, high = found.ceiling_speedup
        if found.verdict == "worth_a_test":
            assert low is not None
            assert low >= worth
            assert found.costs
        if found.verdict == "not_worth_a_test" and (low, high) != (None, None):
            assert high is not None


@each
def test_an_empty_window_gives_no_advice(name: str, lever: LeverFunction) -> None:
    assert lever(WINDOWS[-1], Options()).verdict in ("undecided", "not_applicable")
