"""Parts of a page as rows of text: levers, claims, settings, engines, caveats, next steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.outputs.text import number, safe, safe_sentence, speedup_range

LEVER_RANK = {"worth_a_test": 0, "undecided": 1, "not_worth_a_test": 2, "not_applicable": 3}
LEVER_MARKS = {"worth_a_test": "TRY", "undecided": "?", "not_worth_a_test": "no", "not_applicable": "-"}
CAVEATS_OF = (
    "prefill_share", "prefix_hit_share", "length_share", "tokens_per_step", "generation_tokens_per_wall_second",
)  # fmt: skip


def lever_rows(levers: Mapping[str, Any]) -> list[Sequence[str]]:
    listed = sorted(levers.items(), key=lambda item: LEVER_RANK[item[1]["verdict"]])
    return [
        (
            LEVER_MARKS[v["verdict"]], k, speedup_range(v["ceiling_speedup"]),
            safe_sentence(v.get("summary") or v.get("reason") or ""), safe_sentence("; ".join(v.get("costs", ()))),
            safe_sentence(v.get("settles") or ""),
        )
        for k, v in listed
        if v["verdict"] != "not_applicable"
    ]  # fmt: skip


def claim_row(claim: Mapping[str, Any]) -> Sequence[str]:
    mark = {True: "YES", False: "NO", None: "?"}[claim["is_what_it_says"]]
    return mark, f"{safe(claim['claim'])} = {number(claim['value'])}", safe_sentence(claim.get("summary", ""))


def next_steps(subject: Mapping[str, Any]) -> list[str]:
    broken = [v for v in subject["audits"].values() if v["verdict"] == "broken"]
    broken.sort(key=lambda v: v["severity"] != "problem")
    return [safe_sentence(step) for v in broken for step in v["next"][:1]][:5]


def setting_rows(subject: Mapping[str, Any]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [
        (k, safe(s["value"]), safe(s["source"])) for k, s in subject.get("settings", {}).items()
    ]
    config = subject.get("facts", {}).get("engine_config", {})
    return rows + [(safe(k), safe(v), "the engine's configuration") for k, v in config.items()]


def part_row(part: Mapping[str, Any]) -> Sequence[str]:
    readings = part["readings"]

    def shown(name: str) -> str:
        return number(readings.get(name, {}).get("value"))

    labels = part["labels"]
    return safe(labels.get("target")), safe(labels.get("rank")), shown("finished_requests"), shown("prompt_tokens")


def caveats_of(subject: Mapping[str, Any]) -> list[str]:
    """What the flags say, and caveats of the readings, each once."""
    facts = subject.get("facts", {})
    texts = [safe_sentence(facts[flag]) for flag in subject["flags"] if isinstance(facts.get(flag), str)]
    for name in CAVEATS_OF:
        texts += [safe_sentence(c) for c in subject["readings"].get(name, {}).get("caveats", ())]
    return list(dict.fromkeys(texts))
