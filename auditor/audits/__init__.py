"""One premise family a file, found by name: ``time_split.py`` is the audit ``time-split``.

A module has a docstring with the headings Premise, Why it matters, How it is measured, When it misleads and What to do;
``QUESTION`` (for a screen), ``NEEDS`` (readings it rests on), ``EXAMPLES`` (one that holds, one that breaks) and
``audit(readings, options) -> Verdict``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import Protocol, cast

from auditor.model import Example, Options, Readings, Verdict

HELPERS = {"judging"}
ORDER = (
    "length-truncation", "prefix-cache", "time-split", "step-fill", "derived-rates", "queueing", "kv-pool",
    "preemption", "decode-freeze", "speculation", "request-accounting", "engine-liveness", "metrics-integrity", "role",
    "roofline",
)  # fmt: skip
"""The order on a screen; an audit that is not listed comes after these."""


class Audit(Protocol):
    __doc__: str
    QUESTION: str
    NEEDS: Sequence[str]
    EXAMPLES: Sequence[Example]

    def audit(self, readings: Readings, options: Options) -> Verdict: ...


def audit_id(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2].replace("_", "-")


@lru_cache(maxsize=1)
def load_audits() -> dict[str, Audit]:
    """Every audit in this folder by id, in screen order."""
    found: dict[str, Audit] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name not in HELPERS and not info.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{info.name}")
            found[audit_id(module)] = cast(Audit, module)
    rank = {name: i for i, name in enumerate(ORDER)}
    return dict(sorted(found.items(), key=lambda item: (rank.get(item[0], len(ORDER)), item[0])))
