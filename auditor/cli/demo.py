"""``auditor demo``: the main job on a recorded real page, nothing needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from auditor.cli.inputs import warn
from auditor.cli.writing import write_results, writing_options


def demo_folder() -> Path:
    """Where the recorded pages lie: inside an installed package, or in a checkout."""
    packaged = Path(__file__).resolve().parent.parent / "_data" / "demo"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "fixtures" / "demo"


@click.command("demo")
@writing_options
def command(**values: Any) -> int:
    """Audit two recorded pages of a real vLLM server.

    The same as: auditor audit --before before.prom after.prom --seconds 175.1 --budget 2048
    """
    from auditor.collect import Inputs, collect
    from auditor.model import Options, Setting
    from auditor.pipeline import audit_window

    folder = demo_folder()
    inputs = Inputs(
        targets=(str(folder / "after.prom"),),
        before=str(folder / "before.prom"),
        seconds=float((folder / "seconds.txt").read_text(encoding="utf-8")),
        settings={"budget": Setting(2048.0, "flag")},
    )
    report = audit_window(collect(inputs, say=warn), Options())
    return write_results(report.to_json(), values)
