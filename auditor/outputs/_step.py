"""A step on a screen: the question, a row a budget, bars of what a step holds, a request's own split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.outputs.text import RenderOptions, number, percent, safe, safe_sentence, seconds

if TYPE_CHECKING:
    from rich.console import Console

HEADS = ("budget", "prefill", "chunk", "steps", "TTFT", "gap", "freeze")


def draw(console: Console, document: Mapping[str, Any], options: RenderOptions) -> None:
    from rich.table import Table
    from rich.text import Text

    asked, rows = document["question"], document["rows"]
    console.print(headline(asked), style="bold")
    console.print()
    table = Table.grid(padding=(0, 2, 0, 0))
    heads = heads_of(document)
    for _ in heads:
        table.add_column(justify="right")
    table.add_row(*(Text(h, style="dim") for h in heads))
    for row in rows:
        marked = row["smallest_that_does_not_starve"] and len(rows) > 1
        table.add_row(*(Text(c, style="green" if marked else "") for c in cells(row, document)))
    console.print(table)
    console.print(_legend(heads), style="dim")
    if len(rows) > 1:
        _bars(console, document)
    _lines(console, document, options)


def headline(asked: Mapping[str, Any]) -> str:
    """The question in one line."""
    engine = "SGLang, a prefill batch runs alone" if asked["engine"] == "sglang" else "vLLM, decode first"
    seats = asked["seats"]
    decode = seats * (1 + asked["draft_tokens"])
    draft = f" x (1 + {asked['draft_tokens']})" if asked["draft_tokens"] else ""
    text = f"STEP  {engine} | {number(seats)} seats{draft} = {number(decode)} decode tokens"
    if asked["prompt"] is not None:
        text += f" | prompt {number(asked['prompt'])}"
    if asked["threshold"]:
        text += f" | threshold {number(asked['threshold'])}"
    if asked["ms_per_prompt_token"] is not None:
        most = "at most " if asked["cost_is_upper"] else ""
        text += f" | {most}{asked['ms_per_prompt_token']:.3g} ms a prompt token"
    return text


def heads_of(document: Mapping[str, Any]) -> list[str]:
    """The columns that have something in them."""
    asked = document["question"]
    heads = list(HEADS[:3])
    if asked["prompt"] is not None:
        heads.append("steps")
    if asked["ms_per_prompt_token"] is not None:
        # A gap is what decode-first engines give everybody; prefill-first ones freeze everybody instead.
        last = "freeze" if asked["engine"] == "sglang" else "gap"
        heads += ["TTFT", last] if asked["prompt"] is not None else [last] if last == "gap" else []
    if any(row["reachable_hit_tokens"] is not None for row in document["rows"]):
        heads.append("hit reach")
    return [*heads, ""]


def _legend(heads: list[str]) -> str:
    """What the columns mean, of those that are there."""
    pairs = [head for head in ("steps", "TTFT") if head in heads]
    words = ["prefill: room beside decode"]
    if pairs:
        words.append(f"{' and '.join(pairs)}: alone / with all seats taken")
    if "gap" in heads:
        words.append("gap: what every stream waits")
    if "freeze" in heads:
        words.append("freeze: every stream stands still")
    if "hit reach" in heads:
        words.append("hit reach: most tokens of a full repeat that the cache can give")
    return "; ".join(words)


def cells(row: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """One budget's cells in the order of :func:`heads_of`."""
    mark = ""
    if row["smallest_that_does_not_starve"] and len(document["rows"]) > 1:
        mark = "* smallest"
    elif row["starves_prefill"]:
        mark = "starves"
    found = {
        "budget": number(row["budget"]),
        "prefill": number(row["prefill_tokens_per_step"]),
        "chunk": number(row["chunk_tokens"]),
        "steps": f"{_count(row['prompt_steps_alone'])} / {_count(row['prompt_steps_loaded'])}",
        "TTFT": f"{_time(row['ttft_alone_seconds'])} / {_time(row['ttft_loaded_seconds'])}",
        "gap": _time(row["gap_seconds"]),
        "freeze": _time(row["freeze_seconds"]),
        "hit reach": number(row["reachable_hit_tokens"]),
        "": mark,
    }
    return [found[head] for head in heads_of(document)]


