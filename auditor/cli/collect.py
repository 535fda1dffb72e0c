"""``auditor collect``: gather a window and save it; nothing is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from auditor.cli.ending import earn
from auditor.cli.inputs import gather, input_options, warn
from auditor.cli.options import DURATION, judging_options, option, read_options
from auditor.cli.writing import write_file, write_stdout


@click.command("collect")
@input_options
@judging_options
@option("-o", "--out", default="-", metavar="FILE", help="Where the window goes; - is stdout.")
@option("--split", type=DURATION, metavar="15m", help="Cut a series or range into repeats: window-01.json ...")
def command(out: str, split: float | None, **values: Any) -> int:
    """Gather a window into a file that auditor audit, gate and compare read without a network."""
    read_options(values)
    window = gather(values)
    from auditor.model import UsageError, dump_json
    from auditor.pipeline import TOOL
    from auditor.saved import window_to_json

    measured = any(t.state == "measured" for t in window.targets)
    code = earn(0 if measured else 3)
    for target in window.targets:
        if target.state != "measured":
            warn(f"{target.address}: {target.state.replace('_', ' ')}: {target.reason}")
    if split is None:
        text = dump_json(window_to_json(window, tool=TOOL))
        if out == "-":
            write_stdout(text)
        else:
            write_file(out, text)
        return code
    if out == "-":
        raise UsageError("--split writes several files; give -o window.json")
    from auditor.splitting import split_window

    path = Path(out)
    pieces = split_window(window, split)
    for i, piece in enumerate(pieces, 1):
        write_file(
            str(path.with_name(f"{path.stem}-{i:02d}{path.suffix}")),
            dump_json(window_to_json(piece, tool=TOOL)),
        )
    warn(f"{len(pieces)} windows written")
    return code
