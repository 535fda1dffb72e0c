"""Markdown, read back by a CommonMark parser: tables keep their cells, and labels stay text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from auditor.outputs.markdown import escape, render
from auditor.outputs.text import RenderOptions
from tests.outputs.documents import HOSTILE, audited, gated

PARSER = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table").enable("strikethrough")


def tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, as text."""
    found: list[list[str]] = []
    inside = False
    for token in PARSER.parse(text):
        if token.type == "tr_open":
            found.append([])
        elif token.type in ("td_open", "th_open"):
            inside = True
        elif token.type == "inline" and inside:
            found[-1].append("".join(c.content for c in token.children or ()))
            inside = False
    return found


def test_a_gate_stands_first_with_its_lines() -> None:
    text = render(gated(), RenderOptions())
    assert text.startswith("## Gate: fail\n")
    table = {row[1]: row for row in rows(text) if len(row) == 6}
    assert table["waits"] == ["broken", "waits", "at most 10 %", "50 % (40 % .. 60 %, n 400)", "", "premises.yaml:2"]
    assert table["answers"][4] == "nothing finished m"
    assert table["soft"][0] == "broken (warning)"
    assert "expired on 2026-01-31" in text
    assert "7 premises: 3 broken (1 as a warning), 1 undecided, 1 waived, 2 hold." in text


def test_an_audit() -> None:
    text = render(audited().to_json(), RenderOptions())
    found = rows(text)
    assert ["NO", "Do requests wait?", "half m", "at most 0.1", "0.5"] in found
    assert ["queue_share", "50 % (40 % .. 60 %, n 400)"] in found
    assert ["prefill_share", "20 % to no limit (n 400)"] in found
    assert ["batched-tokens", "undecided", "at least 1.1x, no upper limit", "sum m"] in found
    assert "Without a value here: length\\_share, decode\\_share." in text


@pytest.mark.parametrize("document", [gated(HOSTILE), audited(HOSTILE).to_json()], ids=["gate", "audit"])
def test_hostile_labels_stay_text(document: Mapping[str, Any]) -> None:
    text = render(document, RenderOptions())
    plain = render(gated() if "gate" in document else audited().to_json(), RenderOptions())
    assert [len(r) for r in rows(text)] == [len(r) for r in rows(plain)]
    kinds = [t.type for t in tokens(text)]
    assert kinds.count("html_block") == 2  # our own <details> and its end
    assert not {"html_inline", "code_inline", "link_open", "image", "em_open", "strong_open", "fence", "s_open"} & set(
        kinds
    )
    assert kinds.count("heading_open") == [t.type for t in tokens(plain)].count("heading_open")
    assert any("<script>alert(1)</script>" in cell for row in rows(text) for cell in row)


@pytest.mark.parametrize(
    "text", ["# h", "- x", "+ x", "> q", "1. x", "1) x", "===", "---", "a|b", "``` x", "~~~ x", "    code", "*", "\\"]
)
def test_a_value_alone_is_a_paragraph(text: str) -> None:
    assert {t.type for t in PARSER.parse("before\n\n" + escape(text) + "\n")} <= {
        "paragraph_open", "inline", "paragraph_close",
    } or text == "    code"  # fmt: skip
    assert [len(r) for r in rows(f"| a |\n|---|\n| {escape(text)} |\n")] == [1, 1]
