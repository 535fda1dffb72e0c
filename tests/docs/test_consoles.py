"""Every run that a page shows is what the program prints today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.consoles import ROOT, Step, read_steps, rewritten, run_steps, with_blocks


@pytest.mark.parametrize("page", with_blocks(), ids=lambda p: p.name)
def test_runs_print_what_the_page_shows(page: Path) -> None:
    steps = read_steps(page)
    for step, now in zip(steps, run_steps(steps), strict=True):
        assert now == step.shown, f"{step.page}:{step.line}: $ {step.command}\nrun: python -m tests.docs --write"


def test_the_pages_that_must_show_runs_do() -> None:
    names = {page.name for page in with_blocks()}
    assert {"README.md", "story.md"} <= names
    commands = " ".join(step.command for step in read_steps(ROOT / "README.md"))
    assert "docs/pictures/demo.svg" in (ROOT / "README.md").read_text(encoding="utf-8")  # auditor demo, drawn
    for use in ("auditor audit", "auditor nightly", "auditor gate"):
        assert use in commands


def test_a_block_is_read_as_a_terminal_shows_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("words\n\n```console\n$ auditor a \\\n  b\none\ntwo\n$ echo $?\n3\n```\n", encoding="utf-8")
    assert read_steps(page) == [
        Step("page.md", 4, "auditor a \\\n  b", "one\ntwo\n"),
        Step("page.md", 8, "echo $?", "3\n"),
    ]


def test_a_stale_page_is_found_and_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ auditor no-such\nold\n$ echo $?\n9\n```\n", encoding="utf-8")
    new = rewritten(page)
    assert new.startswith("```console\n$ auditor no-such\nauditor: there is no command 'no-such'")
    assert new.endswith("\n$ echo $?\n2\n```\n")


@pytest.mark.parametrize("text", ["output first\n", "$ rm -rf x\n", "$ pip install x\n"])
def test_only_our_commands_may_be_shown(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n{text}```\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md:2"):
        read_steps(page)
