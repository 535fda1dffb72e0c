"""The gate section of the terminal report."""

from __future__ import annotations

import pytest

from auditor.outputs.terminal import render
from auditor.outputs.text import RenderOptions
from tests.outputs.documents import HOSTILE, gated


def gate_lines(text: str) -> list[str]:
    lines = text.splitlines()
    (start,) = [i for i, line in enumerate(lines) if line.startswith("GATE ")]
    return lines[start:]


def test_what_decides_comes_first_with_its_place() -> None:
    lines = gate_lines(render(gated(), RenderOptions(width=160)))
    assert lines[0] == "GATE FAIL  7 premises: 3 broken (1 as a warning), 1 undecided, 1 waived, 2 hold"
    assert lines[1].split()[:2] == ["NO", "waits"]
    assert lines[1].endswith("expected at most 10 %, found 50 % (40 % .. 60 %, n 400)  premises.yaml:2")
    assert [line.split()[0] for line in lines[1:8]] == ["NO", "NO", "?", "WVD", "YES", "YES", "NO"]
    assert "warning: expected" in lines[7]
    assert "the waiver of old expired on 2026-01-31" in lines[8]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_it_fits_the_screen_and_shows_no_control_characters(width: int) -> None:
    for document in (gated(), gated(HOSTILE)):
        text = render(document, RenderOptions(width=width))
        assert all(len(line) <= width for line in gate_lines(text))
        assert not any(ord(c) < 32 and c != "\n" for c in text)
        assert "\u202e" not in text
