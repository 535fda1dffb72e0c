"""The contract's documents of ``auditor boots`` and ``auditor step`` as plain dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from auditor.model import SCHEMA
from auditor.planning.effects import find_effects, group_repeats
from auditor.planning.pools import KnownBoot
from auditor.planning.predict import predict
from auditor.planning.published import published_for
from auditor.planning.step import RequestSplit, StepQuestion, StepRow, starving_rule


class PrintableBoot(KnownBoot, Protocol):
    """A boot that can write itself."""

    def to_json(self) -> dict[str, Any]: ...


def make_boots_document(
    boots: Sequence[PrintableBoot],
    predictions: Sequence[tuple[str, float]] = (),
    *,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """``kind: boots``. ``predictions`` come from ``parse_prediction``; ``notes`` say what the caller saw."""
    effects, mixed = find_effects(boots)
    return {
        "schema": SCHEMA,
        "kind": "boots",
        "boots": [boot.to_json() for boot in boots],
        "repeats": [group.to_json() for group in group_repeats(boots)],
        "effects": [effect.to_json() for effect in effects],
        "predictions": [predict(boots, name, value).to_json() for name, value in predictions],
        "notes": [*notes, *mixed],
    }


def make_step_document(
    question: StepQuestion,
    rows: Sequence[StepRow],
    *,
    split: RequestSplit | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """``kind: step``. ``settings`` are settings' own JSON, with their sources, where there are any."""
    notes = []
    if question.cost_is_upper:
        notes.append(
            "the cost per prompt token was read from a page: requests that share steps each count the whole "
            "step, so it is an upper value, and so are all seconds here"
        )
    if question.ms_per_prompt_token is None:
        notes.append("no cost per prompt token was given (--ms-per-prompt-token or --from): steps only, no seconds")
    else:
        notes.append("every token of a step is taken to cost what a prompt token costs, and a step nothing beside them")
    smallest = next((row.budget for row in rows if row.smallest_that_does_not_starve), None)
    if smallest is None and rows and len(rows) > 1:
        notes.append("every budget of this sweep starves prefill")
    return {
        "schema": SCHEMA,
        "kind": "step",
        "rows": [row.to_json() for row in rows],
        "smallest_budget": smallest,
        "rule": starving_rule(question),
        "request": split.to_json() if split else None,
        "settings": dict(settings or {}),
        "published": [figure.to_json() for figure in published_for(None)],
        "notes": notes,
    }
