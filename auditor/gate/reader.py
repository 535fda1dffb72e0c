"""Nodes to a premises file: every name, unit and date is checked, and all errors are said at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.gate.amounts import condition_words
from auditor.gate.fields import Fields, Keys, is_empty
from auditor.gate.model import (
    LABELS,
    At,
    Level,
    Limits,
    Names,
    OnUndecided,
    Place,
    Premise,
    PremisesFile,
    ReadingName,
    Regression,
    Waiver,
)
from auditor.gate.nodes import PremisesError, compose, read_text
from auditor.gate.presets import BELIEFS, PRESETS, believe, preset_premises

if TYPE_CHECKING:
    import yaml

FILE_KEYS = ("extends", "min_requests", "min_coverage", "premises", "waivers")
SUBJECT_KEYS = ("reading", "audit", "belief", "before", "claim")
CONDITION_KEYS = ("at_most", "at_least", "between", "worse_than_baseline_by")
COMMON_KEYS = ("name", "level", "for", "on_undecided")
PREMISE_KEYS = (*SUBJECT_KEYS, *CONDITION_KEYS, "at", *COMMON_KEYS)
WAIVER_KEYS = ("premise", "until", "reason")
LEVELS: tuple[Level, ...] = ("error", "warn", "off")
ON_UNDECIDED: tuple[OnUndecided, ...] = ("fail", "warn")
ATS: tuple[At, ...] = ("mean", "p50", "p90", "p99")


def read_premises(path: str, names: Names) -> PremisesFile:
    """Read a premises file.

    Raises:
        UsageError: the file could not be read; as :class:`PremisesError` with every place where it is wrong.
    """
    return parse_premises(read_text(path), file=path, names=names)


def parse_premises(text: str, *, file: str, names: Names) -> PremisesFile:
    """The same for a text. ``file`` is what messages call it."""
    return _Reader(file, names).read(text)


class _Reader(Fields):
    def __init__(self, file: str, names: Names) -> None:
        super().__init__(file)
        self.names = names

    def read(self, text: str) -> PremisesFile:
        root = compose(text, self.file)
        keys: Keys = {}
        if root is not None and not is_empty(root):
            keys = self.mapping(root, FILE_KEYS, "key of a premises file")
        extends, premises = self._preset(keys)
        premises = self._premises(keys, premises)
        waivers = self._waivers(keys, [p.name for p in premises])
        result = PremisesFile(
            file=self.file,
            premises=tuple(premises),
            waivers=tuple(waivers),
            extends=extends,
            min_requests=self._min_requests(keys),
            min_coverage=self._min_coverage(keys),
        )
        if not self.problems.found and all(p.level == "off" for p in premises):
            why = "every premise is off" if premises else "has no premise"
            raise PremisesError([(Place(self.file, 1, 1), f"{why}; add one under premises:, or extends: recommended")])
        if self.problems.found:
            raise PremisesError(self.problems.found)
        return result

    # ------------------------------------------------------------------ the file

    def _preset(self, keys: Keys) -> tuple[str, list[Premise]]:
        if "extends" not in keys:
            return "none", []
        node = keys["extends"][1]
        name = self.choice(node, tuple(PRESETS), "preset")
        if name is None:
            return "none", []
        return name, list(preset_premises(name, self.problems.place(node)))

    def _premises(self, keys: Keys, inherited: list[Premise]) -> list[Premise]:
        written: dict[str, Premise] = {}
        for node in self.sequence(keys, "premises"):
            premise = self._premise(node)
            if premise is None:
                continue
            if premise.name in written:
                line = written[premise.name].place.line
                self.problems.add(node, f"{premise.name!r} is already the name of line {line}; give this one a name:")
                continue
            written[premise.name] = premise
        return [p for p in inherited if p.name not in written] + list(written.values())

    def _min_requests(self, keys: Keys) -> int | None:
        if "min_requests" not in keys:
            return None
        node = keys["min_requests"][1]
        text = self.scalar(node, "a whole number")
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) >= 1):
            self.problems.add(node, f"{text!r}: min_requests is a whole number from 1 on")
            return None
        return int(text)

    def _min_coverage(self, keys: Keys) -> float | None:
        if "min_coverage" not in keys:
            return None
        return self.share(keys["min_coverage"][1], "min_coverage")

    # ------------------------------------------------------------------ one premise

    def _premise(self, node: yaml.Node) -> Premise | None:
        keys = self.mapping(node, PREMISE_KEYS, "key of a premise")
        if not keys:
            return None
        chosen = [k for k in SUBJECT_KEYS if k in keys]
        if len(chosen) != 1:
            found = "none of them" if not chosen else " and ".join(chosen)
            self.problems.add(node, f"a premise has exactly one of {', '.join(SUBJECT_KEYS)}; here: {found}")
            return None
        what = chosen[0]
        premise = getattr(self, f"_{what}")(keys[what][1], keys)
        assert premise is None or isinstance(premise, Premise)
        if what != "reading":
            for key in (*CONDITION_KEYS, "at"):
                if key in keys:
                    self.problems.add(keys[key][0], f"{key} goes with reading:; {_has_its_own(what)}")
        common = self._common(keys)
        if premise is None:
            return None
        return replace(
            premise,
            place=self.problems.place(node),
            **{"name": premise.name, **common},  # type: ignore[arg-type]
        )

    def _common(self, keys: Keys) -> dict[str, object]:
        out: dict[str, object] = {}
        if "name" in keys:
            text = self.scalar(keys["name"][1], "a name")
            if text is not None:
                out["name"] = text
        if "level" in keys and (level := self.choice(keys["level"][1], LEVELS, "level")):
            out["level"] = level
        if "on_undecided" in keys and (how := self.choice(keys["on_undecided"][1], ON_UNDECIDED, "on_undecided")):
            out["on_undecided"] = how
        if "for" in keys:
            selector = {}
            for key, (_, node) in self.mapping(keys["for"][1], LABELS, "label of a subject").items():
                pattern = self.scalar(node, "a shell pattern", empty=True)
                if pattern is not None:
                    selector[key] = pattern
            out["selector"] = selector
        return out

    def _reading(self, node: yaml.Node, keys: Keys) -> Premise | None:
        name = self.choice(node, tuple(self.names.readings), "reading")
        given = [k for k in CONDITION_KEYS if k in keys]
        if len(given) != 1:
            found = "none" if not given else " and ".join(given)
            self.problems.add(node, f"a reading needs exactly one of {', '.join(CONDITION_KEYS)}; here: {found}")
        if name is None:
            return None
        reading = self.names.readings[name]
        at = self._at(keys, reading)
        if len(given) != 1:
            return None
        condition = self._condition(given[0], keys[given[0]][1], reading)
        if condition is None:
            return None
        words = (
            f"{name} {at} {condition_words(condition, reading)}"
            if at and at != "mean"
            else (f"{name} {condition_words(condition, reading)}")
        )
        return Premise(words, "reading", name, self.problems.place(node), condition=condition, at=at)

    def _at(self, keys: Keys, reading: ReadingName) -> At | None:
        if "at" not in keys:
            return "mean" if reading.distribution else None
        key, node = keys["at"]
        if not reading.distribution:
            self.problems.add(key, f"at goes with distributions; {reading.name} is a single number")
            return None
        return self.choice(node, ATS, "place in a distribution")

    def _condition(self, key: str, node: yaml.Node, reading: ReadingName) -> Limits | Regression | None:
        if key == "worse_than_baseline_by":
            if reading.better is None:
                self.problems.add(node, f"no direction of {reading.name} is known to be worse; use at_most or at_least")
                return None
            share = self.share(node, "share of the baseline")
            return None if share is None else Regression(share)
        if key == "between":
            ends = self._pair(node, reading)
            return None if ends is None else Limits(*ends)
        value = self.amount(node, reading)
        if value is None:
            return None
        return Limits(high=value) if key == "at_most" else Limits(low=value)

    def _pair(self, node: yaml.Node, reading: ReadingName) -> tuple[float, float] | None:
        import yaml

        if not isinstance(node, yaml.SequenceNode) or len(node.value) != 2:
            self.problems.add(node, "between needs two amounts: [a, b]")
            return None
        low, high = (self.amount(n, reading) for n in node.value)
        if low is None or high is None:
            return None
        if low > high:
            self.problems.add(node, "between: the first amount is above the second")
            return None
        return low, high

    def _audit(self, node: yaml.Node, keys: Keys) -> Premise | None:
        name = self.choice(node, self.names.audits, "audit")
        return None if name is None else Premise(name, "audit", name, self.problems.place(node))

    def _belief(self, node: yaml.Node, keys: Keys) -> Premise | None:
        name = self.choice(node, tuple(BELIEFS), "belief")
        return None if name is None else believe(name, name=name, place=self.problems.place(node))

    def _before(self, node: yaml.Node, keys: Keys) -> Premise | None:
        name = self.choice(node, self.names.levers, "lever")
        return None if name is None else Premise(f"before {name}", "before", name, self.problems.place(node))

    def _claim(self, node: yaml.Node, keys: Keys) -> Premise | None:
        claims = self.mapping(node, tuple(self.names.claims), "claim")
        if len(claims) != 1:
            if claims:
                self.problems.add(node, "claim holds one number: {prefill_rate: 1860}")
            return None
        ((name, (_, value_node)),) = claims.items()
        value = self.amount(value_node, self.names.readings[self.names.claims[name]])
        if value is None:
            return None
        return Premise(f"claim {name} {value:g}", "claim", name, self.problems.place(node), claimed=value)

    # ------------------------------------------------------------------ waivers

    def _waivers(self, keys: Keys, premises: Sequence[str]) -> list[Waiver]:
        waivers: dict[str, Waiver] = {}
        for node in self.sequence(keys, "waivers"):
            found = self.mapping(node, WAIVER_KEYS, "key of a waiver")
            missing = [k for k in WAIVER_KEYS if k not in found]
            if missing:
                self.problems.add(node, f"a waiver needs premise, until and reason; missing: {', '.join(missing)}")
            premise = self.choice(found["premise"][1], premises, "premise of this file") if "premise" in found else None
            until = self.day(found["until"][1]) if "until" in found else None
            reason = self.scalar(found["reason"][1], "a reason") if "reason" in found else None
            if premise is None or until is None or reason is None:
                continue
            if premise in waivers:
                self.problems.add(node, f"{premise!r} is already waived in line {waivers[premise].place.line}")
                continue
            waivers[premise] = Waiver(premise, until, reason, self.problems.place(node))
        return list(waivers.values())


def _has_its_own(what: str) -> str:
    return {
        "audit": "an audit has its own verdict",
        "belief": "a belief has its own limit",
        "before": "a lever has its own verdict",
        "claim": "a claim is judged within 10 %",
    }[what]


def describe_claims(premises: PremisesFile) -> Mapping[str, float]:
    """Claims of a file by name, the first number where one name is claimed twice."""
    out: dict[str, float] = {}
    for p in premises.premises:
        if p.kind == "claim" and p.claimed is not None:
            out.setdefault(p.of, p.claimed)
    return out
