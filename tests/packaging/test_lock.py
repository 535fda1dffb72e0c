"""requirements.lock: every runtime dependency, exactly, within what pyproject.toml claims."""

from __future__ import annotations

import re

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.packaging.building import ROOT, project, runtime_closure
from tests.packaging.oldest import oldest_requirements

LINES = [
    line for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines() if not line.startswith("#")
]


def locked() -> dict[str, Version]:
    matches = [re.fullmatch(r"([a-z0-9.-]+)==([0-9A-Za-z.]+)", line) for line in LINES]
    assert all(matches), LINES  # a name and a version, no address of an index, no path
    return {m[1]: Version(m[2]) for m in matches if m}


def test_the_lock_names_what_is_needed_and_no_more() -> None:
    assert set(locked()) == set(runtime_closure(project()["dependencies"]))
    assert sorted(LINES, key=lambda line: line.split("==")[0]) == LINES


def test_locked_versions_are_within_the_claim() -> None:
    versions = locked()
    for text in project()["dependencies"]:
        requirement = Requirement(text)
        assert versions[requirement.name.lower()] in requirement.specifier, text


def test_every_claim_has_an_oldest_version() -> None:
    assert len(oldest_requirements()) == len(project()["dependencies"])


def test_claimed_pythons_are_the_tested_ones() -> None:
    assert SpecifierSet(project()["requires-python"]) == SpecifierSet(">=3.11")
    claimed = {c.rsplit(" ", 1)[1] for c in project()["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    assert claimed == {"3.11", "3.12", "3.13"}
