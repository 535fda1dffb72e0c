"""One format a file, found by name. Every output is a function of the JSON report and of nothing else.

A module has ``render(document, options) -> str | bytes``; the document is what :meth:`auditor.model.Report.to_json`
gives, or one of the other kinds of the contract (compare, boots, step). ``KINDS``,
where a module has it, names the kinds it draws; others are shown by ``_other``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol, cast

from auditor.model import UsageError
from auditor.outputs.text import RenderOptions

HELPERS = {"text"}
NO_FORM = frozenset((kind, name) for kind in ("boots", "step") for name in ("junit", "github"))
"""Kinds of document that a format has no form for: no boot and no sum passes or fails."""


class Output(Protocol):
    def render(self, document: Mapping[str, Any], options: RenderOptions) -> str | bytes: ...


class _Lazy:
    """Imports the module of a format when it is used: some are heavy."""

    def __init__(self, module: str) -> None:
        self._module = module

    def render(self, document: Mapping[str, Any], options: RenderOptions) -> str | bytes:
        module = importlib.import_module(self._module)
        kinds = getattr(module, "KINDS", None)
        if kinds is not None and document.get("kind", "audit") not in kinds:
            from auditor.outputs._other import render_other

            return render_other(self._module.rpartition(".")[2].rstrip("_"), document)
        return cast(Output, module).render(document, options)


def check_form(kind: str, name: str) -> None:
    """Raise UsageError where a format has no form for a kind of document."""
    if (kind, name) in NO_FORM:
        raise UsageError(f"{name} has no form for a {kind} document; json, markdown, html and prometheus have")


@lru_cache(maxsize=1)
def load_outputs() -> dict[str, Output]:
    """Every output in this folder by name (``json_`` is the format ``json``)."""
    return {
        info.name.rstrip("_"): _Lazy(f"{__name__}.{info.name}")
        for info in sorted(pkgutil.iter_modules(__path__), key=lambda i: i.name)
        if info.name not in HELPERS and not info.name.startswith(("_", "charts")) and not info.ispkg
    }
