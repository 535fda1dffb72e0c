"""The picture of a sweep: what a step of each budget holds, and what that does to a prompt and to everybody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.outputs._step import cells, heads_of
from auditor.outputs.charts import Picture, picture
from auditor.outputs.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from auditor.outputs.charts_style import Palette

BAR_INCHES = 0.24


def has_picture(document: Mapping[str, Any]) -> bool:
    """One budget needs no picture."""
    return len(document["rows"]) > 1


def picture_inches(document: Mapping[str, Any]) -> float:
    return 0.75 + BAR_INCHES * len(document["rows"]) + (1.5 if _curves(document) else 0.0)


def draw_step(fig: Figure | Any, document: Mapping[str, Any], p: Palette) -> None:
    """Bars of the step, and below them the prompt's wait against everybody's, where seconds are known."""
    bars = 0.75 + BAR_INCHES * len(document["rows"])
    if _curves(document):
        upper, lower = fig.subplots(2, 1, height_ratios=[bars, 1.5])
        _draw_curves(lower, document, p)
    else:
        upper = fig.subplots()
    _draw_bars(upper, document, p)


def _draw_bars(axes: Axes, document: Mapping[str, Any], p: Palette) -> None:
    rows = document["rows"]
    alone = document["question"]["engine"] == "sglang"
    for i, row in enumerate(rows):
        decode = 0 if alone else row["decode_tokens_per_step"]
        chunk = row["chunk_tokens"]
        rest = row["budget"] - decode - chunk
        for left, width, colour, words in (
            (0, decode, p.c2, "decode"),
            (decode, chunk, p.c1, "one prompt"),
            (decode + chunk, rest, p.band, "other prompts"),
        ):
            axes.barh(i, width, left=left, color=colour, height=0.72, label=words if i == 0 else None)
        mark = " *" if row["smallest_that_does_not_starve"] else " starves" if row["starves_prefill"] else ""
        axes.text(row["budget"], i, mark, va="center", color=p.ink)
    axes.set_yticks(range(len(rows)), [number(row["budget"]) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, max(row["budget"] for row in rows) * 1.16)
    axes.xaxis.set_major_formatter(lambda v, _: number(v))
    axes.set_xlabel("tokens of one step")
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, handlelength=1, columnspacing=0.9, borderpad=0)


def _curves(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(column, words) of the seconds that are known for at least two budgets."""
    last = "freeze_seconds" if document["question"]["engine"] == "sglang" else "gap_seconds"
    wanted = [("ttft_loaded_seconds", "first token"), (last, "every stream waits")]
    return [(k, w) for k, w in wanted if sum(row[k] is not None for row in document["rows"]) > 1]


def _draw_curves(axes: Axes, document: Mapping[str, Any], p: Palette) -> None:
    for (key, words), colour, dash in zip(_curves(document), (p.c1, p.c2), ("-", (0, (4, 1.5))), strict=False):
        known = [(row["budget"], row[key]) for row in document["rows"] if row[key] is not None]
        axes.plot([b for b, _ in known], [v for _, v in known], color=colour, linestyle=dash, marker="o", markersize=3,
                  label=words)  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda v, _: number(v))
    axes.set_xlabel("tokens of one step")
    axes.set_ylabel("seconds")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, handlelength=2, columnspacing=0.9, borderpad=0)


def step_picture(document: Mapping[str, Any], name: str) -> Picture | None:
    """The picture of a sweep for a page; None for a single budget."""
    if not has_picture(document):
        return None
    smallest = document["smallest_budget"]
    marked = "every budget starves prefill" if smallest is None else f"* {number(smallest)} does not starve prefill"
    budgets = ", ".join(number(row["budget"]) for row in document["rows"])
    return picture(
        lambda fig, p: draw_step(fig, document, p),
        height=picture_inches(document),
        name=name,
        caption=f"What a step of each budget holds with all seats taken. {marked[:1].upper()}{marked[1:]}.",
        alt=f"Bars of what a step holds at budgets of {budgets} tokens; {marked}",
        head=heads_of(document),
        rows=[cells(row, document) for row in document["rows"]],
    )
