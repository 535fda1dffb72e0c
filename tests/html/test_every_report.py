"""Reports of every schema ever written are shown in every format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from auditor.model import SCHEMA
from auditor.outputs import load_outputs
from auditor.outputs.text import RenderOptions

FOLDER = Path(__file__).parents[2] / "fixtures" / "reports"
REPORTS = sorted(FOLDER.glob("schema-*/*.json"))


def test_there_is_a_folder_for_every_schema() -> None:
    assert sorted(p.name for p in FOLDER.glob("schema-*")) == [f"schema-{n}" for n in range(1, SCHEMA + 1)]
    for path in REPORTS:
        assert json.loads(path.read_text())["schema"] == int(path.parent.name.removeprefix("schema-"))
    kinds = {json.loads(p.read_text())["kind"] for p in REPORTS}
    assert {"audit", "compare", "boots", "step", "history", "doctor"} <= kinds


@pytest.mark.parametrize("format_", sorted(load_outputs()))
@pytest.mark.parametrize("path", REPORTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_in_every_format(path: Path, format_: str) -> None:
    rendered = load_outputs()[format_].render(json.loads(path.read_text()), RenderOptions(width=100))
    assert rendered, "nothing was shown"
    if format_ == "json":
        assert isinstance(rendered, str)
        assert json.loads(rendered) == json.loads(path.read_text())
    elif format_ == "junit":
        ElementTree.fromstring(rendered)
    elif format_ == "png":
        assert isinstance(rendered, bytes)
        assert rendered.startswith(b"\x89PNG\r\n\x1a\n")


def test_render_takes_them_and_ends_with_0() -> None:
    """The code is that of rendering, not that of the report: this one was a failed gate."""
    for name, format_ in (("gate", "html"), ("nightly-09", "markdown"), ("step", "png")):
        path = FOLDER / "schema-1" / f"{name}.json"
        done = subprocess.run(
            [sys.executable, "-m", "auditor", "render", str(path), "--as", format_], capture_output=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
