"""What every output must do, whoever wrote it: show each report ever written, change nothing, trust no label."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from auditor.model import UsageError
from auditor.outputs import load_outputs
from auditor.outputs.text import RenderOptions
from tests.outputs.documents import HOSTILE, audited, gated

REPORTS = sorted((Path(__file__).parents[2] / "fixtures" / "reports").glob("schema-*/*.json"))
DOCUMENTS: dict[str, dict[str, Any]] = {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in REPORTS}
DOCUMENTS |= {"hostile-audit": dict(audited(HOSTILE).to_json()), "hostile-gate": dict(gated(HOSTILE))}
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
BINARY = {"png"}
each_output = pytest.mark.parametrize("name", sorted(load_outputs()))
each_document = pytest.mark.parametrize("document", DOCUMENTS.values(), ids=list(DOCUMENTS))


def _render(name: str, document: dict[str, Any]) -> str | bytes:
    try:
        return load_outputs()[name].render(document, RenderOptions(width=100))
    except UsageError as error:
        if "has no form" not in str(error):
            raise
        pytest.skip(str(error))


def _text(rendered: str | bytes) -> str:
    return rendered if isinstance(rendered, str) else rendered.decode("utf-8")


@each_output
@each_document
def test_every_report_is_shown_and_left_as_it_was(name: str, document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    rendered = _render(name, document)
    assert rendered
    assert document == before


@each_output
def test_the_same_report_gives_the_same_bytes(name: str) -> None:
    assert _render(name, DOCUMENTS["audit-pair"]) == _render(name, DOCUMENTS["audit-pair"])


@each_output
@pytest.mark.parametrize("document", ["hostile-audit", "hostile-gate"])
def test_no_control_or_direction_character_comes_out(name: str, document: str) -> None:
    if name in BINARY:
        pytest.skip("a picture")
    rendered = _text(_render(name, DOCUMENTS[document]))
    assert not HARMFUL.findall(rendered)


@each_output
@each_document
def test_no_number_that_is_none(name: str, document: dict[str, Any]) -> None:
    if name in BINARY:
        pytest.skip("a picture")
    rendered = _text(_render(name, document))
    assert not re.search(r"(?<![\w-])(nan|NaN|inf|Infinity)(?![\w-])", rendered)


@each_output
def test_what_has_no_value_is_no_zero(name: str) -> None:
    """The report with every reading missing shows no more zeros than words about what is missing."""
    document = copy.deepcopy(DOCUMENTS["audit-pair"])
    for subject in document["subjects"]:
        for reading in subject["readings"].values():
            reading |= {"state": "no_traffic", "value": None, "low": None, "high": None, "reason": "nothing came"}
    if name in BINARY:
        assert _render(name, document)
        return
    assert not re.search(r"prefill_share\W+0(\.0)?\b", _text(_render(name, document)))
