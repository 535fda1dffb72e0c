"""Which quantities a reading is made of, read off its function."""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

from auditor.measures.readings.registry import READINGS
from auditor.measures.vocabulary import load_vocabulary


def quantities_behind(reading: str) -> list[str]:
    """Quantities that a reading's function names, directly or through what it calls, in order of appearance."""
    known = {name for engine in load_vocabulary().engines for name in engine.quantities}
    found: dict[str, None] = {}
    seen: set[object] = set()

    def visit(function: FunctionType) -> None:
        if function in seen:
            return
        seen.add(function)
        for text in _strings(function.__code__, function.__globals__):
            if text in known:
                found.setdefault(text)
            elif text in READINGS:
                visit(_function(READINGS[text].function))
        for called in _globals_used(function.__code__):
            other = function.__globals__.get(called)
            if isinstance(other, FunctionType) and other.__module__.startswith("auditor.measures.readings"):
                visit(other)

    visit(_function(READINGS[reading].function))
    return list(found)


def words_in(function: Any) -> list[str]:
    """All string constants of a function, in order of appearance."""
    return _strings(_function(function).__code__)


def _function(value: Any) -> FunctionType:
    assert isinstance(value, FunctionType)
    return value


def _strings(code: CodeType, names: Mapping[str, Any] | None = None) -> list[str]:
    """String constants of a function, those inside tuples, inner functions and named constants too."""
    values: list[Any] = list(code.co_consts)
    if names is not None:
        values += [names[n] for n in _globals_used(code) if isinstance(names.get(n), tuple | str)]
    out: list[str] = []
    while values:
        value = values.pop(0)
        if isinstance(value, str):
            out.append(value)
        elif isinstance(value, tuple):
            values = [*value, *values]
        elif isinstance(value, CodeType):
            values = [*value.co_consts, *values]
    return out


def _globals_used(code: CodeType) -> list[str]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return [*code.co_names, *(name for c in inner for name in _globals_used(c))]
