"""The JSON Schema of a premises file, made from the same names as the reader; editors complete and check with it."""

from __future__ import annotations

from typing import Any

from auditor.gate.amounts import AMOUNT
from auditor.gate.model import LABELS, Names
from auditor.gate.presets import BELIEFS, PRESETS
from auditor.gate.reader import ATS, LEVELS, ON_UNDECIDED

SHARE = r"^\s*\d+(\.\d+)?\s*%?\s*$"


def premises_schema(names: Names) -> dict[str, Any]:
    """Draft 2020-12. Units against readings, unique names and waived names are the reader's business alone."""
    amount = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": rf"^\s*{AMOUNT}\s*$"}]}
    share = {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": SHARE}]}
    text = {"type": "string", "minLength": 1}
    scalar = {"type": ["string", "number"]}
    common = {
        "name": {**text, "description": "What reports call it; made from the rest where absent. Unique."},
        "level": {
            "enum": [*LEVELS, False],
            "description": "error decides the exit code, warn is shown, off is not judged (off is false in YAML 1.1).",
        },
        "for": {
            "type": "object",
            "description": "Subjects by label, as shell patterns.",
            "properties": dict.fromkeys(LABELS, scalar),
            "additionalProperties": False,
            "minProperties": 1,
        },
        "on_undecided": {"enum": list(ON_UNDECIDED), "description": "fail: exit code 3; warn: shown only."},
    }
    conditions: dict[str, Any] = {
        "at_most": amount,
        "at_least": amount,
        "between": {"type": "array", "items": amount, "minItems": 2, "maxItems": 2},
        "worse_than_baseline_by": share,
    }
    reading = {
        "type": "object",
        "properties": {
            "reading": {"enum": sorted(names.readings)},
            "at": {"enum": list(ATS), "description": "For distributions; the mean where absent."},
            **conditions,
            **common,
        },
        "required": ["reading"],
        "oneOf": [{"required": [key]} for key in conditions],
        "additionalProperties": False,
    }
    claims = {
        "type": "object",
        "properties": dict.fromkeys(sorted(names.claims), amount),
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    others: dict[str, dict[str, Any]] = {
        "audit": {"enum": sorted(names.audits)},
        "belief": {"enum": list(BELIEFS)},
        "before": {"enum": sorted(names.levers)},
        "claim": claims,
    }
    kinds = [
        {"type": "object", "properties": {key: value, **common}, "required": [key], "additionalProperties": False}
        for key, value in others.items()
        if value.get("enum") != []
    ]
    waiver = {
        "type": "object",
        "properties": {"premise": text, "until": {"type": "string", "format": "date"}, "reason": text},
        "required": ["premise", "until", "reason"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "premises.yaml of premise-auditor",
        "type": "object",
        "properties": {
            "extends": {"enum": list(PRESETS)},
            "min_requests": {"type": "integer", "minimum": 1},
            "min_coverage": share,
            "premises": {"type": ["array", "null"], "items": {"oneOf": [reading, *kinds]}},
            "waivers": {"type": ["array", "null"], "items": waiver},
        },
        "additionalProperties": False,
    }
