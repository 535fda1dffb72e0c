"""YAML text to nodes that know their line and column; nothing is constructed, and nothing can grow.

Aliases are refused, because a few lines of them stand for billions of nodes; depth and size have limits, because the
composer is recursive.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.gate.model import Place
from auditor.model import UsageError

if TYPE_CHECKING:
    import yaml

LARGEST_BYTES = 256 * 1024
DEEPEST = 16
MOST_ERRORS = 50


class PremisesError(UsageError):
    """Everything that is wrong with a premises file, one place a line."""

    def __init__(self, problems: Iterable[tuple[Place, str]]) -> None:
        self.problems = tuple(sorted(set(problems)))
        shown = [f"{place}: {text}" for place, text in self.problems[:MOST_ERRORS]]
        left = len(self.problems) - len(shown)
        if left > 0:
            shown.append(f"... and {left} more")
        if len(self.problems) > 1:
            shown.insert(0, f"{len(self.problems)} errors in the premises file")
        super().__init__("\n".join(shown))


class Problems:
    """Collects errors, so that all of them are said at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[tuple[Place, str]] = []

    def place(self, node: yaml.Node) -> Place:
        return Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def add(self, node: yaml.Node, text: str) -> None:
        self.found.append((self.place(node), text))

    def unknown(self, node: yaml.Node, name: str, known: Iterable[str], what: str) -> None:
        """``lenght_share is no reading; did you mean length_share?``"""
        listed = sorted(known)
        folded = {n.casefold(): n for n in listed}
        near = difflib.get_close_matches(name.casefold(), list(folded), 2, 0.5)
        scores = [difflib.SequenceMatcher(None, name.casefold(), n).ratio() for n in near]
        if near and len(set(scores)) == len(scores):
            hint = f"; did you mean {folded[near[0]]}?"
        elif len(listed) <= 16:
            hint = f"; known: {', '.join(listed)}"
        else:
            hint = ""
        self.add(node, f"{name!r} is no {what}{hint}")


def read_text(path: str) -> str:
    """The text of a premises file.

    Raises:
        UsageError: not there, not readable, no text, or larger than any such file.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: could not be read ({error.strerror or error})") from None
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{path}: is larger than {LARGEST_BYTES // 1024} KiB; a premises file is a page or two")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise PremisesError([(Place(path, line, column), "is no UTF-8 text")]) from None


def compose(text: str, file: str) -> yaml.Node | None:
    """The root node, or None of an empty file.

    Raises:
        PremisesError: no YAML, several documents, aliases, tags of Python, or too deep.
    """
    import yaml

    try:
        _check_events(yaml.parse(text, Loader=yaml.SafeLoader), file)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark is not None else Place(file, 1, 1)
        words = " ".join(t for t in (error.context, error.problem) if t)
        raise PremisesError([(place, f"is no YAML: {words}")]) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = Place(file, before.count("\n") + 1, error.position - before.rfind("\n"))
        raise PremisesError([(place, "is no YAML: a character that no text holds")]) from None
    except yaml.YAMLError as error:
        raise PremisesError([(Place(file, 1, 1), f"is no YAML: {error}")]) from None


def _check_events(events: Iterable[yaml.Event], file: str) -> None:
    import yaml

    depth = documents = 0
    for event in events:
        mark = event.start_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark is not None else Place(file, 1, 1)
        if isinstance(event, yaml.AliasEvent):
            raise PremisesError([(place, f"*{event.anchor}: aliases are not read; write the value again")])
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise PremisesError([(place, "a second document; one file is one document")])
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise PremisesError([(place, f"is nested deeper than {DEEPEST} levels")])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        tag = getattr(event, "tag", None)
        if tag and ("python" in tag or not tag.startswith("tag:yaml.org,2002:")):
            raise PremisesError([(place, f"{tag}: tags are not read; write a plain value")])
