"""The picture of a comparison: each arm's change with its interval, side by side, around no change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.outputs.charts import Picture, picture
from auditor.outputs.text import number, safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from auditor.outputs.charts_style import Palette

HEADLINES = (
    "ttft_seconds", "itl_seconds", "e2e_seconds", "generation_tokens_per_wall_second", "mean_prefill_seconds",
    "decode_seconds_per_token", "queue_share", "prefix_hit_share", "length_share",
)  # fmt: skip
ROW_INCHES = 0.22
WIDEST = 1.0
"""Changes beyond +-100 % are drawn at the edge, with an arrow; the table has the figure."""


def drawn_rows(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Rows of the headline readings whose change has an interval, reading by reading."""
    rows = [r for r in document["rows"] if r["reading"] in HEADLINES and r["low"] is not None and r["high"] is not None]
    return sorted(rows, key=lambda r: HEADLINES.index(r["reading"]))


def draw_compare(axes: Axes, document: Mapping[str, Any], p: Palette) -> None:
    """One bar an arm and reading from the low to the high end of its change; the dot is the change."""
    rows = drawn_rows(document)
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    colours = (p.c1, p.c2, p.c3, p.c4)
    labels = []
    axes.axvline(0, color=p.muted, linewidth=0.9)
    for i, row in enumerate(rows):
        colour = colours[arms.index(row["arm"]) % len(colours)]
        low, high = max(-WIDEST, row["low"]), min(WIDEST, row["high"])
        first = row["arm"] not in [r["arm"] for r in rows[:i]]
        axes.plot([low, high], [i, i], color=colour, linewidth=2.4, label=safe(row["arm"], 30) if first else None)
        axes.plot([min(WIDEST, max(-WIDEST, row["change"]))], [i], marker="o", color=colour, markersize=4.5)
        for outside, at, arrow in ((row["low"] < -WIDEST, low, "<"), (row["high"] > WIDEST, high, ">")):
            if outside:
                axes.plot([at], [i], marker=arrow, color=colour, markersize=5, clip_on=False)
        repeated = i > 0 and rows[i - 1]["reading"] == row["reading"]
        labels.append("" if repeated else f"{row['reading'].replace('_', ' ')}")
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    reach = max(0.1, *(min(WIDEST, abs(row[end])) for row in rows for end in ("low", "high")))
    axes.set_xlim(-reach * 1.08, reach * 1.08)
    axes.xaxis.set_major_formatter(lambda v, _: f"{v * 100:+.0f} %")
    if len(arms) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, handlelength=1.4, borderpad=0)


def compare_picture(document: Mapping[str, Any], name: str) -> Picture | None:
    """The picture for a page; None where no headline reading has an interval."""
    rows = drawn_rows(document)
    if not rows:
        return None
    baseline = safe(rows[0]["baseline"])
    return picture(
        lambda fig, p: draw_compare(fig.subplots(), document, p),
        height=0.6 + ROW_INCHES * len(rows),
        name=name,
        caption=f"Change against {baseline}, with its 95 % interval. Right of the line is more, which may be worse.",
        alt=f"Intervals of {len(rows)} changes against {baseline}",
        head=("arm", "reading", "baseline", "value", "change", "low", "high", "noise", "verdict"),
        rows=[
            (
                safe(r["arm"]),
                r["reading"],
                number(r["baseline_value"]),
                number(r["value"]),
                *(f"{r[k] * 100:+.1f} %" for k in ("change", "low", "high")),
                r["noise"],
                r["verdict"],
            )
            for r in rows
        ],
    )
