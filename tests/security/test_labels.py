"""A label that means harm, from a page to every output; each output is read by a second reader of its format."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from auditor.entry import run
from tests.security.hostile import NAMES, write_pair

each_name = pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def audit(folder: Path, name: str, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["audit", *write_pair(folder, name), "--as", form]) == 0
    shown = capsys.readouterr()
    assert not CONTROL.findall(shown.err)
    return shown.out


@each_name
def test_json_keeps_it_as_it_is(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (subject,) = json.loads(audit(tmp_path, name, "json", capsys))["subjects"]
    assert subject["labels"]["model"] == name
    assert subject["readings"]["finished_requests"]["value"] == 260


@each_name
@pytest.mark.parametrize("form", ["terminal", "json", "markdown", "html", "github", "junit"])
def test_no_control_character_reaches_a_screen(
    name: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not CONTROL.findall(audit(tmp_path, name, form, capsys))


@each_name
def test_markdown_stays_text(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = MarkdownIt("commonmark").enable("table")

    def kinds(text: str) -> list[str]:
        return [t.type for token in parser.parse(text) for t in (token, *(token.children or ()))]

    harmless, harmful = audit(tmp_path, "m", "markdown", capsys), audit(tmp_path, name, "markdown", capsys)
    for kind in ("html_inline", "html_block", "link_open", "image", "heading_open", "td_open", "code_inline", "fence"):
        assert kinds(harmful).count(kind) == kinds(harmless).count(kind), kind


@each_name
def test_xml_is_whole_and_has_no_other_elements(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def tags(text: str) -> list[str]:
        return [element.tag for element in ElementTree.fromstring(text).iter()]

    assert tags(audit(tmp_path, name, "junit", capsys)) == tags(audit(tmp_path, "m", "junit", capsys))


@each_name
def test_annotations_are_those_of_the_report(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def levels(text: str) -> list[str]:
        return [line.split(" ")[0].split("::")[1] for line in text.splitlines()]

    assert levels(audit(tmp_path, name, "github", capsys)) == levels(audit(tmp_path, "m", "github", capsys))


@each_name
def test_prometheus_text_has_the_same_series(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def series(text: str) -> list[tuple[str, frozenset[tuple[str, str]]]]:
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        return [(s.name, frozenset((k, v) for k, v in s.labels.items() if k != "model")) for s in samples]

    harmful = audit(tmp_path, name, "prometheus", capsys)
    assert series(harmful) == series(audit(tmp_path, "m", "prometheus", capsys))
    models = {
        s.labels["model"] for f in text_string_to_metric_families(harmful) for s in f.samples if "model" in s.labels
    }
    assert len(models) == 1


@each_name
def test_html_holds_it_as_text(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a browser makes of it is in ``tests/html``; here: no tag and no attribute comes out of it."""
    from html.parser import HTMLParser

    class Tags(HTMLParser):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.found: list[str] = []
            self.feed(text)

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            self.found.append(tag)
            assert not any(key.startswith("on") for key, _ in attributes)

    def outside_pictures(text: str) -> list[str]:
        return Tags(re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)).found

    text = audit(tmp_path, name, "html", capsys)
    assert "script" not in Tags(text).found
    assert outside_pictures(text) == outside_pictures(audit(tmp_path, "m", "html", capsys))


@each_name
def test_a_spreadsheet_sees_no_formula(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "audits.db")
    pair = write_pair(tmp_path, name)
    assert (
        run(["nightly", *pair, "--at", "2026-11-29T03:00:00Z", "--store", store, "--out", str(tmp_path / "out")]) == 0
    )
    capsys.readouterr()
    assert run(["history", "export", "--store", store]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert len({len(row) for row in rows}) == 1
    for cell in (cell for row in rows for cell in row):
        assert not re.match(r"[=+@\t\r]|-(?![\d.])", cell), cell


@each_name
def test_no_label_names_a_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = tmp_path / "a" / "b" / "c" / "d"
    work.mkdir(parents=True)
    pair = write_pair(work, name)
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    assert run(["nightly", *pair, "--at", "2026-11-29T03:00:00Z", "--store", str(work / "audits.db"), "--out",
                str(work / "out")]) == 0  # fmt: skip
    new = {p.relative_to(work) for p in tmp_path.rglob("*") if p.is_file()} - {p.relative_to(work) for p in before}
    assert {p.parts[0] for p in new} <= {"out", "audits.db"}
    assert all(
        re.fullmatch(r"(latest|20261129T030000Z|2026-11-29T030000Z)\.\w+", p.name) for p in new if p.parts[0] == "out"
    )
