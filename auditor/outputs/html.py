"""One self-contained page: no script, nothing fetched, readable on a telephone and on paper.

The template escapes every value; the policy in the page allows its own style sheet, by hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from auditor.outputs import _nights
from auditor.outputs._page_parts import (
    caveats_of,
    claim_row,
    lever_rows,
    next_steps,
    part_row,
    setting_rows,
)
from auditor.outputs._sections import SECTIONED, sections_of
from auditor.outputs.charts import (
    Picture,
    finish_picture,
    levers_picture,
    split_picture,
    steps_picture,
)
from auditor.outputs.charts_compare import compare_picture
from auditor.outputs.charts_step import step_picture
from auditor.outputs.charts_time import course_picture, trend_picture
from auditor.outputs.text import (
    MARKS,
    RenderOptions,
    number,
    reading_words,
    safe,
    safe_sentence,
    seconds,
    subject_title,
)

COLOURS = {"holds": "YES", "broken": "NO", "undecided": "open", "not_applicable": "none", "error": "ERR"}
RANK = {"error": 0, "broken": 1, "undecided": 3, "holds": 4, "not_applicable": 5}
SHOWN_CHANGES = 12
MOST_DRAWN = 12
"""A page of fifty models with sixteen pictures each would be slow to open: the urgent ones are drawn."""


def render(document: Mapping[str, Any], options: RenderOptions) -> str:
    """The page of a report. Documents of other kinds are shown as their text."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = resources.files("auditor.outputs") / "templates"
    style = (folder / "report.css").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((folder / "report.html.j2").read_text(encoding="utf-8"))
    kind = document.get("kind", "audit")
    if kind in SECTIONED:
        page = _sections_page(document, options)
    else:
        page = _page(document) if kind == "audit" else _text_page(document)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return template.render(**page, style=Markup(style), style_hash=digest) + "\n"


def _sections_page(document: Mapping[str, Any], options: RenderOptions) -> dict[str, Any]:
    """Boots, a step, a comparison: headings, lines, tables, and the picture of a sweep or of the arms."""
    kind = document["kind"]
    drawn = step_picture(document, "step") if kind == "step" else None
    if kind == "compare":
        drawn = compare_picture(document, "compare")
    return {
        "title": f"Premise auditor: {kind}", "lines": [], "text": None, "notes": [], "gate": None, "subjects": [],
        "sections": sections_of(document, options), "drawn": [_shown(drawn)] if drawn else [],
        "foot": f"{safe(document.get('tool', 'premise-auditor'))}, exit code {document.get('exit_code', 0)}",
    }  # fmt: skip


def _text_page(document: Mapping[str, Any]) -> dict[str, Any]:
    from auditor.outputs import terminal

    kind = safe(document["kind"])
    text = terminal.render(document, RenderOptions(width=100))
    return {
        "title": f"Premise auditor: {kind}", "lines": [], "text": text, "notes": [], "gate": None, "subjects": [],
        "foot": safe(document.get("tool", "premise-auditor")),
    }  # fmt: skip


def _page(document: Mapping[str, Any]) -> dict[str, Any]:
    nights = document.get("nights") or {}
    drawn = _most_urgent(document["subjects"], nights)
    title = "Premise auditor: the night" if nights else "Premise auditor: report"
    foot = f"{safe(document['tool'])}, schema {document['schema']}, exit code {document['exit_code']}"
    if nights:
        foot += f", made {_nights.short_time(nights['ran'])} UTC"
    return {
        "title": title,
        "lines": list(_lines(document, nights)),
        "text": None,
        "notes": list(_notes(document, nights)),
        "gate": _gate(document.get("gate")),
        "subjects": [_subject(document, s, nights, i, draw=i in drawn) for i, s in enumerate(document["subjects"])],
        "foot": foot,
    }


