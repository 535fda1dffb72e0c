"""Boot logs on a screen: a table of pools, refusals in full, then what settings cost and would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from auditor.outputs.text import RenderOptions, number, percent, safe

if TYPE_CHECKING:
    from rich.console import Console

LONGEST = 4000
"""A refusal is shown whole: it is the reason why somebody reads this."""
STATE = {"started": ("started", "green"), "refused": ("REFUSED", "bold red"), "incomplete": ("cut off", "yellow")}
VERDICT = {
    "fits": ("FITS", "green"),
    "marginal": ("MARGINAL", "yellow"),
    "refused": ("REFUSED", "bold red"),
    "unknown": ("UNKNOWN", "yellow"),
}
EFFECT = {
    "effect": "more than repeated boots differ",
    "within_spread": "no effect: repeated boots differ as much",
    "spread_unknown": "spread unknown",
}
IN_TABLE = ("budget", "context", "block_size", "gpu_memory_utilization")
SHOWN = ("threshold", "seats", "speculative_tokens", "gpu_memory_utilization", "kv_cache_dtype", "prefix_caching")


def draw(console: Console, document: Mapping[str, Any], options: RenderOptions) -> None:
    boots = document["boots"]
    if not boots:
        console.print("No boot of a known engine in these logs.", style="bold")
    else:
        words = [f"{sum(b['state'] == s for b in boots)} {w[0]}" for s, w in STATE.items()
                 if any(b["state"] == s for b in boots)]  # fmt: skip
        console.print(f"BOOTS  {', '.join(words)}", style="bold")
        _table(console, boots)
        console.print()
        for index, boot in enumerate(boots, 1):
            _boot(console, index, boot, options)
    _repeats(console, document["repeats"])
    _effects(console, document["effects"])
    _predictions(console, document["predictions"])
    if document["notes"]:
        console.print()
        _rows(console, [("!", "yellow", note) for note in document["notes"]])


def setting_text(boot: Mapping[str, Any], name: str) -> str:
    """A setting of a boot for a table cell, or a dash."""
    entry = boot["settings"].get(name)
    value = entry["value"] if entry is not None else None
    if value is None and name == "context":
        value = boot["max_model_len"]
    if value is None and name == "block_size":
        value = boot["block_size_tokens"]
    return "-" if value is None else value_text(value)


def value_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return number(float(value)) if isinstance(value, int | float) else safe(value)


def gib_text(boot: Mapping[str, Any]) -> str:
    """GiB for the KV cache: printed, or what a refusal says was available."""
    gib = boot["kv_gib"]
    if gib is None and boot["refusal"] and boot["refusal"]["kind"] in ("kv_too_small", "no_room_for_kv"):
        gib = boot["refusal"]["available_gib"]
    return "-" if gib is None else f"{gib:.2f}"


def effect_text(effect: Mapping[str, Any]) -> str:
    """``pool -51 % (spread unknown)`` with GiB and the price of a batch token where they are known."""
    change = effect["pool_change"]
    parts = ["no pool to compare" if change is None else f"pool {change * 100:+.1f} %"]
    if effect["gib_change"] is not None:
        parts.append(f"{effect['gib_change']:+.2f} GiB")
    if effect["mib_per_token"] is not None:
        parts.append(f"{effect['mib_per_token']:.2f} MiB ({effect['mib_per_token'] * 1.048576:.2f} MB) a batch token")
    judged = EFFECT[effect["verdict"]]
    if effect["spread"] is not None:
        judged += f" ({percent(effect['spread'])})"
    return "; ".join([", ".join(parts), judged, *map(safe_long, effect["notes"])])


def prediction_text(found: Mapping[str, Any]) -> str:
    """What would be left, in GiB and tokens, against the floor."""
    parts = []
    if found["kv_gib"] is not None:
        floor = "" if found["floor_gib"] is None else f" against a floor of {found['floor_gib']:.2f} GiB"
        parts.append(f"about {found['kv_gib']:.2f} GiB{floor}")
    if found["kv_pool_tokens"] is not None:
        parts.append(f"about {number(found['kv_pool_tokens'])} tokens")
    return ", ".join(parts)


def repeat_text(group: Mapping[str, Any]) -> str:
    """``2 boots: pools 1,110,893, 1,085,106 tokens, 2.3 % apart; their GiB 30.1 % apart``."""
    pools = ", ".join(number(p) for p in group["pools"])
    text = f"{group['boots']} boots of one configuration: pools {pools} tokens"
    if group["pool_spread"] is not None:
        text += f", {percent(group['pool_spread'])} apart"
    if group["gib_spread"] is not None:
        text += f"; in GiB {percent(group['gib_spread'])} apart"
        if group["pool_spread"] is not None and group["gib_spread"] > 2 * group["pool_spread"] + 0.01:
            text += ": compare tokens, not GiB"
    return text


def safe_long(text: object) -> str:
    return safe(text, longest=LONGEST)


def _table(console: Console, boots: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    heads = ("#", "state", "budget", "context", "block", "pool tokens", "KV GiB", "full requests")
    for i, _ in enumerate(heads):
        table.add_column(justify="left" if i == 1 else "right", no_wrap=console.width >= 80)
    table.add_row(*(Text(h, style="dim") for h in heads))
    for index, boot in enumerate(boots, 1):
        word, style = STATE[boot["state"]]
        pool, most = boot["kv_pool_tokens"], boot["max_concurrency"]
        table.add_row(
            Text(str(index)),
            Text(word, style=style),
            *(Text(setting_text(boot, name)) for name in IN_TABLE[:3]),
            Text("-" if pool is None else number(pool)),
            Text(gib_text(boot)),
            Text("-" if most is None else f"{most:.2f}x"),
        )
    console.print(table)


def _boot(console: Console, index: int, boot: Mapping[str, Any], options: RenderOptions) -> None:
    rows: list[tuple[str, str, str]] = []
    names = ", ".join(f"{n} {setting_text(boot, n)}" for n in SHOWN if n in boot["settings"])
    version = f" {safe(boot['version'])}" if boot["version"] else ""
    source = f" [{safe(boot['source'])}]" if boot["source"] else ""
    head = f"{safe(boot['file'])}:{boot['line']}{source}  {safe(boot['engine'] or 'engine not named')}{version}"
    refusal = boot["refusal"]
    if not (refusal or boot["warnings"] or options.show_all or names):
        rows.append((str(index), "bold", head))
    else:
        rows.append((str(index), "bold", head + (f"  {names}" if names else "")))
    if refusal:
        rows.append(("XX", "bold red", safe_long(refusal["explanation"])))
        rows.append(("", "dim", f"the engine's words (line {refusal['line']}): {safe_long(refusal['words'])}"))
    rows += [("!", "yellow", safe_long(w)) for w in boot["warnings"]]
    if options.show_all:
        rows += [("", "", f"{n} {setting_text(boot, n)} ({safe(s['source'])})") for n, s in boot["settings"].items()]
    _rows(console, rows)


def _repeats(console: Console, groups: Sequence[Mapping[str, Any]]) -> None:
    twice = [g for g in groups if g["boots"] > 1]
    if twice:
        console.print()
        console.print("REPEATED BOOTS", style="bold")
        _rows(console, [("", "", repeat_text(g)) for g in twice])


def _effects(console: Console, effects: Sequence[Mapping[str, Any]]) -> None:
    if not effects:
        return
    console.print()
    console.print("EFFECTS  of one setting, all else the same", style="bold")
    _rows(
        console,
        [
            ("", "", f"{safe(e['setting'])} {value_text(e['from'])} -> {value_text(e['to'])}: {effect_text(e)}")
            for e in effects
        ],
    )


def _predictions(console: Console, predictions: Sequence[Mapping[str, Any]]) -> None:
    if not predictions:
        return
    console.print()
    console.print("PREDICTED  from the boots at hand", style="bold")
    for found in predictions:
        word, style = VERDICT[found["verdict"]]
        left = prediction_text(found)
        _rows(
            console,
            [
                ("", style, f"{found['setting']} {value_text(found['value'])}: {word}{'  ' + left if left else ''}"),
                ("", "", safe_long(found["reason"])),
            ],
        )


def _rows(console: Console, rows: Sequence[tuple[str, str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=3, justify="right", no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for mark, style, text in rows:
        table.add_row(Text(mark, style=style), Text(text, style=style if style in ("bold", "dim") else ""))
    console.print(table)
