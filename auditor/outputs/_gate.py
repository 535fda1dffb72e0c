"""What every output says of a gate, in plain text: a line a premise, the worst first, then why nothing was decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditor.outputs.text import safe, safe_sentence, subject_title

RANK = {"broken": 0, "undecided": 1, "waived": 2, "holds": 3}


def sorted_premises(gate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What decides first, then warnings; within each broken, undecided, waived, holds; else as in the file."""
    return sorted(gate.get("premises", ()), key=lambda p: (_outweighed(p), RANK.get(p["verdict"], 9)))


def _outweighed(premise: Mapping[str, Any]) -> bool:
    return premise["verdict"] in ("broken", "undecided") and not decides(premise)


def decides(premise: Mapping[str, Any]) -> bool:
    """Does this premise decide the exit code? Warnings do not."""
    return bool(premise.get("counts", premise.get("level") == "error"))


def place(premise: Mapping[str, Any]) -> str:
    """``premises.yaml:12``"""
    return f"{safe(premise['file'])}:{premise['line']}"


def subject_words(premise: Mapping[str, Any]) -> str:
    """The subject's title, empty where the premise met none."""
    return subject_title(premise["subject"]) if premise.get("subject") else ""


def sentence(premise: Mapping[str, Any]) -> str:
    """``expected at most 10 %, found 36.8 % (32.9 % .. 40.9 %, n 541)`` and, where nothing is decided, why."""
    text = f"expected {premise['expected'] or 'nothing'}, found {premise['found'] or 'nothing'}"
    if premise.get("reason"):
        text += f"; {premise['reason']}"
    elif premise["verdict"] == "waived" and premise.get("waived_until"):
        text += f"; waived until {premise['waived_until']}"
    if "blind_histogram" in premise.get("flags", ()):
        text += "; blind_histogram: all of it lies in one bucket"
    return safe_sentence(text)


def word(premise: Mapping[str, Any]) -> str:
    """The verdict, with its level where it does not decide."""
    return premise["verdict"] if not _outweighed(premise) else f"{premise['verdict']} (warning)"


def notes(gate: Mapping[str, Any]) -> Iterator[str]:
    """Why nothing was decided, what was skipped, and which waivers are over."""
    for text in gate.get("reasons", ()):
        yield f"undecided: {safe_sentence(text)}"
    for waiver in gate.get("waivers", ()):
        at = f"{safe(gate.get('file', ''))}:{waiver['line']}"
        if waiver["state"] == "expired":
            yield f"the waiver of {safe(waiver['premise'])} expired on {waiver['until']} and has no effect ({at})"
        elif waiver["state"] == "not_needed":
            yield f"the waiver of {safe(waiver['premise'])} is not needed: nothing of it is broken ({at})"
    for item in gate.get("skipped", ()):
        who = subject_title(item["subject"])
        yield f"{safe(item['name'])} does not apply to {who}: {safe_sentence(item['reason'])}"


def counts(gate: Mapping[str, Any]) -> str:
    """``5 premises: 1 broken, 1 undecided, 3 hold``; those that do not decide are named as warnings."""
    premises: Sequence[Mapping[str, Any]] = gate.get("premises", ())
    parts = []
    for name, verb in (("broken", "broken"), ("undecided", "undecided"), ("waived", "waived"), ("holds", "hold")):
        mine = [p for p in premises if p["verdict"] == name]
        if mine:
            warnings = sum(_outweighed(p) for p in mine)
            aside = f" ({warnings} as a warning)" if 0 < warnings < len(mine) else " (as warnings)" if warnings else ""
            parts.append(f"{len(mine)} {verb}{aside}")
    noun = "premise" if len(premises) == 1 else "premises"
    return f"{len(premises)} {noun}" + (f": {', '.join(parts)}" if parts else "")


def closing_lines(gate: Mapping[str, Any]) -> Iterator[str]:
    """For stderr: the verdict, and the lines that decided it."""
    yield f"gate {gate['verdict']}: {counts(gate)}"
    for text in gate.get("reasons", ()):
        yield f"undecided: {safe_sentence(text)}"
    if gate.get("reasons"):
        return
    for premise in sorted_premises(gate):
        if premise["verdict"] in ("broken", "undecided") and decides(premise):
            yield f"{place(premise)}: {safe(premise['name'])}: {premise['verdict']}: {sentence(premise)}"
