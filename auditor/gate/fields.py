"""Single values of a premises file: each is read with its type, or an error is noted at its place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, TypeVar

from auditor.gate.amounts import AmountError, read_amount, read_share
from auditor.gate.model import ReadingName
from auditor.gate.nodes import Problems

if TYPE_CHECKING:
    import yaml

Keys = dict[str, "tuple[yaml.Node, yaml.Node]"]
"""Key of a mapping -> its own node and that of its value."""
T = TypeVar("T", bound=str)


class Fields:
    """Reads nodes and collects problems. Every method gives None (or nothing) where it noted one."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems = Problems(file)

    def mapping(self, node: yaml.Node, known: Sequence[str], what: str) -> Keys:
        """The known keys of a mapping; unknown and doubled ones are errors."""
        import yaml

        if not isinstance(node, yaml.MappingNode):
            self.problems.add(node, f"a mapping is needed here, with {', '.join(known[:8])}")
            return {}
        out: Keys = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.problems.add(key, "a key is a plain word")
            elif key.value not in known:
                self.problems.unknown(key, key.value, known, what)
            elif key.value in out:
                self.problems.add(key, f"{key.value} is given twice")
            else:
                out[key.value] = (key, value)
        if not node.value:
            self.problems.add(node, f"is empty; known: {', '.join(known[:16])}")
        return out

    def sequence(self, keys: Keys, name: str) -> Sequence[yaml.Node]:
        """The entries of a list, nothing where the key is absent or empty."""
        import yaml

        if name not in keys:
            return ()
        node = keys[name][1]
        if is_empty(node):
            return ()
        if not isinstance(node, yaml.SequenceNode):
            self.problems.add(node, f"{name} is a list: begin each entry with a dash")
            return ()
        return list(node.value)

    def scalar(self, node: yaml.Node, what: str, *, empty: bool = False) -> str | None:
        """The text of a plain value, as written."""
        import yaml

        if not isinstance(node, yaml.ScalarNode):
            self.problems.add(node, f"{what} is needed here, not a list or mapping")
            return None
        text = str(node.value).strip()
        if not text and not (empty and node.style):
            self.problems.add(node, f"{what} is needed here")
            return None
        return text

    def choice(self, node: yaml.Node, known: Sequence[T], what: str) -> T | None:
        """One of the known words."""
        text = self.scalar(node, f"a {what}")
        if text is None:
            return None
        match = next((k for k in known if k == text), None)
        if match is None:
            self.problems.unknown(node, text, known, what)
        return match

    def amount(self, node: yaml.Node, reading: ReadingName) -> float | None:
        """A number with a unit, in the reading's own unit."""
        text = self.scalar(node, "an amount")
        if text is None:
            return None
        try:
            return read_amount(text, reading)
        except AmountError as error:
            self.problems.add(node, str(error))
            return None

    def share(self, node: yaml.Node, what: str) -> float | None:
        """A part between 0 and 1."""
        text = self.scalar(node, "a share")
        if text is None:
            return None
        try:
            return read_share(text, what)
        except AmountError as error:
            self.problems.add(node, str(error))
            return None

    def day(self, node: yaml.Node) -> date | None:
        """A day: 2027-01-31."""
        text = self.scalar(node, "a date")
        if text is None:
            return None
        try:
            if len(text) != 10:
                raise ValueError
            return date.fromisoformat(text)
        except ValueError:
            self.problems.add(node, f"{text!r} is no date; write 2027-01-31")
            return None


def is_empty(node: yaml.Node) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")
