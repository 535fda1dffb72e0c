"""Label selectors of PromQL: the caller's own, read strictly, and ours, written so that no value can break out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from auditor.model import UsageError

Operator = Literal["=", "!=", "=~", "!~"]

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OPERATOR = re.compile(r"=~|!~|!=|=")
_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_CODED_ESCAPES = {"x": 2, "u": 4, "U": 8}
EXAMPLE = "--match wants one selector, as in '{namespace=\"llm\"}'"


@dataclass(frozen=True)
class Matcher:
    """One condition on one label."""

    label: str
    operator: Operator
    value: str

    def __str__(self) -> str:
        return f"{self.label}{self.operator}{quote(self.value)}"


def quote(text: str) -> str:
    """A PromQL string literal of any text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def any_of(values: Iterable[str]) -> str:
    """A regular expression (RE2, anchored by the server) that matches exactly these texts."""
    return "|".join(re.escape(value) for value in sorted(set(values)))


def one_of(label: str, values: Iterable[str]) -> Matcher:
    """A matcher for exactly these values."""
    listed = sorted(set(values))
    return Matcher(label, "=", listed[0]) if len(listed) == 1 else Matcher(label, "=~", any_of(listed))


def selector(name: str | None, matchers: Iterable[Matcher]) -> str:
    """``name{label="value"}``; without a name the matchers alone."""
    inside = ",".join(str(m) for m in matchers)
    if name is None:
        return "{" + inside + "}"
    return f"{name}{{{inside}}}" if inside else name


def parse_match(text: str | None) -> tuple[Matcher, ...]:
    """The conditions of ``--match``.

    Raises:
        UsageError: it is no selector, is more than one, or names a metric.
    """
    if text is None:
        return ()
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read(self) -> tuple[Matcher, ...]:
        self._blanks()
        if not self._take("{"):
            if _LABEL.match(self.text, self.at):
                raise self._error("series are asked for by their own names; leave the name before { away")
            raise self._error("it does not begin with {")
        matchers: list[Matcher] = []
        while True:
            self._blanks()
            if self._take("}"):
                break
            matchers.append(self._matcher())
            self._blanks()
            if self._take("}"):
                break
            if not self._take(","):
                raise self._error(f"a comma or }} is missing at character {self.at + 1}")
        self._blanks()
        if self.at < len(self.text):
            raise self._error(f"it goes on after the selector with {self.text[self.at :][:30]!r}; give exactly one")
        if not matchers:
            raise self._error("it is empty; leave --match away to take every series")
        return tuple(matchers)

    def _matcher(self) -> Matcher:
        name = _LABEL.match(self.text, self.at)
        if name is None:
            raise self._error(f"a label name is missing at character {self.at + 1}")
        if name[0] == "__name__":
            raise self._error("__name__ cannot be chosen: which series are read is what the tool decides")
        self.at = name.end()
        self._blanks()
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None:
            raise self._error(f"one of = != =~ !~ is missing after {name[0]}")
        self.at = operator.end()
        self._blanks()
        return Matcher(name[0], cast(Operator, operator[0]), self._string())

    def _string(self) -> str:
        mark = self.text[self.at : self.at + 1]
        if mark not in ('"', "'", "`") or not mark:
            raise self._error(f"a quoted value is missing at character {self.at + 1}")
        self.at += 1
        out: list[str] = []
        while self.at < len(self.text):
            c = self.text[self.at]
            self.at += 1
            if c == mark:
                return "".join(out)
            if c == "\\" and mark != "`":
                out.append(self._escape())
            else:
                out.append(c)
        raise self._error("a quoted value has no end")

    def _escape(self) -> str:
        c = self.text[self.at : self.at + 1]
        self.at += 1
        if c in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[c]
        digits = _CODED_ESCAPES.get(c)
        if digits is not None:
            code = self.text[self.at : self.at + digits]
            self.at += digits
            try:
                return chr(int(code, 16))
            except (ValueError, OverflowError):
                pass
        raise self._error(f"\\{c} is no escape that PromQL knows")

    def _blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _take(self, mark: str) -> bool:
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def _error(self, what: str) -> UsageError:
        return UsageError(f"{EXAMPLE}; {self.text!r} is not one: {what}")
