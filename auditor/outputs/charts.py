"""The pictures of a report. Each draws into axes, so that a page and a PNG show the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from auditor.outputs.charts_style import MARKS, Palette, figure, plain, to_svg
from auditor.outputs.text import number, percent, speedup_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LEVERS = 10


@dataclass(frozen=True)
class Picture:
    """A picture for a page, with the numbers behind it."""

    svg: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def picture(
    draw: Callable[[Figure, Palette], None], *, height: float, name: str, caption: str, alt: str,
    head: Sequence[str], rows: Sequence[Sequence[str]],
) -> Picture:  # fmt: skip
    with figure(height, MARKS) as fig:
        draw(fig, MARKS)
        svg = to_svg(fig, name=name, title=alt)
    return Picture(svg, caption, head, rows)


# --------------------------------------------------------------------------- where request time goes


def split_rows(readings: Mapping[str, Any]) -> list[tuple[str, float, str]] | None:
    """(phase, seconds, role of its colour) of the split; None where it is not known."""
    wanted = (
        ("queue_seconds", "queue", "muted"),
        ("prefill_seconds", "prefill", "c1"),
        ("decode_seconds", "decode", "c2"),
    )
    rows = []
    for name, label, colour in wanted:
        value = readings.get(name, {}).get("value")
        if value is None:
            if label == "queue":
                continue
            return None
        rows.append((label, max(0.0, value), colour))
    return rows if sum(v for _, v, _ in rows) > 0 else None


def draw_split(axes: Axes, rows: Sequence[tuple[str, float, str]], p: Palette) -> None:
    total = sum(v for _, v, _ in rows)
    left = 0.0
    for label, value, role in rows:
        share = value / total
        colour, words = getattr(p, role), f"{label} {percent(share)}"
        axes.barh(0, share, left=left, color=colour, height=0.8, edgecolor=p.paper, linewidth=0.8, label=words)
        left += share
    axes.set(xlim=(0, 1), yticks=[], xticks=[])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.02), ncols=3, handlelength=1, columnspacing=1, borderpad=0)


def split_picture(readings: Mapping[str, Any], name: str) -> Picture | None:
    rows = split_rows(readings)
    if rows is None:
        return None
    total = sum(v for _, v, _ in rows)
    words = ", ".join(f"{label} {percent(value / total)}" for label, value, _ in rows)
    return picture(
        lambda fig, p: draw_split(fig.subplots(), rows, p),
        height=0.75,
        name=name,
        caption="Where request time goes. Request-seconds: requests overlap, so this is not GPU time.",
        alt=f"Bar of request time: {words}",
        head=("phase", "request-seconds", "share"),
        rows=[(label, number(value), percent(value / total)) for label, value, _ in rows],
    )


# --------------------------------------------------------------------------- steps, finish reasons


def steps_picture(reading: Mapping[str, Any], name: str) -> Picture | None:
    buckets = reading.get("buckets")
    total = sum(c for _, c in buckets) if buckets else 0
    if not buckets or total <= 0:
        return None
    filled = [i for i, (_, c) in enumerate(buckets) if c > 0]
    shown = buckets[: filled[-1] + 1]
    labels = [f"over {number(shown[i - 1][0])}" if e is None else f"to {number(e)}" for i, (e, _) in enumerate(shown)]
    shares = [c / total for _, c in shown]

    def draw(fig: Figure, p: Palette) -> None:
        axes = fig.subplots()
        axes.barh(range(len(shown)), shares, color=p.c1, height=0.75)
        axes.set_yticks(range(len(shown)), labels)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlim(0, max(shares) * 1.25)
        axes.xaxis.set_major_formatter(lambda v, _: f"{v * 100:.0f} %")
        for i, share in enumerate(shares):
            axes.text(share, i, f" {percent(share)}", va="center", color=p.ink)

    return picture(
        draw,
        height=0.4 + 0.19 * len(shown),
        name=name,
        caption="Tokens per recorded step. A whole prompt stands on the step of its first token; steps without output "
        "are not recorded.",
        alt=f"Histogram of tokens per recorded step, {number(total)} steps",
        head=("tokens", "steps", "share"),
        rows=[(label, number(c), percent(c / total)) for label, (_, c) in zip(labels, shown, strict=True)],
    )


def finish_picture(reasons: Mapping[str, float] | None, name: str) -> Picture | None:
    total = sum(reasons.values()) if reasons else 0
    if not reasons or total <= 0:
        return None
    rows = sorted(((plain(k), v) for k, v in reasons.items() if v > 0), key=lambda r: -r[1])[:8]

    def draw(fig: Figure, p: Palette) -> None:
        axes = fig.subplots()
        colours = [p.c2 if k == "length" else p.c1 for k, _ in rows]
        axes.barh(range(len(rows)), [v / total for _, v in rows], color=colours, height=0.7)
        axes.set_yticks(range(len(rows)), [k for k, _ in rows])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.28)
        axes.set_xticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
        axes.grid(axis="y", visible=False)
        for i, (_, value) in enumerate(rows):
            axes.text(value / total, i, f" {percent(value / total)}", va="center", color=p.ink)

    return picture(
        draw,
        height=0.4 + 0.24 * len(rows),
        name=name,
        caption="How requests ended. Clients that hung up are not among them.",
        alt="Bars of finish reasons: " + ", ".join(f"{k} {percent(v / total)}" for k, v in rows),
        head=("reason", "requests", "share"),
        rows=[(plain(k, 60), number(v), percent(v / total)) for k, v in sorted(reasons.items(), key=lambda r: -r[1])],
    )


# --------------------------------------------------------------------------- levers


def levers_picture(levers: Mapping[str, Any], name: str) -> Picture | None:
    """Ranges of what each lever can gain at most; an arrow where there is no upper limit."""
    known = [(k, v) for k, v in levers.items() if v["verdict"] != "not_applicable"]
    known = [(k, v) for k, v in known if list(v["ceiling_speedup"]) != [None, None]]
    known = sorted(known, key=lambda item: -(item[1]["ceiling_speedup"][0] or 0))[:MOST_LEVERS]
    if not known:
        return None
    ends = [x for _, v in known for pair in (v["ceiling_speedup"], v["ceiling_speedup_95"]) for x in pair if x]
    right, left = max(2.0, max(ends) * 1.15), min(0.95, min(ends) * 0.97)

    def draw(fig: Figure, p: Palette) -> None:
        axes = fig.subplots()
        for i, (_, lever) in enumerate(known):
            for pair, width in ((lever["ceiling_speedup"], 1.4), (lever["ceiling_speedup_95"], 5.0)):
                low, high = pair
                if low is None and high is None:
                    continue
                axes.plot([low or left, high or right], [i, i], color=p.c1, linewidth=width, solid_capstyle="butt")
            if lever["ceiling_speedup"][1] is None:
                axes.plot([right], [i], marker=">", color=p.c1, markersize=5, clip_on=False)
        axes.axvline(1, color=p.muted, linewidth=0.9)
        axes.set_xscale("log")
        axes.set_xlim(left, right)
        ticks = [t for t in (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100) if left <= t <= right]
        ticks = ticks if len(ticks) < 7 else ticks[::2]
        axes.set_xticks(ticks, [f"{t:g}x" for t in ticks])
        axes.set_xticks([], minor=True)
        axes.set_yticks(range(len(known)), [k for k, _ in known])
        axes.set_ylim(len(known) - 0.5, -0.5)

    return picture(
        draw,
        height=0.4 + 0.24 * len(known),
        name=name,
        caption="The most each lever can gain in request time: thin 99 %, thick 95 %, an arrow where nothing limits "
        "it. A ceiling, never a promise.",
        alt="Ranges of what levers gain at most: "
        + "; ".join(f"{k} {speedup_range(v['ceiling_speedup'])}" for k, v in known),
        head=("lever", "99 % range", "95 % range", "if twice as fast"),
        rows=[
            (k, *(speedup_range(v[m]) for m in ("ceiling_speedup", "ceiling_speedup_95", "if_twice_as_fast")))
            for k, v in known
        ],
    )  # fmt: skip
