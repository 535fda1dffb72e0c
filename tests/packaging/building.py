"""Build the wheel and the sdist, and lay out environments that hold one and its runtime dependencies only."""

from __future__ import annotations

import importlib.metadata as metadata
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


def project() -> dict[str, Any]:
    declared: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return declared


def build(target: str, out: Path, *, source: Path = ROOT) -> Path:
    """``wheel`` or ``sdist`` of a source tree, without a network."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)],
        cwd=source, check=True, capture_output=True,
    )  # fmt: skip
    (built,) = out.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def runtime_closure(requirements: Iterable[str]) -> dict[str, metadata.Distribution]:
    """Every installed distribution that these requirements bring, by name: no test library among them."""
    found: dict[str, metadata.Distribution] = {}
    queue = [Requirement(text) for text in requirements]
    while queue:
        requirement = queue.pop()
        name = requirement.name.lower().replace("_", "-")
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[name] = metadata.distribution(requirement.name)
        queue += [Requirement(text) for text in found[name].requires or ()]
    return found


def make_environment(folder: Path, built: Path) -> Path:
    """A fresh virtual environment with a built wheel or sdist, and links to its runtime dependencies; its ``bin``."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for distribution in runtime_closure(project()["dependencies"]).values():
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            link = site / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-deps",
         "--no-index", "--disable-pip-version-check", str(built)],
        check=True,
    )  # fmt: skip
    return folder / "bin"


def run(binary: Path, *argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program with nothing of this checkout in its environment."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AUDITOR_", "PYTHON"))} | {"COLUMNS": "80"}
    return subprocess.run([str(binary), *argv], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
