"""One picture for chat: the verdicts, where request time goes, and how the nights went."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.outputs import _nights
from auditor.outputs.charts import draw_split, split_rows
from auditor.outputs.charts_step import draw_step, has_picture, picture_inches
from auditor.outputs.charts_style import LIGHT, figure, plain
from auditor.outputs.charts_time import draw_trend
from auditor.outputs.text import MARKS, RenderOptions, safe_sentence, seconds, subject_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

DPI = 150
WIDTH_INCHES = 7.2
LINE_INCHES = 0.17
SHOWN_VERDICTS = 6
SHOWN_TRENDS = 3
SHOWN_SUBJECTS = 6
COLUMNS = 104
VERDICT_COLOURS = {"YES": "#1f6b3f", "NO": "#b3261e", "?": "#7a5200", "ERR": "#b3261e", "-": "#55606e"}
RANK = {"error": 0, "broken": 1, "undecided": 2, "holds": 3}


def render(document: Mapping[str, Any], options: RenderOptions) -> bytes:
    """A PNG of at most six subjects; of other kinds of document, their text."""
    if document.get("kind", "audit") != "audit":
        return _text_picture(document)
    nights = document.get("nights") or {}
    subjects = document["subjects"][:SHOWN_SUBJECTS]
    blocks = [_Block(s, _nights.night_of(nights, s["labels"]) if nights else None) for s in subjects]
    head = _head(document, nights)
    heights = [LINE_INCHES * (len(head) + 1), *(b.height for b in blocks)]
    with figure(sum(heights), LIGHT, width_inches=WIDTH_INCHES) as fig:
        parts = fig.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        _write(parts[0], [(line, LIGHT.ink, i == 0) for i, line in enumerate(head)], heights[0])
        for part, block in zip(parts[1:], blocks, strict=True):
            block.draw(part)
        return _to_png(fig)


def _to_png(fig: Figure) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=DPI, facecolor=LIGHT.paper, metadata={"Software": None})
    return buffer.getvalue()


def _head(document: Mapping[str, Any], nights: Mapping[str, Any]) -> list[str]:
    window = document["window"]
    lines = ["Premise auditor: the night" if nights else "Premise auditor"]
    lines.append(f"{plain(window.get('source') or window['kind'], 80)} | {seconds(window['seconds'])}")
    if nights:
        lines.append(_nights.title(nights))
        lines += list(_nights.general_notes(nights))[:4]
    for target in document["targets"][:4]:
        if target["state"] != "measured":
            lines.append(f"{plain(target['address'], 40)}: {target['state']}: {safe_sentence(target['reason'] or '')}")
    if not document["subjects"]:
        lines.append("No engine was measured, so there is no verdict.")
    if len(document["subjects"]) > SHOWN_SUBJECTS:
        lines.append(f"the first {SHOWN_SUBJECTS} of {len(document['subjects'])} subjects")
    return [part for line in lines for part in textwrap.wrap(line, COLUMNS)[:2]]


class _Block:
    """One subject: lines of text, the split, a row of trends."""

    def __init__(self, subject: Mapping[str, Any], night: Mapping[str, Any] | None) -> None:
        self._split = split_rows(subject["readings"])
        self._lines = list(_lines(subject, night))
        self._trends = _pick_trends(night) if night else []
        self._split_height = 0.45 if self._split else 0.0
        self._trend_height = 1.25 if self._trends else 0.0
        self._text_height = LINE_INCHES * (len(self._lines) + 0.6)
        self.height = self._text_height + self._split_height + self._trend_height

    def draw(self, part: SubFigure) -> None:
        heights = [h for h in (self._text_height, self._split_height, self._trend_height) if h]
        rows = list(part.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
        _write(rows.pop(0), self._lines, self._text_height)
        if self._split:
            draw_split(rows.pop(0).subplots(), self._split, LIGHT)
        if self._trends:
            panels = rows.pop(0).subplots(1, SHOWN_TRENDS, squeeze=False)[0]
            for i, axes in enumerate(panels):
                if i < len(self._trends):
                    name, trend = self._trends[i]
                    draw_trend(axes, trend, LIGHT)
                    axes.set_title(plain(name, 34), fontsize=7.5)
                else:
                    axes.set_axis_off()


def _lines(subject: Mapping[str, Any], night: Mapping[str, Any] | None) -> list[tuple[str, str, bool]]:
    out = [(plain(subject_title(subject["labels"]), COLUMNS), LIGHT.ink, True)]
    if night:
        colour = LIGHT.bad if night["verdict"] == "worse" else LIGHT.ink
        out.append((_nights.verdict_words(night)[:COLUMNS], colour, False))
        for line in list(_nights.subject_lines(night))[:4]:
            short = textwrap.shorten(line, 2 * COLUMNS - 12, placeholder=" ...")
            out += [(part, LIGHT.muted, False) for part in textwrap.wrap(short, COLUMNS)]
    audits = sorted(subject["audits"].values(), key=lambda v: (RANK.get(v["verdict"], 9), v["severity"] != "problem"))
    for v in [v for v in audits if v["verdict"] != "not_applicable"][:SHOWN_VERDICTS]:
        mark = MARKS[v["verdict"]]
        text = f"{mark:>4}  {v.get('question') or ''} {safe_sentence(v['summary'])}"
        out.append((textwrap.shorten(text, COLUMNS, placeholder=" ..."), VERDICT_COLOURS[mark], False))
    return out


def _pick_trends(night: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """What got worse first, then what moved otherwise, then the usual ones."""
    trends = night["trends"]
    moved = sorted(night["changes"], key=lambda c: c["verdict"] != "worse")
    names = [c["reading"] for c in moved if c["reading"] in trends]
    names += [n for n in trends if n not in names]
    return [(n, trends[n]) for n in names if any(v is not None for v in trends[n]["values"])][:SHOWN_TRENDS]


def _write(part: Any, lines: list[tuple[str, str, bool]], height: float) -> None:
    for i, (text, colour, bold) in enumerate(lines):
        y = 1 - (i + 0.8) * LINE_INCHES / height
        part.text(0.012, y, text, color=colour, fontweight="bold" if bold else "normal", fontsize=8, va="baseline")


def _text_picture(document: Mapping[str, Any]) -> bytes:
    from auditor.outputs import terminal

    text = terminal.render(document, RenderOptions(width=100)).splitlines()[:120]
    height = max(0.5, LINE_INCHES * (len(text) + 1))
    drawn = picture_inches(document) + 0.6 if document["kind"] == "step" and has_picture(document) else 0.0
    with figure(height + drawn, LIGHT, width_inches=9) as fig:
        parts: list[Any] = [fig]
        if drawn:
            parts = list(fig.subfigures(2, 1, height_ratios=[height, drawn], squeeze=False)[:, 0])
            draw_step(parts[1], document, LIGHT)
        for i, line in enumerate(text):
            y = 1 - (i + 0.8) * LINE_INCHES / height
            parts[0].text(0.01, y, line, color=LIGHT.ink, family="DejaVu Sans Mono", fontsize=7.5)
        return _to_png(fig)
