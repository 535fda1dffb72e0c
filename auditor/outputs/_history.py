"""``auditor history`` on a screen: runs, one run, one reading over the nights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from auditor.outputs._nights import short_time, with_unit
from auditor.outputs.text import RenderOptions, number, safe, safe_sentence, seconds, subject_title

if TYPE_CHECKING:
    from rich.console import Console


def draw(console: Console, document: Mapping[str, Any], options: RenderOptions) -> None:
    if "runs" in document:
        _runs(console, document["runs"])
    elif "run" in document:
        _run(console, document)
    elif "trends" in document:
        _trends(console, document)
    else:
        console.print(safe_sentence(document.get("summary", "nothing to show")))


def _table(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """One row a line, whatever the width: scripts count lines."""
    listed = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *listed]) for i in range(len(head))]
    numeric = set(right)
    for row in [list(head), *listed]:
        pairs = enumerate(zip(row, widths, strict=True))
        cells = [cell.rjust(width) if i in numeric else cell.ljust(width) for i, (cell, width) in pairs]
        console.print("  ".join(cells).rstrip(), soft_wrap=True)


def _runs(console: Console, runs: Sequence[Mapping[str, Any]]) -> None:
    head = ("run", "window end (UTC)", "made at", "kind", "length", "subjects", "broken", "code", "remarks")
    _table(
        console,
        head,
        [
            (
                str(r["run"]), short_time(r["end"]), short_time(r["ran"]), r["kind"], seconds(r["seconds"]),
                str(r["subjects"]), str(r["broken"]), str(r["exit_code"]), safe_sentence("; ".join(r["remarks"])),
            )
            for r in runs
        ],
        right=(0, 5, 6, 7),
    )  # fmt: skip


def _run(console: Console, document: Mapping[str, Any]) -> None:
    run = document["run"]
    console.print(
        f"run {run['run']} | window end {short_time(run['end'])} UTC | {run['kind']} | {seconds(run['seconds'])} "
        f"| code {run['exit_code']}",
        style="bold",
    )
    for target in document["targets"]:
        if target["state"] != "measured":
            console.print(f" XX {safe(target['address'])}: {target['state']}: {safe_sentence(target['reason'] or '')}")
    for subject in document["subjects"]:
        console.print()
        console.print(subject_title(subject["labels"]), style="bold")
        _table(
            console,
            ("audit", "verdict", "found"),
            [(name, v["verdict"], safe_sentence(v["found"])) for name, v in subject["audits"].items()],
        )
        console.print()
        _table(
            console,
            ("reading", "value", "low", "high", "n", "state"),
            [
                (name, with_unit(r["value"], r["unit"]), number(r["low"], r["unit"]), number(r["high"], r["unit"]),
                 number(r["count"]), r["state"] if not r["reason"] else f"{r['state']}: {safe_sentence(r['reason'])}")
                for name, r in subject["readings"].items()
            ],
        )  # fmt: skip


def _trends(console: Console, document: Mapping[str, Any]) -> None:
    for trend in document["trends"]:
        unit = trend["unit"]
        console.print(f"{safe(document['reading'])} | {subject_title(trend['labels'])} | {unit}", style="bold")
        rows = []
        for night in trend["nights"]:
            band = night["band"]
            rows.append(
                (
                    short_time(night["end"]),
                    number(night["value"], unit),
                    number(night["low"], unit),
                    number(night["high"], unit),
                    number(night["baseline"], unit),
                    "none" if band is None else f"{number(band[0], unit)} .. {number(band[1], unit)}",
                    night["verdict"] if night["value"] is not None else night["state"],
                )
            )
        _table(console, ("night (UTC)", "value", "low", "high", "baseline", "band", ""), rows, right=(1, 2, 3, 4))
        console.print()
