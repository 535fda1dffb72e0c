"""Documents that are no audit (boots, step, compare) as sections of lines and tables, for formats without a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from auditor.outputs._boots import (
    effect_text,
    gib_text,
    prediction_text,
    repeat_text,
    safe_long,
    setting_text,
    value_text,
)
from auditor.outputs._step import cells, headline, heads_of, notes_of, published_of, split_text
from auditor.outputs.text import RenderOptions, number, safe

SECTIONED = frozenset({"boots", "step", "compare"})


@dataclass(frozen=True)
class Section:
    """A heading, lines under it, then a table. Texts are as a terminal would show them, not escaped for any format."""

    title: str
    lines: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def sections_of(document: Mapping[str, Any], options: RenderOptions) -> list[Section]:
    """The sections of a boots, step or compare document."""
    made = {"boots": _boots, "step": _step, "compare": _compare}[document["kind"]]
    return list(made(document, options))


def _boots(document: Mapping[str, Any], options: RenderOptions) -> Iterator[Section]:
    boots = document["boots"]
    head = ("boot", "engine", "state", "budget", "context", "block", "pool tokens", "KV GiB", "full requests")
    rows = tuple(
        (
            f"{safe(b['file'])}:{b['line']}",
            safe(f"{b['engine'] or 'not named'} {b['version'] or ''}".strip()),
            b["state"],
            *(setting_text(b, name) for name in ("budget", "context", "block_size")),
            "-" if b["kv_pool_tokens"] is None else number(b["kv_pool_tokens"]),
            gib_text(b),
            "-" if b["max_concurrency"] is None else f"{b['max_concurrency']:.2f}x",
        )
        for b in boots
    )
    lines = () if boots else ("No boot of a known engine in these logs.",)
    yield Section("Boots", lines, head if boots else (), rows)
    for b in boots:
        if b["refusal"]:
            words = f"The engine's words (line {b['refusal']['line']}): {safe_long(b['refusal']['words'])}"
            yield Section(f"Refused: {safe(b['file'])}:{b['line']}", (safe_long(b["refusal"]["explanation"]), words))
    warnings = tuple(f"{safe(b['file'])}, {safe_long(w)}" for b in boots for w in b["warnings"])
    if warnings:
        yield Section("Warnings", warnings)
    twice = tuple(repeat_text(g) for g in document["repeats"] if g["boots"] > 1)
    if twice:
        yield Section("Repeated boots", twice)
    if document["effects"]:
        rows = tuple((safe(e["setting"]), value_text(e["from"]), value_text(e["to"]), effect_text(e))
                     for e in document["effects"])  # fmt: skip
        yield Section("Effects of one setting, all else the same", (), ("setting", "from", "to", "effect"), rows)
    if document["predictions"]:
        rows = tuple(
            (f"{p['setting']} {value_text(p['value'])}", p["verdict"], prediction_text(p), safe_long(p["reason"]))
            for p in document["predictions"]
        )
        yield Section("Predicted from the boots at hand", (), ("setting", "verdict", "left", "why"), rows)
    if document["notes"]:
        yield Section("Notes", tuple(safe_long(n) for n in document["notes"]))


def _step(document: Mapping[str, Any], options: RenderOptions) -> Iterator[Section]:
    head = heads_of(document)
    rows = tuple(tuple(cells(row, document)) for row in document["rows"])
    yield Section(
        "What one step holds", (headline(document["question"]).removeprefix("STEP").strip(),), tuple(head), rows
    )
    if document["request"]:
        yield Section("One request", (split_text(document["request"]),))
    yield Section("Notes", tuple(safe_long(n) for n in (document["rule"], *notes_of(document))))
    published = published_of(document, everything=options.show_all)
    if published:
        yield Section("Published by others", tuple(published))


def _compare(document: Mapping[str, Any], options: RenderOptions) -> Iterator[Section]:
    arms = ", ".join(f"{safe(a['name'])} ({a['count']} windows)" for a in document["arms"])
    lines = [f"{arms}: {document['verdict'].replace('_', ' ')}"] if arms else []
    yield Section("Comparison", (*lines, *map(safe_long, (*document["confounders"], *document["notes"]))))
    kept = [r for r in document["rows"] if options.show_all or r["verdict"] not in ("same", "undecided", "blind")]
    if kept:
        rows = tuple(
            (r["verdict"], safe(r["arm"]), r["reading"], number(r["baseline_value"]), number(r["value"]), _change(r))
            for r in kept
        )
        yield Section("Changes", (), ("verdict", "arm", "reading", "baseline", "value", "change"), rows)
    plan = document.get("plan")
    if plan:
        planned = tuple((safe(a["name"]), r["reading"], *_planned(r)) for a in plan["arms"] for r in a["rows"])
        head = ("arm", "reading", "spread of the repeats", "one run shows", "repeats an arm")
        yield Section(f"Repeats that would show a change of {plan['change']:.0%}", (), head, planned)
    left = len(document["rows"]) - len(kept)
    if left:
        yield Section("Not shown", (f"{left} rows that are the same, blind or undecided",))


def _planned(row: Mapping[str, Any]) -> tuple[str, str, str]:
    if row["variation"] is None:
        return "unknown: give at least two windows", "-", "-"
    need = row["runs_needed"]
    return f"{row['variation']:.1%}", f"{row['shown_by_one_run']:.1%}", "over 1,000" if need is None else str(need)


def _change(row: Mapping[str, Any]) -> str:
    if row["change"] is None:
        return safe_long(row.get("reason") or "")
    text = f"{row['change'] * 100:+.1f} %"
    if row["low"] is not None and row["high"] is not None:
        text += f" ({row['low'] * 100:+.1f} % .. {row['high'] * 100:+.1f} %, {row['noise']})"
    return text


Measured = tuple[str, str, Mapping[str, str], float]
"""Name without prefix, help, labels, value."""


def samples_of(document: Mapping[str, Any]) -> list[Measured]:
    """Numbers of a document for a metrics file; what has no value has no sample."""
    made = {"boots": _boots_samples, "step": _step_samples, "compare": _compare_samples}[document["kind"]]
    return [(name, text, labels, float(value)) for name, text, labels, value in made(document) if value is not None]


_Sample = tuple[str, str, dict[str, str], float | None]


def _boots_samples(document: Mapping[str, Any]) -> Iterator[_Sample]:
    for b in document["boots"]:
        labels = {
            "file": safe(b["file"], 500),
            "line": str(b["line"]),
            "engine": b["engine"] or "",
            "state": b["state"],
        }
        yield "boot_kv_pool_tokens", "Tokens of the KV pool of one engine.", labels, b["kv_pool_tokens"]
        yield "boot_kv_gib", "Memory for the KV cache as printed, in GiB.", labels, b["kv_gib"]
        yield "boot_max_concurrency", "Requests of full context that the pool holds.", labels, b["max_concurrency"]
        short = b["refusal"]["short_gib"] if b["refusal"] else None
        yield "boot_short_gib", "GiB by which a refused boot was short.", labels, short
    for i, e in enumerate(document["effects"], 1):  # one setting may move twice, at two values of another one
        labels = {"effect": str(i), "setting": e["setting"], "from": str(e["from"]), "to": str(e["to"])}
        labels["verdict"] = e["verdict"]
        yield "boot_effect_pool_change", "Relative change of the pool by one setting.", labels, e["pool_change"]
    for p in document["predictions"]:
        labels = {"setting": p["setting"], "value": str(p["value"]), "verdict": p["verdict"]}
        yield "prediction", "A prediction, with its verdict.", labels, 1.0
        yield "prediction_kv_gib", "GiB that would be left for the KV cache.", labels, p["kv_gib"]


def _step_samples(document: Mapping[str, Any]) -> Iterator[_Sample]:
    for r in document["rows"]:
        budget = {"budget": str(r["budget"])}
        for part in ("decode_tokens_per_step", "prefill_tokens_per_step", "chunk_tokens"):
            yield f"step_{part}", "Tokens of one step.", budget, r[part]
        for load in ("alone", "loaded"):
            labels = {**budget, "load": load}
            yield "step_prompt_steps", "Steps until the prompt's first token.", labels, r[f"prompt_steps_{load}"]
            yield "step_ttft_seconds", "Time to the prompt's first token.", labels, r[f"ttft_{load}_seconds"]
        yield "step_gap_seconds", "What every stream waits meanwhile.", budget, r["gap_seconds"]
        yield "step_freeze_seconds", "How long streams stand still, prefill first.", budget, r["freeze_seconds"]
        yield "step_starves_prefill", "1 where prefill gets too little.", budget, float(r["starves_prefill"])


def _compare_samples(document: Mapping[str, Any]) -> Iterator[_Sample]:
    for r in document["rows"]:
        subject = "" if r["subject"] is None else safe(_subject_words(r["subject"]), 500)
        labels = {"reading": r["reading"], "arm": safe(r["arm"], 500), "subject": subject, "verdict": r["verdict"]}
        yield "compare_change", "Relative change against the baseline.", labels, r["change"]
        for end in ("low", "high"):
            yield f"compare_change_{end}", "95 % limit of that change.", labels, r[end]


def _subject_words(subject: Any) -> str:
    if isinstance(subject, Mapping):
        return ", ".join(f"{k} {v}" for k, v in subject.items() if v is not None)
    return str(subject)
