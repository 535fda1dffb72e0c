"""``auditor boots``: what engines printed when they started, and what another setting would leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from auditor.cli.options import complete_files, option
from auditor.cli.writing import write_results, writing_options
from auditor.model import UsageError

if TYPE_CHECKING:
    from auditor.engine_logs import LogScan


@click.command("boots")
@click.argument("logs", nargs=-1, metavar="LOG...", shell_complete=complete_files)
@option(
    "--predict",
    multiple=True,
    metavar="NAME=N",
    help="What would this leave? budget=12288, context=35000, memory=0.92; repeatable.",
)
@writing_options
def command(logs: tuple[str, ...], predict: tuple[str, ...], **values: Any) -> int:
    """Read boot logs: token pools, refusals, what a setting cost, what it would cost.

    Logs may be plain or gzip, wrapped by Docker, Kubernetes or journald, and hold several boots; - is standard input.
    A refused boot is a result, and so is a prediction that says refused: both end with 0. A log without any boot
    ends with 3, a file that is not there with 2.

    \b
    auditor boots boot-8192.log boot-16384.log --predict budget=12288
    kubectl logs deploy/vllm | auditor boots -
    """
    from auditor.engine_logs import scan_log
    from auditor.pipeline import TOOL
    from auditor.planning.documents import make_boots_document
    from auditor.planning.predict import parse_prediction

    if not logs:
        raise UsageError("no log given: a file with an engine's start-up lines, or - for standard input")
    if logs.count("-") > 1:
        raise UsageError("- stands for standard input and can be read once")
    predictions = list(dict.fromkeys(parse_prediction(text) for text in predict))
    scans = [scan_log(path) for path in dict.fromkeys(logs)]
    boots = [boot for scan in scans for boot in scan.boots]
    notes = [note for scan in scans for note in _notes(scan)]
    document = make_boots_document(boots, predictions, notes=notes)
    document = {"schema": document["schema"], "kind": document["kind"], "tool": TOOL, **document}
    document["exit_code"] = 0 if boots else 3
    return write_results(document, values)


def _notes(scan: LogScan) -> list[str]:
    """What must be said of a log as a whole."""
    name = "standard input" if scan.file == "-" else scan.file
    out = []
    if scan.cut:
        out.append(f"{name}: {scan.cut}")
    if scan.is_empty:
        out.append(f"{name}: no line of it is a known engine's")
    elif not scan.boots:
        out.append(
            f"{name}: running lines only, no boot: the start of the log is missing. auditor audit reads running lines"
        )
    return out
