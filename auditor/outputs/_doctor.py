"""A doctor's visit on a screen: what it is, what is odd, what can be read, and what would bring the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from auditor.outputs.text import RenderOptions, number, safe, safe_sentence

if TYPE_CHECKING:
    from rich.console import Console

FEW = 12


def draw(console: Console, document: Mapping[str, Any], options: RenderOptions) -> None:
    from rich.table import Table
    from rich.text import Text

    for target in document["targets"]:
        known = target["state"] == "recognised"
        mark, style = ("OK", "green") if known else ("XX", "bold red")
        console.print(Text.assemble((f"{mark}  ", style), (f"{safe(target['address'])}: {_headline(target)}", "bold")))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=12, no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for head, text in _rows(target, options):
            table.add_row(Text(head, style="bold"), Text(text))
        if table.row_count:
            console.print(table)
        console.print()


def _headline(target: Mapping[str, Any]) -> str:
    if target["state"] != "recognised":
        why = (target["reason"] or "").removeprefix(f"{target['address']}: ")
        return f"{target['state'].replace('_', ' ')}: {safe_sentence(why)}"
    series = f"{number(target['samples_read'])} series"
    return f"{safe(target['title'])} {_release(target)}, names {safe(target['form'])}*, {series}"


def _release(target: Mapping[str, Any]) -> str:
    if target["version"]:
        return safe(target["version"])
    least, most = target["release"]["least"], target["release"]["most"]
    if least and most:
        return f"about {least} to {most}" if least != most else f"about {least}"
    if least:
        return f"about {least} or later"
    return f"about {most} or earlier" if most else "of unknown release"


def _rows(target: Mapping[str, Any], options: RenderOptions) -> Iterator[tuple[str, str]]:
    for text in target["remarks"]:
        yield "!!", safe_sentence(text)
    if target["state"] != "recognised":
        return
    if target["note"]:
        yield "form", safe_sentence(target["note"])
    yield "models", ", ".join(safe(m) for m in target["models"]) or "no model label"
    if len(target["ranks"]) > 1:
        yield "engines", f"{len(target['ranks'])}: {_few(target['ranks'], options)}"
    if target["missing"]:
        yield "missing", f"{_few(target['missing'], options)}: every release has these, and this page has not"
    if target["unknown"]:
        yield "unknown", f"{_few(target['unknown'], options)}: not in our vocabulary, and not used"
    if target["old_names"]:
        yield "old names", _few(target["old_names"], options)
    yield from _capabilities(target["capabilities"], target["missing"], options)
    for name, s in target["settings"].items():
        value = number(s["value"]) if isinstance(s["value"], float) else safe(s["value"])
        yield "setting", f"{name} {value} ({safe(s['source'])})"
    if target["settings_missing"]:
        by_hand = ", ".join(f"{name} ({how})" for name, how in target["settings_missing"].items())
        yield "not on page", f"{by_hand}; all of them: --boot-log FILE"


def _capabilities(
    found: Sequence[Mapping[str, Any]], missing: Sequence[str], options: RenderOptions
) -> Iterator[tuple[str, str]]:
    now = [c["reading"] for c in found if c["can"] and not c["reason"]]
    yield "can read", f"{len(now)} of {len(found)} readings" + (f": {', '.join(now)}" if options.show_all else "")
    yield from (("later", text) for text in _by_reason([c for c in found if c["can"] and c["reason"]]))
    cannot = [c for c in found if not c["can"]]
    of_missing = [] if options.show_all else [c for c in cannot if any(c["reason"].startswith(m) for m in missing)]
    if of_missing:
        yield "cannot", f"{len(of_missing)} readings rest on the missing series (--all lists them)"
    yield from (("cannot", text) for text in _by_reason([c for c in cannot if c not in of_missing]))


def _by_reason(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Readings with one reason in common, in one line."""
    groups: dict[str, list[str]] = {}
    for c in found:
        groups.setdefault(c["reason"], []).append(c["reading"])
    for reason, names in groups.items():
        yield f"{', '.join(names)}: {safe_sentence(reason)}"


def _few(names: Sequence[str], options: RenderOptions) -> str:
    listed = [safe(n) for n in names]
    if options.show_all or len(listed) <= FEW:
        return ", ".join(listed)
    return f"{', '.join(listed[:FEW])} and {len(listed) - FEW} more (--all)"
