"""What is built installs and runs from an empty folder, without this checkout and without a test library."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from auditor import __version__
from auditor.audits import load_audits
from tests.packaging.building import ROOT, build, make_environment, project, run, runtime_closure


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def bin_of_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("environment") / "v", wheel)


def test_the_wheel_holds_the_program_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names} == {"auditor", f"premise_auditor-{__version__}.dist-info"}
    assert {"auditor/py.typed", "auditor/outputs/templates/report.html.j2"} <= set(names)
    for folder in ("queries", "fixtures/demo"):
        inside = f"auditor/_data/{Path(folder).name}/"
        there = {str(p.relative_to(ROOT / folder)) for p in (ROOT / folder).rglob("*") if p.is_file()}
        assert {n.removeprefix(inside) for n in names if n.startswith(inside)} == there
    code = {str(p.relative_to(ROOT)) for p in (ROOT / "auditor").rglob("*.py")}
    assert {n for n in names if n.endswith(".py")} == code
    assert any(n.endswith("/licenses/LICENSE") for n in names)


def test_the_sdist_holds_what_a_wheel_is_made_of(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as tar:
        tar.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert {p.name for p in source.iterdir()} <= {
        "auditor", "queries", "fixtures", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO",
        ".gitignore",
    }  # fmt: skip
    (tmp_path / "out").mkdir()
    again = build("wheel", tmp_path / "out", source=source)
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_what_is_built_names_no_place_of_the_machine_that_built_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            assert str(ROOT).encode() not in archive.read(name), name


def test_no_test_library_comes_along() -> None:
    assert not {"pytest", "hypothesis", "responses", "jsonschema", "mypy", "ruff"} & set(
        runtime_closure(project()["dependencies"])
    )


def test_every_dependency_is_used_and_every_import_declared() -> None:
    names = {"prometheus-client": "prometheus_client", "pyyaml": "yaml"}
    declared = {
        names.get(n, n) for n in (re.split(r"[^A-Za-z0-9-]", text, maxsplit=1)[0] for text in project()["dependencies"])
    }
    imported = {
        match[1]
        for file in (ROOT / "auditor").rglob("*.py")
        for match in re.finditer(r"^\s*(?:from|import) (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert declared <= imported
    # numpy comes with pandas and markupsafe with jinja2, which are asked for.
    assert imported - declared - set(sys.stdlib_module_names) - {"auditor", "numpy", "markupsafe"} == set()


def test_version(bin_of_wheel: Path, tmp_path: Path) -> None:
    for done in (
        run(bin_of_wheel / "auditor", "--version", cwd=tmp_path),
        run(bin_of_wheel / "python", "-m", "auditor", "--version", cwd=tmp_path),
    ):
        assert (done.returncode, done.stdout) == (0, f"premise-auditor {__version__}\n"), done.stderr
    assert project()["version"] == __version__


def test_the_demo_is_the_one_of_the_checkout(bin_of_wheel: Path, tmp_path: Path) -> None:
    done = run(bin_of_wheel / "auditor", "demo", "--as", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (subject,) = json.loads(done.stdout)["subjects"]
    assert subject["readings"]["finished_requests"]["value"] == 260
    assert subject["audits"].keys() == load_audits().keys()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["terminal", "markdown", "html", "junit", "github", "prometheus", "png"])
def test_every_format_works_without_a_test_library(bin_of_wheel: Path, tmp_path: Path, form: str) -> None:
    done = run(bin_of_wheel / "auditor", "demo", "--output", f"{form}=report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report").stat().st_size > 100


def test_explain_and_list(bin_of_wheel: Path, tmp_path: Path) -> None:
    assert "SERIES (vLLM)" in run(bin_of_wheel / "auditor", "explain", "time-split", cwd=tmp_path).stdout
    engines = run(bin_of_wheel / "auditor", "list", "engines", cwd=tmp_path).stdout
    assert {line.split()[0] for line in engines.splitlines()} >= {p.stem for p in (ROOT / "queries").glob("*.toml")} - {
        "refused"
    }


def test_it_does_not_see_the_checkout(bin_of_wheel: Path, tmp_path: Path) -> None:
    done = run(bin_of_wheel / "python", "-c", "import auditor, sys; print(auditor.__file__)", cwd=tmp_path)
    assert str(ROOT) not in done.stdout


def test_types_are_seen(bin_of_wheel: Path) -> None:
    (site,) = bin_of_wheel.parent.glob("lib/python*/site-packages")
    assert (site / "auditor" / "py.typed").is_file()
    assert "Typing :: Typed" in project()["classifiers"]
