"""``auditor history``: what the store of nightly runs holds."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

from auditor.cli.ending import earn
from auditor.cli.inputs import moment, warn
from auditor.cli.options import DURATION, option, require_name
from auditor.cli.writing import write_file, write_results, write_stdout
from auditor.model import SCHEMA, UsageError

STORE = option(
    "--store", required=True, type=click.Path(), metavar="DB", help="The history that auditor nightly keeps."
)
AS = option(
    "--as",
    "as_",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    show_default=True,
    help="Format on stdout.",
)


@click.group("history")
def command() -> None:
    """Look at the nights that auditor nightly has kept.

    \b
    auditor history list --store audits.db
    auditor history show 2026-11-21 --store audits.db
    auditor history trend ttft_seconds --store audits.db --match model=chat
    auditor history export --store audits.db -o nights.csv
    auditor history prune --store audits.db --keep 400d
    """


@command.command("list")
@STORE
@AS
def list_(store: str, as_: str) -> int:
    """One run a line, oldest first."""
    from auditor.history import open_store
    from auditor.history.views import list_runs

    with open_store(store) as opened:
        return _write({"runs": list_runs(opened)}, as_)


@command.command("show")
@click.argument("run", required=False)
@STORE
@AS
def show(run: str | None, store: str, as_: str) -> int:
    """One run as it was kept: its number or the beginning of its window's end (2026-11-21); the latest by default."""
    from auditor.history import open_store
    from auditor.history.views import find_run, show_run

    with open_store(store) as opened:
        return _write(show_run(opened, find_run(opened, run)), as_)


@command.command("trend")
@click.argument("reading")
@STORE
@AS
@option("--match", multiple=True, metavar="LABEL=VALUE", help="Only these subjects: model=chat; repeatable.")
@option("--nights", type=click.IntRange(1), metavar="N", help="The latest so many; all by default.")
@option(
    "--min-nights",
    type=click.IntRange(5),
    default=7,
    show_default=True,
    help="Fewer comparable nights than this are not enough history.",
)
def trend(reading: str, store: str, as_: str, match: Sequence[str], nights: int | None, min_nights: int) -> int:
    """A reading over the nights, each beside the baseline and band of the nights before it.

    Percentiles are readings of their own here: ttft_seconds.p90.
    """
    from auditor.history import open_store, views
    from auditor.measures.readings import READINGS

    wanted = {}
    for text in match:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"--match {text!r}: LABEL=VALUE is needed, for example model=chat")
        wanted[name] = value
    declared = READINGS.get(reading.partition(".")[0])
    with open_store(store) as opened:
        require_name(reading, views.known_readings(opened), "a reading in this history")
        better = declared.better if declared else None
        trends = views.trend(opened, reading, match=wanted, nights=nights, better=better, min_nights=min_nights)
    if not trends:
        raise UsageError(f"no subject with {', '.join(match)} has {reading} in this history")
    return _write({"reading": reading, "trends": trends}, as_)


@command.command("export")
@STORE
@option("--as", "as_", type=click.Choice(["csv", "json"]), default="csv", show_default=True, help="Format.")
@option("-o", "--out", default="-", metavar="FILE", help="Where it goes; - is stdout.")
@option("--since", metavar="T", help="Only windows that ended at or after this time.")
def export(store: str, as_: str, out: str, since: str | None) -> int:
    """All readings and verdicts, one row each, for a spreadsheet or a data frame."""
    from auditor.history import open_store
    from auditor.history.views import EXPORT_COLUMNS, export_rows
    from auditor.model import dump_json

    with open_store(store) as opened:
        rows = export_rows(opened, since=None if since is None else moment(since))
        if as_ == "csv":
            text = _csv(EXPORT_COLUMNS, rows)
        else:
            listed = [dict(zip(EXPORT_COLUMNS, row, strict=True)) for row in rows]
            text = dump_json({"schema": SCHEMA, "kind": "history", "rows": listed})
    earn(0)
    if out == "-":
        write_stdout(text)
    else:
        write_file(out, text)
    return 0


@command.command("prune")
@STORE
@option("--keep", type=DURATION, metavar="400d", help="Keep windows that ended within this time before now.")
@option("--before", metavar="T", help="Forget windows that ended before this time.")
@option("--dry-run", is_flag=True, help="Say what would be forgotten, and forget nothing.")
def prune(store: str, keep: float | None, before: str | None, dry_run: bool) -> int:
    """Forget old runs and give their space back."""
    from auditor.history import open_store
    from auditor.history.nights import load_runs

    if (keep is None) == (before is None):
        raise UsageError("give --keep LENGTH or --before T, one of them")
    limit = time.time() - keep if keep is not None else moment(before or "")
    with open_store(store) as opened:
        gone = [r for r in load_runs(opened) if r.end < limit]
        if not dry_run:
            opened.prune(limit)
        left = len(load_runs(opened)) - (len(gone) if dry_run else 0)
    warn(
        f"{len(gone)} runs {'would be forgotten' if dry_run else 'forgotten'}, {left} {'would be' if dry_run else 'are'} left"
    )
    return earn(0)


def _write(members: dict[str, Any], as_: str) -> int:
    document = {
        "schema": SCHEMA,
        "kind": "history",
        **{k: v for k, v in members.items() if k not in ("schema", "kind")},
    }
    return write_results(document, {"as_": as_, "width": 200})


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet takes for text: labels come from pages, and a formula in one must not run."""
    if isinstance(value, str) and value.lstrip("\t\r\n ")[:1] in ("=", "+", "-", "@"):
        return "'" + value
    if isinstance(value, str) and value[:1] in ("\t", "\r", "\n"):
        return "'" + value
    return value
