"""One lever a file, found by name: what it can touch, the most it can gain, what it costs, what would settle it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import lru_cache

from auditor.model import Lever, Options, Readings

LeverFunction = Callable[[Readings, Options], Lever]
HELPERS = {"ceilings"}


@lru_cache(maxsize=1)
def load_levers() -> dict[str, LeverFunction]:
    """Every lever in this folder by id."""
    found: dict[str, LeverFunction] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda i: i.name):
        if info.name not in HELPERS and not info.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{info.name}")
            found[info.name.replace("_", "-")] = module.lever
    return found
