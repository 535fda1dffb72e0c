"""The walk-throughs of CONTRIBUTING.md as they are written there: each adds one file to a temporary copy."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"```python\n# (auditor/\S+)\n(.*?)```", re.DOTALL)


def examples() -> dict[str, str]:
    return dict(FILE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The program and its conformance suites, and no file of ours added yet."""
    for folder in ("auditor", "queries", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    for file in ("pyproject.toml", ".importlinter"):
        shutil.copy(ROOT / file, tmp_path)
    return tmp_path


def add(copy: Path, folder: str) -> Path:
    ((name, text),) = [(n, t) for n, t in examples().items() if n.startswith(f"auditor/{folder}/")]
    (copy / name).write_text(text, encoding="utf-8")
    return copy / name


def python(copy: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AUDITOR_", "PYTEST_"))}
    env |= {"PYTHONPATH": str(copy), "COLUMNS": "100"}
    return subprocess.run([sys.executable, *argv], cwd=copy, env=env, capture_output=True, text=True, timeout=300)


def conforms(copy: Path, suite: str, name: str) -> None:
    """The suite passes, and it did look at the new one."""
    done = python(copy, "-m", "pytest", suite, "-vv", "-k", name)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    passed = re.findall(rf"\[[^\]]*{re.escape(name)}[^\]]*\] PASSED", done.stdout)
    assert len(passed) >= 6, done.stdout[-2000:]


def keeps_the_house_rules(copy: Path, file: Path) -> None:
    assert python(copy, "-m", "ruff", "check", str(file)).returncode == 0
    typed = python(copy, "-m", "mypy", "--strict", str(file))
    assert typed.returncode == 0, typed.stdout


def test_there_is_a_walk_for_each() -> None:
    assert {name.split("/")[1] for name in examples()} == {"audits", "levers", "outputs"}


def test_an_audit(copy: Path) -> None:
    file = add(copy, "audits")
    conforms(copy, "tests/audits/test_conformance.py", "error-ends")
    keeps_the_house_rules(copy, file)
    explained = python(copy, "-m", "auditor", "explain", "error-ends").stdout
    assert "EXAMPLE: broken" in explained
    # 60 of 1,000 is 6 %.
    assert "6 % ended in an error" in explained
    (subject,) = json.loads(python(copy, "-m", "auditor", "demo", "--as", "json").stdout)["subjects"]
    assert subject["audits"]["error-ends"]["verdict"] == "undecided"  # 0 of 260: at most 1.46 %, and 1 % is inside


def test_an_audit_without_its_text_does_not_conform(copy: Path) -> None:
    file = add(copy, "audits")
    file.write_text(file.read_text(encoding="utf-8").replace("When it misleads:", "Beware:"), encoding="utf-8")
    done = python(copy, "-m", "pytest", "tests/audits/test_conformance.py", "-k", "error-ends")
    assert done.returncode == 1
    assert "test_docstring_has_the_headings_in_order" in done.stdout


def test_a_lever(copy: Path) -> None:
    file = add(copy, "levers")
    conforms(copy, "tests/contributing/test_lever_conformance.py", "second-engine")
    keeps_the_house_rules(copy, file)
    (subject,) = json.loads(python(copy, "-m", "auditor", "demo", "--as", "json").stdout)["subjects"]
    assert subject["levers"]["second-engine"]["verdict"] == "undecided"
    assert "two engines" not in python(copy, "-m", "auditor", "list", "levers").stdout
    assert "Put a second engine on the same accelerator." in python(copy, "-m", "auditor", "list", "levers").stdout


def test_a_lever_that_promises_without_a_number_does_not_conform(copy: Path) -> None:
    file = add(copy, "levers")
    text = file.read_text(encoding="utf-8").replace('verdict="undecided"', 'verdict="worth_a_test"')
    file.write_text(text, encoding="utf-8")
    done = python(copy, "-m", "pytest", "tests/contributing/test_lever_conformance.py", "-k", "second-engine")
    assert done.returncode == 1
    assert "test_the_rule_of_worth" in done.stdout


def test_an_output(copy: Path) -> None:
    file = add(copy, "outputs")
    conforms(copy, "tests/contributing/test_output_conformance.py", "csv")
    keeps_the_house_rules(copy, file)
    done = python(copy, "-m", "auditor", "demo", "--as", "csv")
    assert done.returncode == 0, done.stderr
    rows = {row["reading"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert rows["finished_requests"]["value"] == "260.0"
    assert rows["finished_requests"]["subject"] == "vllm/tiny"
    assert all(row["value"] or row["low"] or row["high"] or row["reason"] for row in rows.values())
    boots = str(ROOT / "fixtures" / "boot_logs" / "constructed" / "published-budget.log")
    refused = python(copy, "-m", "auditor", "boots", boots, "--as", "csv")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "csv has no form for a boots document" in refused.stderr


def test_an_output_that_lets_control_characters_through_does_not_conform(copy: Path) -> None:
    file = add(copy, "outputs")
    file.write_text(
        file.read_text(encoding="utf-8").replace("text = safe(value)", "text = str(value)"), encoding="utf-8"
    )
    done = python(copy, "-m", "pytest", "tests/contributing/test_output_conformance.py", "-k", "csv")
    assert done.returncode == 1
    assert "test_no_control_or_direction_character_comes_out" in done.stdout
