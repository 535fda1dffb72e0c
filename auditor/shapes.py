"""Do values have the types that their dataclass declares? Asked of what was read from somebody's file.

A saved window is outside input: ``"seconds": "60"`` must be refused where it is read, not fail in some sum later.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


@cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((f.name, hints[f.name]) for f in dataclasses.fields(kind))


@cache
def _plain(hint: Any) -> frozenset[type]:
    """The exact types that fit an annotation of plain types; empty where it is more than that."""
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [_plain(h) for h in get_args(hint)]
        return frozenset().union(*kinds) if all(kinds) else frozenset()
    if hint is float:
        return frozenset({float, int})
    return frozenset({hint}) if hint in (int, str, bool, type(None)) else frozenset()


def misfit(value: Any, hint: Any, where: str = "") -> str | None:
    """Where a value does not have the annotated type, in words; None where it fits all the way down.

    Knows what the dataclasses of :mod:`auditor.model` use: plain types, ``Literal``, unions, tuples, sequences,
    mappings and dataclasses. Whole numbers are taken for floats, booleans are not.
    """
    if hint is Any:
        return None
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, hint):
            return _words(value, hint.__name__, where)
        parts = ((getattr(value, name), h, f"{where}.{name}" if where else name) for name, h in _fields(hint))
        return next((found for part in parts if (found := misfit(*part))), None)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        listed = ", ".join(map(str, arguments))
        return None if isinstance(value, str) and value in arguments else _words(value, f"one of {listed}", where)
    if origin in (Union, types.UnionType):
        return _misfit_of_all(value, arguments, where)
    if origin in (tuple, Sequence) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return _misfit_of_items(value, origin, arguments, where)
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, Mapping):
            return _words(value, "a mapping", where)
        pairs = ((item, arguments[1], f"{where}.{key}") for key, item in value.items())
        return next((found for pair in pairs if (found := misfit(*pair))), None)
    if hint is type(None):
        return None if value is None else _words(value, "nothing", where)
    wanted = (int, float) if hint is float else hint
    fits = isinstance(value, wanted) and (hint is bool or not isinstance(value, bool))
    return (
        None
        if fits
        else _words(value, {float: "a number", int: "a whole number", str: "a text"}.get(hint, str(hint)), where)
    )


def _misfit_of_all(value: Any, hints: Sequence[Any], where: str) -> str | None:
    found = [misfit(value, hint, where) for hint in hints]
    if None in found:
        return None
    # A value of a named alternative is told what is wrong inside it, and not what else it might have been.
    inside = [
        text for text, hint in zip(found, hints, strict=True) if isinstance(hint, type) and isinstance(value, hint)
    ]
    return next((text for text in (*inside, *found) if text), None)


def _misfit_of_items(value: Any, origin: Any, hints: Sequence[Any], where: str) -> str | None:
    if isinstance(value, str) or not isinstance(value, tuple if origin is tuple else Sequence):
        return _words(value, "a list", where)
    if origin is tuple and not (len(hints) == 2 and hints[1] is Ellipsis):
        if len(value) != len(hints):
            return _words(value, f"a list of {len(hints)}", where)
        pairs = list(zip(value, hints, strict=True))
    elif set(map(type, value)) <= _plain(hints[0]):
        return None  # Long lists of numbers are most of a window.
    else:
        pairs = [(item, hints[0]) for item in value]
    numbered = ((item, hint, f"{where}[{i}]") for i, (item, hint) in enumerate(pairs))
    return next((found for one in numbered if (found := misfit(*one))), None)


def _words(value: Any, wanted: str, where: str) -> str:
    return f"{where or 'it'} is {type(value).__name__}, not {wanted}"
