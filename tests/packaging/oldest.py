"""Makes a virtual environment with the oldest dependencies that pyproject.toml claims, and runs all tests in it.

By hand, for it installs from a package registry and takes some minutes.

    python -m tests.packaging.oldest [--venv DIR] [PYTEST-ARGUMENT...]

Left out are three tests that hold the environment itself against this project's pinned one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("numpy==1.26.0",)
"""Of the time of the oldest pandas, which names no newest numpy although it cannot work with numpy 2."""
FOR_TESTS = (
    "pytest", "pytest-benchmark", "hypothesis", "responses", "jsonschema", "markdown-it-py", "playwright",
    "axe-playwright-python", "hatchling", "packaging", "scipy", "import-linter", "ruff>=0.17.6,<0.18", "mypy>=2.4,<2.5",
    "types-requests", "types-PyYAML", "types-jsonschema", "pandas-stubs",
)  # fmt: skip
LEFT_OUT = (
    # The picture in the README is what the newest rich draws.
    "tests/test_generated.py::test_every_generated_file_is_up_to_date",
    # requirements.lock is of the newest versions, some of which need other packages.
    "tests/packaging/test_lock.py::test_the_lock_names_what_is_needed_and_no_more",
    # The simulator's dice are numpy's, and another numpy rolls others. The program itself rolls none.
    "tests/nightly/test_month.py::test_the_fixture_is_what_the_simulator_makes",
)


def oldest_requirements() -> list[str]:
    """``name==lower bound`` for every runtime dependency.

    Raises:
        ValueError: a dependency without a lower bound.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = []
    for text in project["dependencies"]:
        match = re.fullmatch(r"([A-Za-z0-9_-]+)>=([0-9.]+)(?:,<[0-9.]+)?", text)
        if match is None:
            raise ValueError(f"{text!r} names no oldest version")
        version = match[2] if match[2].count(".") > 1 else f"{match[2]}.0"
        pinned.append(f"{match[1]}=={version}")
    return pinned


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.oldest", description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-oldest", help="where the environment is made")
    known, rest = parser.parse_known_args()
    python = known.venv / "bin" / "python"
    if not python.exists():
        venv.create(known.venv, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *oldest_requirements(), *BESIDE, *FOR_TESTS], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)
    tests = rest or ["tests", *(f"--deselect={name}" for name in LEFT_OUT)]
    return subprocess.run([str(python), "-m", "pytest", *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
