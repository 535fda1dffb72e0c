"""docs/premises.md: its example reads, its lists are the program's, its files exist."""

from __future__ import annotations

import re
from pathlib import Path

from auditor.gate.presets import BELIEFS, PRESETS
from auditor.gate.reader import CONDITION_KEYS, SUBJECT_KEYS, parse_premises
from auditor.gating import known_names

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "premises.md").read_text()


def test_the_example_passes_the_reader_and_uses_every_key() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.S)
    file = parse_premises(block, file="docs", names=known_names())
    assert {p.kind for p in file.premises} == {"reading", "audit", "before", "claim"}
    for key in (*SUBJECT_KEYS, *CONDITION_KEYS, "at:", "for:", "level:", "on_undecided:", "name:"):
        assert key in block


def test_lists_of_names_are_complete() -> None:
    flat = " ".join(TEXT.split())
    listed = re.search(r"Beliefs: (.*?)\. ", flat)
    assert listed
    assert re.findall(r"`([^`]+)`", listed[1]) == list(BELIEFS)
    preset = re.search(r"`recommended` has (.*?) as errors, and (.*?) as warnings", flat)
    assert preset
    for group, level in ((preset[1], "error"), (preset[2], "warn")):
        assert re.findall(r"\*([^*]+)\*", group) == [b for b, at in PRESETS["recommended"].items() if at == level]


def test_files_that_it_names_exist() -> None:
    for name in re.findall(r"`([a-z-]+\.(?:md|schema\.json))`", TEXT):
        assert (DOCS / name).is_file(), name
