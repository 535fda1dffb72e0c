"""``auditor collect``: gather a window and save it; nothing is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.ending import earn
from auditor.cli.inputs import gather, gather_inputs, input_options, read_inputs, warn
from auditor.cli.options import DURATION, judging_options, option, read_options
from auditor.cli.writing import write_file, write_stdout
from auditor.model import UsageError

if TYPE_CHECKING:
    from auditor.model import Window


@click.command("collect")
@input_options
@judging_options
@option("-o", "--out", default="-", metavar="FILE", help="Where the window goes; - is stdout.")
@option("--split", type=DURATION, metavar="15m", help="Cut a series or range into repeats: window-01.json ...")
def command(out: str, split: float | None, **values: Any) -> int:
    """Gather a window into a file that auditor audit, gate and compare read without a network."""
    read_options(values)
    if split is None:
        window = gather(values, judged=False)
        write = write_stdout if out == "-" else partial(write_file, out)
        return _save(window, write)
    if out == "-":
        raise UsageError("--split writes several files; give -o window.json")
    codes = []
    for number, piece in enumerate(_pieces(values, split), 1):
        codes.append(_save(piece, partial(write_file, _numbered(out, number))))
    warn(f"{len(codes)} windows written")
    # Repeats with a hole among them are still repeats.
    return earn(min(codes))


def _pieces(values: Mapping[str, Any], split: float) -> Iterable[Window]:
    """Repeats out of one long window: asked for one by one where a metrics server can, else cut between scrapes."""
    from auditor.collect import is_address
    from auditor.collect.past import past_pieces
    from auditor.splitting import NO_COURSE, count_pieces, split_window

    inputs = read_inputs(values)
    if inputs.prometheus is None and (inputs.before is not None or any(map(is_address, inputs.targets))):
        # Said before anybody waits for two scrapes.
        raise UsageError(NO_COURSE)
    if inputs.prometheus is None or inputs.exact or inputs.window_seconds is None:
        return split_window(gather_inputs(inputs, judged=False), split)
    return past_pieces(inputs, count_pieces(inputs.window_seconds, split), say=warn)


def _numbered(out: str, number: int) -> str:
    """``window.json.gz`` -> ``window-01.json.gz``."""
    path = Path(out)
    packed = path.suffix if path.suffix.lower() == ".gz" else ""
    name = Path(path.name.removesuffix(packed))
    return str(path.with_name(f"{name.stem}-{number:02d}{name.suffix}{packed}"))


def _save(window: Window, write: Callable[[str], object]) -> int:
    from auditor.model import dump_json
    from auditor.pipeline import TOOL
    from auditor.saved import window_to_json

    measured = any(t.state == "measured" for t in window.targets)
    code = earn(0 if measured else 3)
    for target in window.targets:
        if target.state != "measured":
            warn(f"{target.address}: {target.state.replace('_', ' ')}: {target.reason}")
    write(dump_json(window_to_json(window, tool=TOOL)))
    return code