def _count(steps: int | None) -> str:
    return "never" if steps is None else number(steps)


def _time(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value * 1000:.3g} ms" if value < 1 else seconds(value)


def split_text(split: Mapping[str, Any]) -> str:
    """A request's own time: prefill against decode, or what is missing for it."""
    text = f"{number(split['prompt_tokens'])} prompt tokens"
    if split["output_tokens"] is not None:
        text += f", {number(split['output_tokens'])} output tokens"
    if split["prefill_seconds"] is not None:
        text += f": {_time(split['prefill_seconds'])} prefill"
    if split["decode_seconds"] is not None:
        text += f", {_time(split['decode_seconds'])} decode"
    if split["decode_share"] is not None:
        return f"{text}: {percent(split['decode_share'])} decode"
    return f"{text}; {safe_sentence(split['reason'] or '')}"


def bar(row: Mapping[str, Any], most: int, width: int) -> str:
    """``ddd#####....``: decode, one prompt's chunk, room for other prompts; ``most`` tokens fill the width."""

    def column(tokens: int) -> int:
        return round(tokens * width / most)

    alone = row["prefill_tokens_per_step"] == row["budget"]  # prefill-first: a step has no decode beside it
    decode = 0 if alone else row["decode_tokens_per_step"]
    used = decode + row["chunk_tokens"]
    first = max(1, column(decode)) if decode else 0
    second = max(first + 1, column(used)) if row["chunk_tokens"] else first
    last = max(second, column(row["budget"])) if row["budget"] > used else second
    return "d" * first + "#" * (second - first) + "." * (last - second)


def _bars(console: Console, document: Mapping[str, Any]) -> None:
    rows = document["rows"]
    most = max(row["budget"] for row in rows)
    width = max(20, min(60, console.width - 20))
    console.print()
    for row in rows:
        mark = " *" if row["smallest_that_does_not_starve"] else ""
        console.print(f"{number(row['budget']):>9}  {bar(row, most, width)}{mark}")
    legend = "d decode, # one prompt's chunk, . room for other prompts"
    if document["smallest_budget"] is not None:
        legend += ", * smallest that does not starve"
    console.print(legend, style="dim")


def _lines(console: Console, document: Mapping[str, Any], options: RenderOptions) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=9, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")

    def add(head: str, text: str) -> None:
        table.add_row(Text(head, style="bold"), Text(text))

    if document["request"]:
        add("REQUEST", split_text(document["request"]))
    add("RULE", safe_sentence(document["rule"]))
    for i, note in enumerate(notes_of(document)):
        add("NOTES" if i == 0 else "", safe_sentence(note))
    if options.show_all:
        for i, (name, s) in enumerate(document["settings"].items()):
            add("SETTINGS" if i == 0 else "", f"{name} {number(s['value'])} ({safe(s['source'])})")
    for i, figure in enumerate(published_of(document, everything=options.show_all)):
        add("PUBLISHED" if i == 0 else "", figure)
    console.print()
    console.print(table)


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """Notes of the whole and of single rows, each once."""
    return list(dict.fromkeys([*document["notes"], *(n for row in document["rows"] for n in row["notes"])]))


def published_of(document: Mapping[str, Any], *, everything: bool) -> list[str]:
    """What others published, as what it is: an estimate, or one place's measurement."""
    engine = document["question"]["engine"]
    out = []
    for figure in document["published"]:
        if everything or (figure["engine"] == engine and figure["kind"] == "estimate"):
            caveat = f" ({safe_sentence(figure['caveat'])})" if figure["caveat"] else ""
            out.append(f"{figure['kind']}, {figure['engine']}: {safe_sentence(figure['words'])}{caveat}")
    return out
