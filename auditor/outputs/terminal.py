"""The report for a person on call: verdicts first, then where time goes, what to try, what nobody can know."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from auditor.outputs._advice import settling, unknowns
from auditor.outputs._lever_lines import HEADING, lever_lines
from auditor.outputs.text import (
    MARKS,
    RenderOptions,
    number,
    percent,
    reading_words,
    safe,
    safe_sentence,
    seconds,
    subject_title,
)

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "holds": "green",
    "broken": "bold red",
    "undecided": "yellow",
    "not_applicable": "dim",
    "error": "bold magenta",
}
NOTABLE = (
    "finish_counts_disagree", "impossible_share", "unfinished_work", "counter_reset", "cold_start",
    "lifetime_only", "parallel_sampling_inflates_counts_and_hits", "recompute_may_count_as_hits",
    "queries_inflated", "old_and_new_names", "steps_merge_chunks", "steps_per_front_end", "gauges_stale",
    "scheduler_starvation", "kv_bound", "decode_node", "prefill_node", "partial_response", "rolling_hit_rate",
    "log_only",
)  # fmt: skip
NOT_IN_A_LOG = "a log does not carry it"
GRAVE_FLAGS = {
    "impossible_share",
    "scheduler_starvation",
    "finish_counts_disagree",
    "counter_reset",
    "gauges_stale",
}


def render(document: Mapping[str, Any], options: RenderOptions) -> str:
    """Text of a report at the width asked for, with or without colour."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=options.width,
        force_terminal=options.colour,
        no_color=not options.colour,
        color_system="standard" if options.colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    kind = document.get("kind", "audit")
    if kind == "audit":
        _audit(console, document, options)
    else:
        import importlib

        importlib.import_module(f"auditor.outputs._{kind}").draw(console, document, options)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _audit(console: Console, document: Mapping[str, Any], options: RenderOptions) -> None:
    window = document["window"]
    for target in document["targets"]:
        if target["state"] != "measured":
            _row(
                console,
                [
                    (
                        "XX",
                        "bold red",
                        safe(target["address"]),
                        f"{target['state'].replace('_', ' ')}: {safe_sentence(target['reason'] or '')}",
                    )
                ],
            )
    for warning in window.get("warnings", ()):
        _row(console, [("!!", "yellow", "", safe_sentence(warning))])
    for subject in document["subjects"]:
        _subject(console, document, subject, options)
    if not document["subjects"]:
        console.print("No engine was measured, so there is no verdict.")
    if document.get("fleet"):
        from auditor.outputs import _fleet

        _fleet.draw(console, document["fleet"])
    if document.get("nights"):
        from auditor.outputs import _nights

        _nights.draw(console, document["nights"], options)
    if document.get("gate"):
        _gate(console, document["gate"])


def _subject(console: Console, document: Mapping[str, Any], subject: Mapping[str, Any], options: RenderOptions) -> None:
    window, readings = document["window"], subject["readings"]
    done = readings["finished_requests"]
    length = "" if window["seconds"] is None else f" | {seconds(window['seconds'])}"
    engines = f", {len(subject['parts'])} engines" if subject["parts"] else ""
    finished = f" | {number(done['value'])} requests finished" if done["value"] is not None else ""
    source = safe(window.get("source") or window["kind"])
    console.print(
        f"{subject_title(subject['labels'])}{engines} | {source}{length}{finished}",
        style="bold",
        soft_wrap=False,
    )
    _verdicts(console, subject, options)
    _notes(console, subject)
    _bars(console, readings, options)
    _levers(console, subject, options)
    _claims(console, subject)
    _advice(console, document, subject)
    if options.show_all:
        _evidence(console, subject)
    console.print()


