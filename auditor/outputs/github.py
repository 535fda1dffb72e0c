"""GitHub workflow commands: one annotation a premise that is broken, undecided or waived, at its line of the file.

A gate annotates the user's own premises file. An audit without a gate has no file to point at. Every line that is
written begins with a command; values cannot begin a line of their own, because line ends and percent signs are encoded
as the runner's own toolkit does (actions/toolkit, core/src/command.ts).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from auditor.outputs._gate import counts, decides, notes, sentence, sorted_premises, subject_words, word
from auditor.outputs.text import RenderOptions, safe, safe_sentence, subject_title

KINDS = frozenset({"audit"})


def render(document: Mapping[str, Any], options: RenderOptions) -> str:
    """Workflow commands, one a line; the last one sums up."""
    lines = list(_targets(document))
    lines += list(_gate(document["gate"]) if document.get("gate") else _audits(document))
    return "\n".join(lines) + "\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _command(level: str, message: str, **properties: object) -> str:
    listed = ",".join(f"{key}={_property(safe(value, 1000))}" for key, value in properties.items())
    return f"::{level}{' ' + listed if listed else ''}::{_data(safe(message, 4000))}"


def _targets(document: Mapping[str, Any]) -> Iterator[str]:
    for target in document["targets"]:
        if target["state"] != "measured":
            state = target["state"].replace("_", " ")
            words = f"{safe(target['address'])}: {state}: {safe_sentence(target['reason'] or '')}"
            yield _command("warning", words, title="target not measured")


def _gate(gate: Mapping[str, Any]) -> Iterator[str]:
    for premise in sorted_premises(gate):
        level = _level(premise)
        if level is None:
            continue
        subject = subject_words(premise)
        yield _command(
            level,
            f"{f'{subject}: ' if subject else ''}{sentence(premise)}",
            file=premise["file"],
            line=premise["line"],
            col=premise["column"],
            title=f"{word(premise)}: {safe(premise['name'])}",
        )
    for text in notes(gate):
        yield _command("error" if text.startswith("undecided: ") else "notice", text, title="gate")
    level = {"pass": "notice", "fail": "error"}.get(gate["verdict"], "error")
    yield _command(level, f"gate {gate['verdict']}: {counts(gate)}", title="premise-auditor")


def _level(premise: Mapping[str, Any]) -> str | None:
    verdict = premise["verdict"]
    if verdict == "holds":
        return None
    if verdict == "waived":
        return "notice"
    return "error" if decides(premise) else "warning"


def _audits(document: Mapping[str, Any]) -> Iterator[str]:
    broken = undecided = 0
    for subject in document["subjects"]:
        title = subject_title(subject["labels"])
        for name, v in subject["audits"].items():
            undecided += v["verdict"] == "undecided"
            if v["verdict"] not in ("broken", "error"):
                continue
            broken += v["verdict"] == "broken"
            level = "error" if v["severity"] == "problem" else "warning"
            yield _command(
                level, f"{title}: {safe_sentence(v['summary'])}", title=f"{name}: {v['premise']}: {v['verdict']}"
            )
    if not document["subjects"]:
        yield _command("error", "no engine was measured, so there is no verdict", title="premise-auditor")
    else:
        yield _command("notice", f"{broken} premises broken, {undecided} undecided", title="premise-auditor")
