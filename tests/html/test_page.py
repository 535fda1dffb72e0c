"""The page as text: self-contained, escaped, and saying what the report says."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from auditor.outputs import html
from auditor.outputs.text import RenderOptions

FOLDER = Path(__file__).parents[2] / "fixtures" / "reports" / "schema-1"
EVIL = "<script>alert(1)</script>\"'&$x^2$\u202e"


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def page_of(document: dict[str, Any]) -> str:
    return html.render(document, RenderOptions())


@cache
def page(name: str) -> str:
    """The page of a report as it was saved; made once, for its pictures take their time."""
    return page_of(load(name))


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    handle_startendtag = handle_starttag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag]


def test_nothing_runs_and_nothing_is_fetched() -> None:
    tags = Tags(page("nightly-22"))
    assert not tags.named("script")
    for tag, attributes in tags.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", tag
            if name in ("src", "href", "xlink:href", "srcset", "action"):
                assert value is not None
                assert value.startswith(("#", "data:,")), (tag, name, value)
    assert "@import" not in page("nightly-22")


def test_the_policy_allows_the_pages_own_style_and_nothing_else() -> None:
    text = page("audit-pair")
    policy = next(a for a in Tags(text).named("meta") if a.get("http-equiv") == "Content-Security-Policy")["content"]
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert text.count("<style") == 1


def test_every_label_is_escaped() -> None:
    """Whatever a page can name: models, targets, reasons, settings, finish reasons, configuration, warnings."""
    document = load("nightly-22")
    subject = document["subjects"][0]
    labels = {**subject["labels"], "model": EVIL}
    document["nights"]["subjects"][0]["labels"] = labels
    subject["labels"] = labels
    subject["facts"]["finish_reasons"] = {EVIL: 5.0, "stop": 10.0}
    subject["facts"]["engine_config"] = {EVIL: EVIL}
    subject["settings"] = {"budget": {"value": EVIL, "source": EVIL}}
    subject["claims"] = [
        {"claim": EVIL, "value": 1.0, "matches": [], "is_what_it_says": None, "right": {"reading": "x", "value": None},
         "summary": EVIL}
    ]  # fmt: skip
    for v in subject["audits"].values():
        v["summary"], v["verdict"], v["next"] = EVIL, "broken", [EVIL]
    for r in subject["readings"].values():
        r["caveats"] = [EVIL]
    document["targets"][0] |= {"address": EVIL, "state": "failed", "reason": EVIL}
    document["window"] |= {"source": EVIL, "warnings": [EVIL]}
    document["nights"]["notes"] = [EVIL]
    document["nights"]["missing_subjects"] = [{"labels": {"model": EVIL}, "last_seen": None}]
    for change in document["nights"]["subjects"][0]["changes"]:
        change["causes"] = [{"summary": EVIL, "at": None, "before": None, "kind": "setting", "name": EVIL}]
    text = page_of(document)
    assert "<script" not in text
    assert "\u202e" not in text
    assert not Tags(text).named("script")
    assert text.count("&lt;script&gt;") > 20
    assert len(Tags(text).named("section")) == 3


def test_a_picture_shows_a_label_as_it_is_and_no_formula() -> None:
    document = load("audit-pair")
    document["subjects"][0]["facts"]["finish_reasons"] = {"$x^2$": 5.0, "<b>": 5.0}
    text = page_of(document)
    assert "$x^2$" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text


def test_each_picture_has_a_name_a_caption_and_a_table() -> None:
    text = page("nightly-22")
    figures = re.findall(r"<figure.*?</figure>", text, re.S)
    assert len(figures) > 30
    for figure in figures:
        (svg,) = Tags(figure).named("svg")
        assert svg["role"] == "img"
        title = re.search(rf'<title id="{svg["aria-labelledby"]}">(.+?)</title>', figure)
        assert title is not None
        assert len(title[1]) > 20
        assert "<figcaption>" in figure
        assert figure.count("<tr>") >= 3
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_tables_hold_the_numbers_of_the_report() -> None:
    document = load("nightly-22")
    text = page_of(document)
    trend = document["nights"]["subjects"][0]["trends"]["ttft_seconds"]
    figure = next(f for f in re.findall(r"<figure.*?</figure>", text, re.S) if "<figcaption>ttft_seconds" in f)
    rows = re.findall(r"<tr><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>", figure)
    assert [r[0] for r in rows] == [t[:16].replace("T", " ") for t in trend["times"]]
    assert [r[1] for r in rows] == ["none" if v is None else f"{v:.3g}" for v in trend["values"]]


def test_verdicts_stand_above_the_pictures_and_broken_ones_first() -> None:
    text = page("audit-pair")
    assert text.index('class="verdicts"') < text.index("<figure")
    marks = re.findall(r'class="mark m-(\w+)"', text)
    assert marks == sorted(marks, key=["ERR", "NO", "open", "YES"].index)
    assert marks[0] == "NO"


def test_an_audit_has_the_same_page_without_the_nights() -> None:
    text = page("audit-pair")
    for part in (
        "Evidence: all readings",
        "<h3>Levers</h3>",
        "<h3>Caveats</h3>",
        "<h3>Claims</h3>",
        "Where request time goes",
    ):
        assert part in text
    assert "nights before" not in text
    assert "Trends over the nights" not in text


def test_a_series_shows_its_course() -> None:
    assert "Course of the window" in page("audit-series")
    assert "Course of the window" not in page("audit-pair")


def test_a_large_fleet_draws_the_urgent_ones() -> None:
    """Twenty quiet models, and last of all one that got worse."""
    document = load("nightly-22")
    chat, _, quiet = document["subjects"]
    worse, _, calm = document["nights"]["subjects"]
    many = [{**quiet["labels"], "model": f"m{i}"} for i in range(20)]
    document["subjects"] = [*({**quiet, "labels": labels} for labels in many), chat]
    document["nights"]["subjects"] = [*({**calm, "labels": labels} for labels in many), worse]
    text = page_of(document)
    sections = re.findall(r"<section.*?</section>", text, re.S)
    assert sum("<figure" in section for section in sections) == 12
    assert "<figure" in sections[-1]
    assert "Pictures are drawn for the 12 most urgent subjects; 9 have none here." in text


def test_a_dead_night_says_so() -> None:
    text = page("nightly-09")
    assert "No engine was measured, so there is no verdict." in text
    assert "was not seen tonight; last seen 2027-02-10 03:00" in text
    assert "connection was refused" in text


def test_the_same_report_gives_the_same_bytes() -> None:
    assert page_of(load("audit-series")) == page("audit-series")


def without(document: dict[str, Any], state: str) -> dict[str, Any]:
    """The report with no reading that has a value."""
    out = copy.deepcopy(document)
    for subject in out["subjects"]:
        for r in subject["readings"].values():
            r |= {"state": state, "value": None, "low": None, "high": None, "count": None, "reason": "because"}
            r.pop("buckets", None)
        subject["facts"] = {}
        subject["levers"] = {}
    return out


@pytest.mark.parametrize("state", ["no_traffic", "not_exported", "absent", "invalid", "failed", "bounded"])
def test_a_report_without_a_single_value_has_a_page(state: str) -> None:
    text = page_of(without(load("audit-pair"), state))
    assert "<figure" not in text
    assert "nan" not in text.lower().replace("finance", "").replace("tenant", "")
    assert (f"{state}: because" in text) or state == "bounded"
