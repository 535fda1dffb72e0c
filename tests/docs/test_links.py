"""Links of README, CONTRIBUTING and docs lead somewhere, and every page of docs/ can be reached from README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.consoles import ROOT, pages

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ALL = [*pages(), ROOT / "CONTRIBUTING.md"]


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [target for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)) if "://" not in target]


def anchors(page: Path) -> set[str]:
    return {
        re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-")
        for h in HEADING.findall(page.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize("page", ALL, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path) if path else page
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), target


def test_every_page_is_reached_from_the_readme() -> None:
    reached, queue = set(), [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        queue += [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
    assert {p.name for p in (ROOT / "docs").glob("*.md")} <= {p.name for p in reached}
