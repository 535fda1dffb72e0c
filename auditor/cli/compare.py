"""``auditor compare``: two windows, or arms of repeated windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from auditor.cli.options import complete_files, judging_options, option, read_options, read_settings
from auditor.cli.writing import write_results, writing_options
from auditor.model import UsageError


@click.command("compare")
@click.argument("files", nargs=-1, metavar="[OLD NEW]", shell_complete=complete_files)
@option(
    "--arm", "arms", multiple=True, metavar="NAME=FILE[,FILE...]", help="An arm of repeats; the first is the baseline."
)
@option("--plan", metavar="10%", help="How many repeats would show a change of this size?")
@option("--fail-on", multiple=True, metavar="READING:worse:5%", help="Exit 1 when it is worse by more than this.")
@judging_options
@writing_options
def command(
    files: tuple[str, ...], arms: tuple[str, ...], plan: str | None, fail_on: tuple[str, ...], **values: Any
) -> int:
    """Compare windows or reports: what differs between them first, then what changed and how sure that is.

    \b
    auditor compare old.json new.json
    auditor compare --arm 256=a1.json,a2.json,a3.json --arm 2048=b1.json,b2.json,b3.json
    auditor compare --plan 10% --arm 256=a1.json,a2.json,a3.json
    """
    from auditor.compare import compare_arms, make_arm, plan_document
    from auditor.compare.failing import exit_code_of, parse_fail_on
    from auditor.measures.readings import READINGS
    from auditor.model import SCHEMA
    from auditor.pipeline import TOOL

    if plan is not None and fail_on:
        raise UsageError("--plan plans repeats and judges nothing, so --fail-on has nothing to judge; give one of them")
    change = None if plan is None else _share(plan)
    rules = [parse_fail_on(text, tuple(READINGS)) for text in fail_on]
    named = _named(files, arms, planning=plan is not None)
    options, settings = read_options(values), read_settings(values)
    better = {name: declared.better for name, declared in READINGS.items()}
    made = [
        make_arm(name, [(path, _document(path, options, settings)) for path in paths]) for name, paths in named.items()
    ]
    document: dict[str, Any]
    if change is None:
        document = compare_arms(made, better=better, tool=TOOL)
        document["exit_code"] = exit_code_of(document, rules)
    else:
        document = {"schema": SCHEMA, "kind": "compare", "tool": TOOL, "arms": [], "confounders": [], "notes": [], "rows": [],
                    "verdict": "undecided", "exit_code": 0}  # fmt: skip
        if len(made) > 1:
            document = compare_arms(made, better=better, tool=TOOL)
        document["plan"] = {
            "change": change,
            "arms": [{"name": a.name, "rows": plan_document(_repeats(a, better), change)} for a in made],
        }
    return write_results(document, values)


def _named(files: tuple[str, ...], arms: tuple[str, ...], *, planning: bool) -> dict[str, list[str]]:
    if files and arms:
        raise UsageError("give OLD NEW, or --arm NAME=FILE..., not both")
    named: dict[str, list[str]] = {}
    for text in arms:
        name, sign, paths = text.partition("=")
        listed = [p for p in paths.split(",") if p]
        if not sign or not name or not listed:
            raise UsageError(f"--arm {text!r}: NAME=FILE[,FILE...] is needed")
        if name in named:
            raise UsageError(f"--arm {name}: named twice; list its files with commas")
        named[name] = listed
    if files:
        if len(files) != 2 and not planning:
            raise UsageError("two files are compared: OLD NEW; for more, use --arm NAME=FILE,FILE")
        named = {f"{'old' if i == 0 else 'new'}": [path] for i, path in enumerate(files)}
    if not named:
        raise UsageError("nothing to compare: give OLD NEW, or --arm NAME=FILE... twice")
    return named


def _document(path: str, options: Any, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """A report as it stands; a window, audited now."""
    from auditor.model import EvidenceError
    from auditor.pipeline import audit_window
    from auditor.saved import window_from_json
    from auditor.sources.files import as_saved_document, read_file

    document = as_saved_document(read_file(path))
    if document is None:
        raise EvidenceError(f"{path}: is no saved window or report; make one with auditor collect -o FILE")
    if document["kind"] == "window":
        return audit_window(window_from_json(document, name=path), options, settings=settings).to_json()
    return document


def _share(text: str) -> float:
    number, in_percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        value = float(number) / (100 if in_percent else 1)
    except ValueError:
        raise UsageError(f"--plan {text!r}: a change like 10% is needed") from None
    if value > 1 and not in_percent:
        raise UsageError(
            f"--plan {text!r}: is that {number} %? Then write {number}%; a plain number is a share, as 0.1"
        )
    if not 0 < value <= 10:
        raise UsageError(f"--plan {text!r}: a change between 0 and 1000 % is needed")
    return value


def _repeats(arm: Any, better: Mapping[str, str | None]) -> dict[str, list[float]]:
    """Values of each directional reading over an arm's windows of its first subject."""
    out: dict[str, list[float]] = {}
    for report in arm.reports:
        for subject in report["subjects"][:1]:
            for name, direction in better.items():
                value = subject["readings"].get(name, {}).get("value")
                if direction is not None and value is not None:
                    out.setdefault(name, []).append(value)
    return out