def _lines(document: Mapping[str, Any], nights: Mapping[str, Any]) -> Iterator[str]:
    window = document["window"]
    span = seconds(window["seconds"])
    when = ""
    if window["start"] and window["end"]:
        when = f", {_nights.short_time(window['start'])} to {_nights.short_time(window['end'])} UTC"
    elif window["end"]:
        when = f", until {_nights.short_time(window['end'])} UTC"
    kind = {"lifetime": "one scrape: since the start of the engine"}.get(window["kind"], safe(window["kind"]))
    yield f"Window: {safe(window.get('source') or window['kind'])} | {kind} | {span}{when}"
    if window["coverage"] < 1 or window["restarts"]:
        yield f"Coverage {number(window['coverage'], 'ratio')}, restarts inside the window: {window['restarts']}"
    if nights:
        yield _nights.title(nights)[:1].upper() + _nights.title(nights)[1:]


def _notes(document: Mapping[str, Any], nights: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for target in document["targets"]:
        if target["state"] != "measured":
            state, reason = target["state"].replace("_", " "), safe_sentence(target["reason"] or "")
            yield {"kind": "bad", "text": f"{safe(target['address'])}: {state}: {reason}"}
    for warning in document["window"].get("warnings", ()):
        yield {"kind": "", "text": safe_sentence(warning)}
    for text in _nights.general_notes(nights) if nights else ():
        yield {"kind": "", "text": text}
    if len(document["subjects"]) > MOST_DRAWN:
        rest = len(document["subjects"]) - MOST_DRAWN
        yield {
            "kind": "",
            "text": f"Pictures are drawn for the {MOST_DRAWN} most urgent subjects; {rest} have none here.",
        }
    if not document["subjects"]:
        yield {"kind": "bad", "text": "No engine was measured, so there is no verdict."}


def _gate(gate: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not gate:
        return None
    rows = [
        (
            MARKS.get(p["verdict"], safe(p["verdict"])), safe(p["name"]), safe_sentence(p["expected"]),
            safe_sentence(p["found"]), f"{safe(p['file'])}:{p['line']}",
        )
        for p in gate["premises"]
    ]  # fmt: skip
    return {"verdict": safe(gate["verdict"]), "head": ("", "premise", "expected", "found", "where"), "rows": rows}


def _subject(
    document: Mapping[str, Any], subject: Mapping[str, Any], nights: Mapping[str, Any], index: int, *, draw: bool
) -> dict[str, Any]:
    readings, facts = subject["readings"], subject.get("facts", {})
    night = _nights.night_of(nights, subject["labels"]) if nights else None
    name = f"s{index}"
    done = readings.get("finished_requests", {}).get("value")
    pictures = _pictures(document, subject, name) if draw else []
    trends = night["trends"] if night and draw else {}
    drawn = [trend_picture(reading, t, f"{name}-t{i}") for i, (reading, t) in enumerate(trends.items())]
    return {
        "id": name,
        "overview": _overview(subject, night),
        "title": subject_title(subject["labels"]),
        "sub": "" if done is None else f"{number(done)} requests finished",
        "idle": "no_traffic" in subject["flags"],
        "verdicts": _verdicts(subject),
        "night": _night(night) if night else None,
        "notes": [f"settings disagree: {safe_sentence(t)}" for t in facts.get("settings_disagree", ())],
        "pictures": [_shown(p) for p in pictures if p],
        "trends": [_shown(p) for p in drawn if p],
        "levers": lever_rows(subject.get("levers", {})),
        "claims": [claim_row(c) for c in subject.get("claims", ())],
        "next": next_steps(subject),
        "evidence": [
            (k, reading_words(r), ", ".join(r.get("from", ())), safe_sentence("; ".join(r.get("caveats", ()))))
            for k, r in readings.items()
        ],
        "settings": setting_rows(subject),
        "parts_head": ("target", "rank", "requests", "prompt tokens"),
        "parts": [part_row(p) for p in subject.get("parts", ())],
        "caveats": caveats_of(subject),
    }


def _overview(subject: Mapping[str, Any], night: Mapping[str, Any] | None) -> str:
    """What a reader of many subjects looks for: broken premises, and how the night was."""
    broken = sum(v["verdict"] == "broken" for v in subject["audits"].values())
    words = f"{broken} premise{'' if broken == 1 else 's'} broken"
    return f"{words}; {_nights.verdict_words(night)}" if night else words


def _pictures(document: Mapping[str, Any], subject: Mapping[str, Any], name: str) -> list[Picture | None]:
    readings, facts = subject["readings"], subject.get("facts", {})
    course = subject.get("course") or (document.get("course") if len(document["subjects"]) == 1 else None)
    return [
        split_picture(readings, f"{name}-split"),
        course_picture(course, f"{name}-course") if course else None,
        finish_picture(facts.get("finish_reasons"), f"{name}-finish"),
        steps_picture(readings.get("step_tokens", {}), f"{name}-steps"),
        levers_picture(subject.get("levers", {}), f"{name}-levers"),
    ]


def _most_urgent(subjects: Sequence[Mapping[str, Any]], nights: Mapping[str, Any]) -> set[int]:
    """The subjects that get pictures: those that got worse, then those with most broken premises."""

    def rank(index: int) -> tuple[bool, int, int]:
        night = _nights.night_of(nights, subjects[index]["labels"]) if nights else None
        broken = sum(v["verdict"] == "broken" for v in subjects[index]["audits"].values())
        return not (night and night["verdict"] == "worse"), -broken, index

    return set(sorted(range(len(subjects)), key=rank)[:MOST_DRAWN])


def _shown(picture: Picture) -> dict[str, Any]:
    from markupsafe import Markup

    # The SVG was written by an XML library out of our own drawing; labels in it are escaped.
    svg = Markup(picture.svg)
    return {"svg": svg, "caption": picture.caption, "head": picture.head, "rows": picture.rows}


def _verdicts(subject: Mapping[str, Any]) -> list[dict[str, str]]:
    def rank(item: tuple[str, Mapping[str, Any]]) -> tuple[int, int]:
        return RANK[item[1]["verdict"]], {"problem": 0, "warning": 1}.get(item[1]["severity"], 2)

    return [
        {
            "mark": MARKS[v["verdict"]],
            "colour": COLOURS[v["verdict"]],
            "question": safe(v.get("question") or name),
            "summary": safe_sentence(v["summary"]),
        }
        for name, v in sorted(subject["audits"].items(), key=rank)
        if v["verdict"] != "not_applicable"
    ]


def _night(night: Mapping[str, Any]) -> dict[str, Any]:
    changes = _nights.changes_of(night)
    rows = []
    for c in changes[:SHOWN_CHANGES]:
        low, high = c["band"] or (None, None)
        nights = c["nights_out"]
        since = f"{_nights.short_time(c['since'])[:10]} ({nights} night{'' if nights == 1 else 's'})"
        rows.append(
            (
                c["verdict"], safe(c["reading"]), _nights.with_unit(c["value"], c["unit"]),
                _nights.by_how_much(c, _nights.row_of(night, c["reading"])),
                f"{number(low, c['unit'])} .. {number(high, c['unit'])} ({c['nights']} nights)",
                since,
            )
        )  # fmt: skip
    lines = []
    if len(changes) > SHOWN_CHANGES:
        lines.append(f"and {len(changes) - SHOWN_CHANGES} more, in the JSON report")
    traffic = _nights.traffic_words(night)
    if traffic:
        lines.append(traffic)
    if night["events"]:
        lines.append("Changed since last night: " + "; ".join(safe_sentence(e["summary"]) for e in night["events"]))
    kind = {"worse": "bad", "same": "good", "better": "good"}.get(night["verdict"], "")
    return {
        "verdict": night["verdict"], "kind": kind, "words": _nights.verdict_words(night),
        "cause": _nights.cause_sentence(night), "first": list(_nights.comparison_lines(night)), "rows": rows,
        "lines": lines,
    }  # fmt: skip
