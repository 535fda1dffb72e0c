"""The walk-through of CONTRIBUTING, as it is written there, in a temporary copy: no line of Python is added."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program with the declarations and pages that CONTRIBUTING shows."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("auditor", "queries"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Add an engine", 1)[1]
    (declarations,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    before, after = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    (copy / "queries" / "acorn.toml").write_text(declarations, encoding="utf-8")
    (copy / "before.prom").write_text(before, encoding="utf-8")
    (copy / "after.prom").write_text(after, encoding="utf-8")
    return copy


def _run(copy: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("AUDITOR_")} | {"PYTHONPATH": str(copy)}
    return subprocess.run(
        [sys.executable, "-m", "auditor", *argv], cwd=copy, env=env, capture_output=True, text=True, check=False
    )


def test_its_page_is_audited(walk: Path) -> None:
    done = _run(walk, "audit", "after.prom", "--before", "before.prom", "--seconds", "60", "--as", "json")
    assert done.returncode == 0, done.stderr
    (subject,) = json.loads(done.stdout)["subjects"]
    assert subject["labels"] == {"engine": "acorn", "model": "oak"}
    readings = subject["readings"]
    assert readings["prefix_hit_share"]["value"] == 0.75
    assert readings["finished_requests"]["value"] == 40
    assert readings["prompt_tokens_per_wall_second"]["value"] == pytest.approx(8000 / 60)
    assert readings["ttft_seconds"]["state"] == "not_exported"
    assert "--trace" in readings["ttft_seconds"]["reason"]
    assert readings["length_share"]["reason"] == "Acorn counts ends without their reasons"
    for name, reading in readings.items():
        assert reading["value"] is not None or reading["reason"], name
    assert not [v for v in subject["audits"].values() if v["verdict"] == "error"]
    assert subject["audits"]["prefix-cache"]["verdict"] == "holds"


def test_it_is_listed_and_explained(walk: Path) -> None:
    assert "acorn" in _run(walk, "list", "engines").stdout
    explained = _run(walk, "explain", "acorn").stdout
    assert "acorn:prompt_tokens_reused_total" in explained
    assert "Acorn exports no time to first token" in explained


def test_the_others_are_as_they_were(walk: Path) -> None:
    """One more file changes no other engine's report."""
    page = str(ROOT / "fixtures" / "vllm" / "0.32.0" / "a-decode-heavy" / "after.prom")
    with_acorn = json.loads(_run(walk, "audit", page, "--as", "json").stdout)
    (walk / "queries" / "acorn.toml").rename(walk / "acorn.toml")
    try:
        without = json.loads(_run(walk, "audit", page, "--as", "json").stdout)
    finally:
        (walk / "acorn.toml").rename(walk / "queries" / "acorn.toml")
    assert with_acorn == without


def test_without_its_file_the_page_is_of_no_engine(walk: Path) -> None:
    (walk / "queries" / "acorn.toml").rename(walk / "acorn.toml")
    try:
        done = _run(walk, "audit", "after.prom")
    finally:
        (walk / "acorn.toml").rename(walk / "queries" / "acorn.toml")
    assert done.returncode == 3
    assert "not one of a known engine" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "counter"', 'kind = "tally"', "not one of"),
        ('across = "sum"\n', "", "no 'across'"),
        ('unit = "tokens"', 'unit = "tokens"\ncolour = "green"', "unknown keys"),
    ],
)
def test_a_wrong_declaration_names_its_file_and_table(walk: Path, old: str, new: str, words: str) -> None:
    file = walk / "queries" / "acorn.toml"
    right = file.read_text(encoding="utf-8")
    file.write_text(right.replace(old, new, 1), encoding="utf-8")
    try:
        done = _run(walk, "audit", "after.prom")
    finally:
        file.write_text(right, encoding="utf-8")
    assert done.returncode == 4
    assert "acorn.toml: [quantity.prompt_tokens]" in done.stderr
    assert words in done.stderr
