"""The JSON report itself: the contract. Other formats are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditor.model import dump_json
from auditor.outputs.text import RenderOptions


def render(document: Mapping[str, Any], options: RenderOptions) -> str:
    return dump_json(document)
