"""Markdown for a job summary, a pull request or a ticket: the gate first, then verdicts, levers and readings.

Values from pages are escaped, so that a label can neither end a table cell, nor open a code span, nor bring in HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from auditor.outputs._gate import counts, notes, place, sorted_premises, subject_words, word
from auditor.outputs._sections import SECTIONED, sections_of
from auditor.outputs.text import (
    MARKS,
    RenderOptions,
    reading_words,
    safe,
    seconds,
    speedup_range,
    subject_title,
)

KINDS = SECTIONED | {"audit"}
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_AT_THE_START = re.compile(r"^(\s*)([#+>=-]|\d+(?=[.)](?:\s|$)))")
_ENTITIES = {"&": "&amp;", "<": "&lt;"}
PLAIN_READINGS = ("measured", "partial", "bounded")


def render(document: Mapping[str, Any], options: RenderOptions) -> str:
    """Markdown of a report, or of a boots, step or compare document."""
    if document.get("kind") in SECTIONED:
        return "\n".join(_sections(document, options))
    lines: list[str] = []
    if document.get("gate"):
        lines += _gate(document["gate"])
    lines += _targets(document)
    for subject in document["subjects"]:
        lines += _subject(document, subject, options)
    if document.get("nights"):
        lines += _nights_part(document["nights"])
    if not document["subjects"]:
        lines += ["No engine was measured, so there is no verdict.", ""]
    lines += [f"{escape(document['tool'])}, exit code {document['exit_code']}", ""]
    return "\n".join(lines)


def _nights_part(nights: Mapping[str, Any]) -> Iterator[str]:
    """What a nightly report says of the nights before."""
    from auditor.outputs import _nights

    yield f"## Nights: {escape(_nights.title(nights))}"
    yield ""
    for note in _nights.general_notes(nights):
        yield f"- {escape(note)}"
    for night in nights.get("subjects", ()):
        yield f"- **{escape(subject_title(night['labels']))}** {escape(_nights.verdict_words(night))}"
        for line in _nights.subject_lines(night):
            yield f"  - {escape(line)}"
    yield ""


def escape(text: object, longest: int = 600) -> str:
    """Text that Markdown shows as it is: one line, no markup, no HTML, no table cell ended early."""
    clean = safe(text, longest=longest)
    clean = re.sub("[&<]", lambda m: _ENTITIES[m[0]], clean)
    clean = _SPECIAL.sub(r"\\\1", clean)
    clean = _AT_THE_START.sub(_block_start, clean)
    # A bare address would become a link, and @name a mention.
    return clean.replace("://", "&#58;//").replace("@", "&#64;").replace("www.", "www&#46;")


def _block_start(match: re.Match[str]) -> str:
    """A heading, list or quote begins with its sign; a numbered list with the sign after its number."""
    space, sign = match[1], match[2]
    return f"{space}{sign}\\" if sign.isdigit() else f"{space}\\{sign}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _sections(document: Mapping[str, Any], options: RenderOptions) -> Iterator[str]:
    for section in sections_of(document, options):
        yield f"## {escape(section.title)}"
        yield ""
        for line in section.lines:
            yield f"- {escape(line, 4000)}"
        if section.lines:
            yield ""
        if section.head:
            yield from _table(
                [escape(h) for h in section.head], [[escape(cell, 4000) for cell in row] for row in section.rows]
            )
    yield f"{escape(document.get('tool', ''))}, exit code {document.get('exit_code', 0)}"
    yield ""


def _gate(gate: Mapping[str, Any]) -> Iterator[str]:
    yield f"## Gate: {escape(gate['verdict'])}"
    yield ""
    yield f"{escape(counts(gate))}."
    yield ""
    premises = sorted_premises(gate)
    several = len({subject_words(p) for p in premises if p["subject"]}) > 1
    head = ["", "premise", *(["subject"] if several else []), "expected", "found", "why", "where"]
    if premises:
        yield from _table(head, [_premise_row(p, several) for p in premises])
    for text in notes(gate):
        yield f"- {escape(text)}"
    yield ""


def _premise_row(p: Mapping[str, Any], several: bool) -> list[str]:
    subject = [escape(subject_words(p) or "none")] if several else []
    flags = f" ({escape(', '.join(p['flags']))})" if p.get("flags") else ""
    return [
        escape(word(p)), escape(p["name"], longest=120), *subject, escape(p["expected"]), escape(p["found"]) + flags,
        escape(p.get("reason") or ""), escape(place(p)),
    ]  # fmt: skip


def _targets(document: Mapping[str, Any]) -> Iterator[str]:
    bad = [t for t in document["targets"] if t["state"] != "measured"]
    if bad:
        rows = [
            [escape(t["address"], 120), escape(t["state"].replace("_", " ")), escape(t["reason"] or "")] for t in bad
        ]
        yield from _table(["target", "state", "reason"], rows)
    warnings = document["window"].get("warnings", ())
    for warning in warnings:
        yield f"- {escape(warning)}"
    if warnings:
        yield ""


def _subject(document: Mapping[str, Any], subject: Mapping[str, Any], options: RenderOptions) -> Iterator[str]:
    window = document["window"]
    yield f"## {escape(subject_title(subject['labels']))}"
    yield ""
    yield escape(f"{safe(window.get('source') or window['kind'])}, {seconds(window['seconds'])}")
    yield ""
    audits = [
        [MARKS[v["verdict"]], escape(v.get("question") or name, 120),
         *(escape(v[key]) for key in ("summary", "expected", "found"))]
        for name, v in subject["audits"].items()
        if options.show_all or v["verdict"] != "not_applicable"
    ]  # fmt: skip
    yield from _table(["", "premise", "summary", "expected", "found"], audits)
    for flag in subject["flags"]:
        text = subject.get("facts", {}).get(flag)
        yield f"- {escape(flag)}" + (f": {escape(text)}" if isinstance(text, str) else "")
    if subject["flags"]:
        yield ""
    yield from _levers(subject)
    yield from _claims(subject)
    yield from _readings(subject, options)


def _levers(subject: Mapping[str, Any]) -> Iterator[str]:
    levers = {k: v for k, v in subject.get("levers", {}).items() if v["verdict"] != "not_applicable"}
    if not levers:
        return
    yield "Levers: the most each can gain in request time, never a promise."
    yield ""
    rows = [
        [escape(name), escape(v["verdict"].replace("_", " ")), escape(_ceiling(v)),
         escape(v.get("summary") or v.get("reason") or "")]
        for name, v in levers.items()
    ]  # fmt: skip
    yield from _table(["lever", "verdict", "ceiling", "why"], rows)


def _ceiling(lever: Mapping[str, Any]) -> str:
    narrow = lever["ceiling_speedup_95"]
    return speedup_range(narrow if narrow != [None, None] else lever["ceiling_speedup"])


def _claims(subject: Mapping[str, Any]) -> Iterator[str]:
    for claim in subject.get("claims", ()):
        word_of = {True: "is what it says", False: "is not what it says", None: "undecided"}[claim["is_what_it_says"]]
        yield f"- claim {escape(claim['claim'])} {claim['value']:g}: {word_of}: {escape(claim.get('summary', ''))}"
    if subject.get("claims"):
        yield ""


def _readings(subject: Mapping[str, Any], options: RenderOptions) -> Iterator[str]:
    shown = {k: r for k, r in subject["readings"].items() if options.show_all or r["state"] in PLAIN_READINGS}
    missing = [k for k in subject["readings"] if k not in shown]
    yield "<details><summary>Readings</summary>"
    yield ""
    yield from _table(["reading", "value"], [[escape(k), escape(reading_words(r))] for k, r in shown.items()])
    if missing:
        yield escape(f"Without a value here: {', '.join(missing)}.", 4000)
        yield ""
    yield "</details>"
    yield ""
