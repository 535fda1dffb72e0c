"""Pictures along time: the course of a window, and a reading over the nights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from auditor.outputs.charts import Picture, picture
from auditor.outputs.charts_style import DASHES, Palette, compact
from auditor.outputs.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHARES = ("prefill_share", "prefix_hit_share", "queue_share", "kv_usage")
LOADS = ("running_requests", "waiting_requests")
RATES = ("generation_tokens_per_wall_second",)


def moments(times: Sequence[str | None]) -> list[Any]:
    """Dates where all are known, else the number of each slice."""
    if times and all(t is not None for t in times):
        return [datetime.fromisoformat(str(t)).astimezone(UTC).replace(tzinfo=None) for t in times]
    return list(range(1, len(times) + 1))


def date_axis(axes: Axes, dated: bool) -> None:
    if not dated:
        axes.set_xlabel("slice")
        return
    from matplotlib.dates import AutoDateLocator, DateFormatter, num2date

    first, last = (num2date(x) for x in axes.get_xlim())  # type: ignore[no-untyped-call]
    locator: Any = AutoDateLocator(minticks=2, maxticks=5)  # type: ignore[no-untyped-call]
    # Month and day beside each other over days, the time of day within two of them; always UTC.
    formatter: Any = DateFormatter("%m-%d" if (last - first).days >= 2 else "%H:%M")  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)


def course_picture(course: Mapping[str, Any], name: str) -> Picture | None:
    times, readings = course["times"], course["readings"]
    groups = [
        (title, [n for n in names if any(v is not None for v in readings.get(n, ()))])
        for title, names in (("shares", SHARES), ("requests", LOADS), ("generated tokens per second", RATES))
    ]
    groups = [(title, names) for title, names in groups if names]
    if not groups or len(times) < 2:
        return None
    x = moments(times)

    def draw(fig: Figure, p: Palette) -> None:
        panels = fig.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (title, names) in zip(panels, groups, strict=True):
            for i, reading in enumerate(names):
                y = [float("nan") if v is None else v for v in readings[reading]]
                label = reading.removesuffix("_requests").replace("_", " ")
                marker = "." if len(x) < 40 else None
                axes.plot(x, y, color=p.lines[i], linestyle=DASHES[i], label=label, marker=marker, markersize=3)
            axes.set_title(title, color=p.muted)
            axes.set_ylim(bottom=0)
            compact(axes, y_ticks=3)
            if len(names) > 1:
                axes.legend(loc="best", ncols=2, handlelength=1.8, columnspacing=1, borderpad=0)
        date_axis(panels[-1], not isinstance(x[0], int))

    shown = [n for _, names in groups for n in names]
    return picture(
        draw,
        height=0.35 + 1.05 * len(groups),
        name=name,
        caption="Course of the window, from scrape to scrape. A break in a line: no value there.",
        alt=f"Lines over the window: {', '.join(shown)}",
        head=("until (UTC)", *shown),
        rows=[
            (str(t or i + 1), *(number(readings[n][i]) for n in shown))
            for i, t in enumerate(times)
        ],
    )  # fmt: skip


def draw_trend(axes: Axes, trend: Mapping[str, Any], p: Palette) -> None:
    """One reading over the nights: band, median, values with their intervals, tonight marked, nights without one."""
    x = moments(trend["times"])
    values = trend["values"]
    band = trend["band"]
    if band is not None:
        axes.axhspan(band[0], band[1], color=p.band, linewidth=0)
        axes.axhline(trend["baseline"], color=p.muted, linewidth=0.9, linestyle=DASHES[1])
    for at, value, low, high in zip(x, values, trend["low"], trend["high"], strict=True):
        if value is not None and low is not None and high is not None:
            axes.plot([at, at], [low, high], color=p.c1, linewidth=0.8, alpha=0.6)
    y = [float("nan") if v is None else v for v in values]
    axes.plot(x, y, color=p.c1, marker="o", markersize=2.4, linewidth=1.0)
    if values[-1] is not None:
        outside = band is not None and not band[0] <= values[-1] <= band[1]
        marker, colour = ("D", p.bad) if outside else ("o", p.c1)
        axes.plot([x[-1]], [values[-1]], marker=marker, color=colour, markersize=5.5, clip_on=False)
    if all(v is None or v >= 0 for v in values):
        axes.set_ylim(bottom=0)
    if band is not None:
        _keep_band_in_view(axes, [v for v in values if v is not None], band)
    bottom = axes.get_ylim()[0]
    for at, value in zip(x, values, strict=True):
        if value is None:
            axes.plot([at], [bottom], marker="x", color=p.muted, markersize=4, clip_on=False)
    if trend["unit"] == "ratio":
        axes.yaxis.set_major_formatter(lambda v, _: f"{v * 100:.3g} %")
    compact(axes)
    if not isinstance(x[0], int):
        # A single night stands in the middle of a few days; matplotlib would draw years around it.
        room = (x[-1] - x[0]) * 0.04 if len(x) > 1 else timedelta(days=3)
        axes.set_xlim(x[0] - room, x[-1] + room)
    date_axis(axes, not isinstance(x[0], int))


def _keep_band_in_view(axes: Axes, values: Sequence[float], band: Sequence[float]) -> None:
    """A wide band must not press the values flat."""
    low, high = min(values, default=band[0]), max(values, default=band[1])
    room = max(high - low, abs(high) * 0.1, 1e-12)
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(bottom, low - 3 * room), min(top, high + 3 * room))


def trend_picture(reading: str, trend: Mapping[str, Any], name: str) -> Picture | None:
    if not any(v is not None for v in trend["values"]):
        return None
    unit = trend["unit"]
    band = trend["band"]
    usual = "no band yet" if band is None else f"usual {number(band[0], unit)} to {number(band[1], unit)}"
    last = trend["values"][-1]
    return picture(
        lambda fig, p: draw_trend(fig.subplots(), trend, p),
        height=1.45,
        name=name,
        caption=f"{reading}{'' if unit == 'ratio' else f', {unit}'}",
        alt=f"{reading} over {len(trend['times'])} nights, tonight {number(last, unit)}, {usual}",
        head=("night (UTC)", "value", "low", "high", "state"),
        rows=[
            (str(t)[:16].replace("T", " "), number(v, unit), number(lo, unit), number(hi, unit), s)
            for t, v, lo, hi, s in zip(
                trend["times"], trend["values"], trend["low"], trend["high"], trend["states"], strict=True
            )
        ],
    )  # fmt: skip
