"""Start-up arguments as engines print them: a dict, a Namespace, a ServerArgs, or ``key=value`` text.

The values an engine prints are Python reprs, and some of them (enums, objects) are no literals. So the
text is cut at its top level by a small scanner, and each value is read as a literal where it is one.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping

Value = str | int | float | bool | None

_OPEN, _CLOSE = "([{<", ")]}>"
_SECRET = re.compile(r"key|token$|tokens$|secret|password|passwd|credential|auth", re.IGNORECASE)
_NOT_SECRET = re.compile(r"^(max|min|num|speculative|long|chunked|ngram|prefill)_|_tokens$")


def read_arguments(text: str) -> dict[str, Value]:
    """Names and values of an argument dump; nested dicts are flattened under their own names.

    A nested name never overrides one of the top level. Values that may be secrets (API keys, tokens)
    are left out. A dump that is cut off gives what stands before the cut.
    """
    top: dict[str, Value] = {}
    nested: dict[str, Value] = {}
    for name, value in _pairs(_body(text)):
        if _SECRET.search(name) and not _NOT_SECRET.search(name):
            continue
        if value[:1] in "{(" or re.match(r"\w+\(", value):
            for inner, inner_value in read_arguments(value).items():
                nested.setdefault(inner, inner_value)
            top[name] = value if len(value) <= 400 else value[:400]
        else:
            top[name] = _literal(value)
    return {**nested, **top}


def _body(text: str) -> str:
    """What stands between the outermost brackets, or the text itself."""
    text = text.strip()
    start = re.match(r"\w*[({]", text)
    if not start:
        return text
    inner = text[start.end() :]
    return inner[:-1] if inner.endswith((")", "}")) else inner


def _pairs(body: str) -> Iterator[tuple[str, str]]:
    for piece in _cut(body):
        found = re.match(r"""\s*['"]?(\w+)['"]?\s*[:=]\s*(.*)$""", piece, re.DOTALL)
        if found:
            yield found.group(1), found.group(2).strip()


def _cut(body: str) -> Iterator[str]:
    """Split at commas that stand outside of brackets and quotes."""
    depth, quote, start = 0, "", 0
    index = 0
    while index < len(body):
        char = body[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            yield body[start:index]
            start = index + 1
        index += 1
    if body[start:].strip():
        yield body[start:]


def _literal(text: str) -> Value:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return text  # 1e999
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return text


def pick_number(arguments: Mapping[str, Value], *names: str) -> float | None:
    """The first of these arguments that holds a number."""
    for name in names:
        value = arguments.get(name)
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float):
            return float(value)
        if re.fullmatch(r"-?\d+(\.\d+)?", value):
            return float(value)
    return None
