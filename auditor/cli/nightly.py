"""``auditor nightly``: audit, keep, compare with the nights before, write a report, hand it over, end with a code."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.ending import earn, worst
from auditor.cli.handover import Handover, noted
from auditor.cli.inputs import gather, input_options, moment, warn
from auditor.cli.options import judging_options, option, read_options, read_settings
from auditor.cli.writing import check_outputs, write_file, write_results, writing_options
from auditor.model import EvidenceError, OutputError, UsageError

if TYPE_CHECKING:
    from auditor.model import Window

FILES = (("json", "json"), ("html", "html"), ("markdown", "md"), ("png", "png"))
"""Formats written to --out, with their endings."""


@click.command("nightly")
@input_options
@judging_options
@writing_options
@option("--store", required=True, type=click.Path(), metavar="DB", help="History of nights; made where there is none.")
@option(
    "--out",
    "out_dir",
    required=True,
    type=click.Path(),
    metavar="DIR",
    envvar="AUDITOR_OUT",
    help="Folder of the reports; latest.html is the newest.",
)
@option("--at", metavar="T", help="When saved pages ended: RFC 3339 or unix seconds.")
@option(
    "--min-nights",
    type=click.IntRange(5),
    default=7,
    show_default=True,
    help="Fewer comparable nights than this are not enough history.",
)
@option(
    "--fail-on",
    multiple=True,
    type=click.Choice(["broken", "regression"]),
    help="Exit 1 when a premise is broken, or a reading got worse; repeatable.",
)
@option(
    "--textfile",
    type=click.Path(),
    metavar="PATH",
    help="Prometheus text for node_exporter's textfile collector (a .prom file).",
)
@option("--pushgateway", metavar="URL", help="Push the same text to a Pushgateway.")
@option("--webhook", metavar="URL", help="POST a JSON summary to this address.")
@option(
    "--webhook-file",
    type=click.Path(),
    metavar="FILE",
    help="Read the webhook's address from a file: it is often a secret.",
)
@option("--handover-token-file", type=click.Path(), metavar="FILE", help="Bearer token for Pushgateway and webhook.")
@option(
    "--handover-basic-auth-file", type=click.Path(), metavar="FILE", help="user:password for Pushgateway and webhook."
)
def command(**values: Any) -> int:
    """Audit a window from cron, keep it, and say what changed against the nights before.

    \b
    auditor nightly --prometheus http://prom:9090 --window 24h --store audits.db --out reports
    auditor nightly http://host:8000 --window 10m --store audits.db --out reports --fail-on regression
    auditor nightly --before t0.prom t1.prom --seconds 3600 --at 2026-11-29T03:00:00Z --store audits.db --out reports

    A hand-over that fails is said and ends with 4; the night is kept all the same.
    """
    check_outputs(values)
    options = read_options(values)
    handover = Handover(values)
    ran = time.time()
    window, failure = _gather(values)
    window, end = _end_of(window, values, ran)
    from auditor.pipeline import audit_window

    document = audit_window(window, options).to_json()
    if failure:
        warn(failure)
    document, problems = _remember(document, values, end=end, ran=ran)
    problems += _write_reports(document, Path(values["out_dir"]), end)
    problems += handover.run(document)
    for problem in problems:
        warn(problem)
    from auditor.delivery.webhook import headline

    warn(headline(document))
    code = worst([int(document["exit_code"]), *([4] if problems else [])])
    return earn(write_results({**document, "exit_code": code}, values))


def _gather(values: Mapping[str, Any]) -> tuple[Window, str | None]:
    """The window; a metrics server that could not be asked makes a night without evidence, which is kept as one."""
    from auditor.http import clean_url
    from auditor.measures.targets import failed_target
    from auditor.model import Window

    try:
        return gather(values), None
    except EvidenceError as error:
        address = (
            clean_url(values["prometheus"]) if values.get("prometheus") else ", ".join(values.get("targets") or ())
        )
        kind: Any = "range" if values.get("prometheus") else "scrapes"
        end = moment(values["end"]) if values.get("end") else None
        dead = Window(
            kind=kind,
            start=None,
            end=end,
            seconds=values.get("window"),
            targets=(failed_target(address, str(error)),),
            coverage=0.0,
            settings=read_settings(values),
            source=address,
        )
        return dead, f"{address}: {error}"


def _end_of(window: Window, values: Mapping[str, Any], ran: float) -> tuple[Window, float]:
    """The window with its end, and that end. Nights are ordered by it, so it is never guessed from a file.

    Raises:
        UsageError: saved pages without --at, or --at for a window that knows its end.
    """
    at = moment(values["at"]) if values.get("at") else None
    if at is not None and window.end is not None:
        raise UsageError("--at is for saved pages; this window says itself when it ended")
    if at is not None:
        start = at - window.seconds if window.seconds is not None else None
        return replace(window, end=at, start=start), at
    if window.end is not None:
        return window, window.end
    from auditor.collect import is_address

    # A saved window has addresses of servers too, and says nothing of now.
    if values.get("prometheus") or all(is_address(target) for target in values.get("targets") or ()):
        return window, ran
    raise UsageError("no saved page says when it was taken; give --at T, for example --at 2026-11-29T03:00:00Z")


def _remember(
    document: dict[str, Any], values: Mapping[str, Any], *, end: float, ran: float
) -> tuple[dict[str, Any], list[str]]:
    """Compare with the history and keep the night; a history that fails is a problem, not the end of the report."""
    from auditor.compare import compare_tonight
    from auditor.history import open_store
    from auditor.history.document import Tonight, make_nights, without_history
    from auditor.measures.readings import READINGS

    better = {d.name: d.better for d in READINGS.values()}
    tonight = Tonight(document=document, end=end, ran=ran)
    problems: list[str] = []
    try:
        with open_store(values["store"], create=True) as store:
            nights = make_nights(
                store,
                tonight,
                better=better,
                compare=partial(compare_tonight, better=better),
                min_nights=values["min_nights"],
            )
            code = worst([int(document["exit_code"]), *_failures(document, nights, values)])
            try:
                run = store.append({**document, "exit_code": code}, end=end, ran=ran)
                nights |= {"run": run, "kept": True}
            except OutputError as error:
                problems.append(str(error))
                nights |= {"kept": False, "reason": str(error)}
    except OutputError as error:
        problems.append(str(error))
        nights = without_history(tonight, str(error))
        code = worst([int(document["exit_code"]), *_failures(document, nights, values)])
    document.pop("exit_code")
    return {**document, "nights": nights, "exit_code": worst([code, *([4] if problems else [])])}, problems


def _failures(document: Mapping[str, Any], nights: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[int]:
    from auditor.history.document import is_regression

    wanted = values["fail_on"]
    verdicts = [v["verdict"] for s in document["subjects"] for v in s["audits"].values()]
    if "broken" in wanted and "broken" in verdicts:
        yield 1
    if "regression" in wanted and is_regression(nights):
        yield 1


def _write_reports(document: Mapping[str, Any], folder: Path, end: float) -> list[str]:
    """The report in every format, under the night's name and, if no later one is kept, as ``latest``.

    Returns:
        What could not be written, one sentence each.
    """
    from datetime import UTC, datetime

    from auditor.outputs import load_outputs
    from auditor.outputs.text import RenderOptions

    problems: list[str] = []
    with noted(problems, str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    if problems:
        return problems
    name = datetime.fromtimestamp(end, tz=UTC).strftime("%Y-%m-%dT%H%M%SZ")
    outputs = load_outputs()
    for format_, ending in FILES:
        with noted(problems, f"{folder / name}.{ending}"):
            rendered = outputs[format_].render(document, RenderOptions(width=100))
            write_file(str(folder / f"{name}.{ending}"), rendered)
            if document["nights"].get("newest", True):
                write_file(str(folder / f"latest.{ending}"), rendered)
    return problems
