"""Workflow commands: read back with the runner's own rules, none can be smuggled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from auditor.outputs.github import render
from auditor.outputs.text import RenderOptions
from tests.outputs.documents import HOSTILE, audited, gated


def parse(line: str) -> tuple[str, dict[str, str], str]:
    """As the runner reads a command: ActionCommand.TryParseV2 of actions/runner."""
    match = re.fullmatch(r"::([a-z-]+)(?: ([^:]*(?::(?!:)[^:]*)*))?::(.*)", line)
    assert match, line

    def unescape(text: str) -> str:
        for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            text = text.replace(code, char)
        return text

    pairs = dict(p.split("=", 1) for p in (match[2] or "").split(",") if p)
    return match[1], {k: unescape(v) for k, v in pairs.items()}, unescape(match[3])


def commands(document: Mapping[str, Any]) -> list[tuple[str, dict[str, str], str]]:
    text = render(document, RenderOptions())
    assert text.endswith("\n")
    return [parse(line) for line in text.splitlines()]


def test_a_gate_annotates_the_lines_of_the_users_file() -> None:
    found = {p["title"]: (level, p.get("file"), p.get("line"), p.get("col")) for level, p, _ in commands(gated())}
    assert found["broken: waits"] == ("error", "premises.yaml", "2", "5")
    assert found["undecided: answers"] == ("error", "premises.yaml", "3", "5")
    assert found["broken (warning): soft"] == ("warning", "premises.yaml", "4", "5")
    assert found["waived: known"] == ("notice", "premises.yaml", "5", "5")
    assert not [title for title in found if "engine-liveness" in title]
    level, _, message = commands(gated())[-1]
    assert (level, message) == (
        "error", "gate fail: 7 premises: 3 broken (1 as a warning), 1 undecided, 1 waived, 2 hold",
    )  # fmt: skip
    messages = [m for _, p, m in commands(gated()) if p["title"] == "broken: waits"]
    assert messages == ["vllm, model m: expected at most 10 %, found 50 % (40 % .. 60 %, n 400)"]


def test_an_expired_waiver_is_said() -> None:
    assert any(
        "waiver of old expired on 2026-01-31 and has no effect (premises.yaml:11)" in m for _, _, m in commands(gated())
    )


def test_an_audit() -> None:
    assert [(level, p["title"]) for level, p, _ in commands(audited().to_json())] == [
        ("warning", "target not measured"),
        ("warning", "queueing: no wait m: broken"),
        ("notice", "premise-auditor"),
    ]


@pytest.mark.parametrize("document", [gated(HOSTILE), audited(HOSTILE).to_json()], ids=["gate", "audit"])
def test_hostile_labels_stay_values(document: Mapping[str, Any]) -> None:
    plain = gated() if "gate" in document else audited().to_json()
    assert [level for level, _, _ in commands(document)] == [level for level, _, _ in commands(plain)]
    for level, properties, _ in commands(document):
        assert level in ("error", "warning", "notice")
        assert set(properties) <= {"file", "line", "col", "title"}
        assert properties.get("file", "premises.yaml") == "premises.yaml"
    assert all(ord(c) >= 32 for line in render(document, RenderOptions()).splitlines() for c in line)
    # The label's own percent code stays the three characters it is.
    assert any("%0A::error::x" in m for _, _, m in commands(document))