def _row(console: Console, rows: Iterable[tuple[str, str, str, str]], *, left: int | None = None) -> None:
    from rich.table import Table

    listed = list(rows)
    if not listed:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=3, no_wrap=True)
    widest = max((len(r[2]) for r in listed), default=0)
    width = left if left is not None else min(widest, max(12, console.width * 2 // 5))
    table.add_column(width=width or None, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    from rich.text import Text

    for mark, style, head, text in listed:
        table.add_row(Text(f"{mark:>3}", style=style), Text(head), Text(text))
    console.print(table)


def _verdicts(console: Console, subject: Mapping[str, Any], options: RenderOptions) -> None:
    rank = {("broken", "problem"): 0, ("error", "problem"): 1, ("broken", "warning"): 2}
    audits = sorted(subject["audits"].items(), key=lambda item: rank.get((item[1]["verdict"], item[1]["severity"]), 3))
    idle = "no_traffic" in subject["flags"]
    of_log = "log_only" in subject["flags"] and not options.show_all
    shown, holding, unread = [], [], 0
    for name, v in audits:
        word = v["verdict"]
        if not options.show_all and word == "not_applicable":
            continue
        if not options.show_all and word == "holds":
            holding.append(v.get("question", name))
            continue
        if idle and not options.show_all and word == "undecided":
            continue
        if of_log and word == "undecided" and v["summary"].startswith(NOT_IN_A_LOG):
            unread += 1
            continue
        shown.append((MARKS[word], STYLES[word], v.get("question") or name, safe_sentence(v["summary"])))
    if unread:
        shown.append(("?", STYLES["undecided"], f"{unread} other questions", f"{NOT_IN_A_LOG}; scrape /metrics"))
    if idle:
        why = subject.get("facts", {}).get("no_traffic", "no counter moved in the window")
        shown.append(("?", STYLES["undecided"], "Did anything happen?", f"{safe_sentence(why)}: no verdict"))
    _row(console, shown)
    if holding:
        _row(console, [("YES", STYLES["holds"], " ".join(holding), "")], left=max(20, console.width - 8))


def _notes(console: Console, subject: Mapping[str, Any]) -> None:
    facts = subject.get("facts", {})
    rows = []
    for flag in NOTABLE:
        if flag in subject["flags"] and flag in facts:
            mark = "!!" if flag in GRAVE_FLAGS else " !"
            rows.append((mark, "bold yellow", safe_sentence(facts[flag]), ""))
    for text in facts.get("settings_disagree", ()):
        rows.append(("!!", "bold yellow", f"settings disagree: {safe_sentence(text)}", ""))
    _row(console, rows, left=max(20, console.width - 8))


def _bars(console: Console, readings: Mapping[str, Any], options: RenderOptions) -> None:
    prefill, decode = readings["prefill_share"], readings["decode_share"]
    if prefill["value"] is None or decode["value"] is None:
        return
    width = max(16, min(60, options.width - 40))
    console.print()
    for name, share, aside in (
        ("prefill", prefill["value"], "request-seconds,"),
        ("decode", decode["value"], "not GPU time"),
    ):
        bar = "#" * max(1 if share > 0 else 0, round(share * width))
        console.print(f"{name:<8} {bar:<{width}} {percent(share):>7}  {aside}")
    queue = readings["queue_share"]
    if queue["value"] is not None and queue["value"] >= 0.005:
        console.print(f"{'queued':<8} {percent(queue['value'])} of queue + prefill + decode")


def _levers(console: Console, subject: Mapping[str, Any], options: RenderOptions) -> None:
    from rich.padding import Padding
    from rich.text import Text

    prefill, lines = lever_lines(subject, show_all=options.show_all)
    if not lines:
        return
    console.print()
    console.print(HEADING, style="bold")
    if prefill:
        console.print(Padding(Text(prefill), (0, 0, 0, 5)))
    _row(console, [(line.mark, "cyan", line.head, line.text) for line in lines], left=22)


def _claims(console: Console, subject: Mapping[str, Any]) -> None:
    rows = []
    for claim in subject.get("claims", ()):
        mark, style = {True: ("YES", "green"), False: ("NO", "bold red"), None: ("?", "yellow")}[
            claim["is_what_it_says"]
        ]
        rows.append(
            (
                mark,
                style,
                f"Is {claim['claim']} {number(claim['value'])}?",
                safe_sentence(claim.get("summary", "")),
            )
        )
    if rows:
        console.print()
    _row(console, rows)


def _advice(console: Console, document: Mapping[str, Any], subject: Mapping[str, Any]) -> None:
    broken = [v for v in subject["audits"].values() if v["verdict"] == "broken"]
    broken.sort(key=lambda v: v["severity"] != "problem")
    rows = []
    first = [step for v in broken for step in v["next"][:1]]
    for i, step in enumerate(first[:3]):
        rows.append(("TRY FIRST" if i == 0 else "", safe_sentence(step)))
    unknown = list(unknowns(subject))
    for i, text in enumerate(unknown[:2]):
        rows.append(("NOT KNOWN" if i == 0 else "", text))
    settle = list(settling(document, subject))
    for i, text in enumerate(settle[:2]):
        rows.append(("SETTLE IT" if i == 0 else "", text))
    if not rows:
        return
    from rich.table import Table
    from rich.text import Text

    console.print()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=9, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for head, text in rows:
        table.add_row(Text(head, style="bold"), Text(text))
    console.print(table)


def _evidence(console: Console, subject: Mapping[str, Any]) -> None:
    console.print()
    console.print("EVIDENCE", style="bold")
    _row(console, [("", "", name, reading_words(r)) for name, r in subject["readings"].items()])
    settings = subject.get("settings", {})
    if settings:
        console.print()
        console.print("SETTINGS", style="bold")
        _row(console, [("", "", name, f"{s['value']} ({safe(s['source'])})") for name, s in settings.items()])
    if subject.get("parts"):
        console.print()
        console.print("ENGINES", style="bold")
        for part in subject["parts"]:
            done, prompt = (part["readings"][n]["value"] for n in ("finished_requests", "prompt_tokens"))
            console.print(
                f"     {safe(part['labels'].get('target'))} rank {safe(part['labels'].get('rank'))}: "
                f"{number(done)} requests, {number(prompt)} prompt tokens"
            )


def _gate(console: Console, gate: Mapping[str, Any]) -> None:
    """The gate last, next to the prompt: what decided it first, each premise with its line in the user's own file."""
    from auditor.outputs._gate import counts, notes, place, sentence, sorted_premises, subject_words, word

    styles = {"pass": "bold green", "fail": "bold red"}
    console.print(f"GATE {gate['verdict'].upper()}  {counts(gate)}", style=styles.get(gate["verdict"], "bold yellow"))
    premises = sorted_premises(gate)
    several = len({subject_words(p) for p in premises if p["subject"]}) > 1
    rows = []
    for p in premises:
        mark = "WVD" if p["verdict"] == "waived" else MARKS.get(p["verdict"], "?")
        style = "dim" if p["verdict"] == "waived" else STYLES.get(p["verdict"], "")
        aside = "warning: " if word(p) != p["verdict"] else ""
        subject = f"{subject_words(p)}: " if several and p["subject"] else ""
        rows.append((mark, style, safe(p["name"]), f"{subject}{aside}{sentence(p)}  {place(p)}"))
    _row(console, rows)
    _row(console, [("!!", "yellow", text, "") for text in notes(gate)], left=max(20, console.width - 8))
