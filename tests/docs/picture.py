"""The picture in the README: the terminal report of ``auditor demo`` as rich draws it, in colour."""

from __future__ import annotations

import io
from collections.abc import Mapping

from auditor.cli.demo import demo_folder
from auditor.collect import Inputs, collect
from auditor.model import Options, Setting
from auditor.outputs import load_outputs
from auditor.outputs.text import RenderOptions
from auditor.pipeline import audit_window

COLUMNS = 80
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"


def picture_files() -> Mapping[str, str]:
    """``docs/pictures/demo.svg``; nothing in it is loaded from elsewhere."""
    return {"docs/pictures/demo.svg": _svg(_report(), title="auditor demo")}


def _report() -> str:
    """The report of ``auditor demo`` with its colours, as on a terminal of 80 columns."""
    folder = demo_folder()
    inputs = Inputs(
        targets=(str(folder / "after.prom"),),
        before=str(folder / "before.prom"),
        seconds=float((folder / "seconds.txt").read_text(encoding="utf-8")),
        settings={"budget": Setting(2048.0, "flag")},
    )
    document = audit_window(collect(inputs), Options()).to_json()
    text = load_outputs()["terminal"].render(document, RenderOptions(width=COLUMNS, colour=True))
    assert isinstance(text, str)
    return text


def _svg(text: str, *, title: str) -> str:
    import re

    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    # rich's own frame without the fonts that it would load from a web address.
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code, monospace", FONTS)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), legacy_windows=False)
    console.print(Text.from_ansi(text.rstrip("\n") + "\n"))
    svg = console.export_svg(title=title, code_format=form, unique_id="auditor-demo")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
