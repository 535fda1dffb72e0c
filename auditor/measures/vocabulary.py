"""What to ask of each engine: the declarations in ``queries/*.toml``, loaded and checked.

The files are the only place with series names. This module turns them into types and answers three
questions about a page: which engine is it, under which form of its names, and what is not known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from auditor.model import EvidenceError, QuantityKind

KINDS = ("counter", "gauge", "histogram", "info")
REDUCTIONS = {"counter": "increase", "histogram": "distribution", "gauge": "level", "info": "labels"}
ACROSS = ("sum", "max", "one_of", "mean")
POPULATIONS = ("live", "finished", "state")
HISTOGRAM_SUFFIXES = ("_bucket", "_sum", "_count")
PROCESS_START = "process_start_time_seconds"


class VocabularyError(Exception):
    """A declaration in ``queries/`` is wrong: a fault of ours, not of the user."""


@dataclass(frozen=True)
class Declaration:
    """One quantity of one engine, as declared."""

    name: str
    series: tuple[str, ...]
    kind: QuantityKind
    reduce: str
    across: str
    population: str
    unit: str
    counts: str
    source: str
    split: str | None = None
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Label -> the values it must have: some engines keep several quantities in one series."""
    one_of: tuple[str, ...] = ()
    """Labels whose values are copies of one thing: the largest is taken, they are never added."""
    split_names: Mapping[str, str] = field(default_factory=dict)
    """Values of the split label (shell patterns, the first match counts) -> the words the readings use."""
    zero_beside: tuple[str, ...] = ()
    """No series before its first event: where one of these quantities is on the page, missing means 0."""
    unit_in_help: bool = False
    core: bool = False
    missing: str = ""
    caveats: tuple[str, ...] = ()

    def split_word(self, value: str) -> str:
        """A value of the split label in the words the readings use."""
        return next((word for shape, word in self.split_names.items() if fnmatchcase(value, shape)), value)


@dataclass(frozen=True)
class Form:
    """One way in which producers write an engine's names: a prefix in the place of the canonical one."""

    prefix: str
    note: str = ""
    rebuilt_sums: bool = False
    sparse_counters: bool = False


@dataclass(frozen=True, eq=False)
class Engine:
    name: str
    title: str
    releases: str
    forms: tuple[Form, ...]
    quantities: Mapping[str, Declaration]
    model_labels: tuple[str, ...]
    rank_labels: tuple[str, ...]
    copy_labels: tuple[str, ...]
    replica_labels: tuple[str, ...]
    config_labels: Mapping[str, tuple[str, ...]]
    known: frozenset[str]
    prefill_runs: str
    disconnects_leave_no_trace: bool
    router_sign: str | None
    traits: Mapping[str, Any]

    @property
    def prefix(self) -> str:
        """The canonical prefix, under which the declarations are written."""
        return self.forms[0].prefix

    @property
    def holes(self) -> Mapping[str, str]:
        """Quantities without a series in any release -> the reason, and what would bring them."""
        table: Mapping[str, str] = self.traits.get("holes", {})
        return table

    @property
    def notes(self) -> Mapping[str, str]:
        """Reading -> a sentence that always goes with it on this engine."""
        table: Mapping[str, str] = self.traits.get("notes", {})
        return table

    @property
    def differs(self) -> Mapping[str, str]:
        """Readings that do not quite mean here what they mean elsewhere -> how: not compared across engines."""
        table: Mapping[str, str] = self.traits.get("differs", {})
        return table

    def is_live(self, quantity: str) -> bool:
        """This quantity moves when work happens, not when a request ends."""
        declaration = self.quantities.get(quantity)
        return declaration is not None and declaration.population == "live"

    def form(self, prefix: str) -> Form:
        found = next((f for f in self.forms if f.prefix == prefix), None)
        if found is None:
            raise EvidenceError(f"{self.title} exports nothing under the names {prefix}...")
        return found

    def exported(self, canonical: str, form: str) -> str:
        """The name a canonical series has on pages of this form."""
        return form + canonical.removeprefix(self.prefix) if canonical.startswith(self.prefix) else canonical

    def names(self) -> dict[str, tuple[str, int]]:
        """Canonical base name -> (quantity, position in its list of names)."""
        return {name: (q.name, i) for q in self.quantities.values() for i, name in enumerate(q.series)}


@dataclass(frozen=True)
class Refusal:
    """Pages that are known and not audited: which, and what to do instead."""

    prefix: str
    title: str
    reason: str


@dataclass(frozen=True, eq=False)
class Vocabulary:
    engines: tuple[Engine, ...]
    refusals: tuple[Refusal, ...] = ()

    def engine(self, name: str) -> Engine:
        return next(e for e in self.engines if e.name == name)

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """Every prefix that is looked for, longest first, so that ``ray_vllm:`` is not taken for ``vllm:``."""
        return tuple(sorted((f.prefix for e in self.engines for f in e.forms), key=lambda p: (-len(p), p)))

    @cached_property
    def _wanted_starts(self) -> tuple[str, ...]:
        return (*self.prefixes, PROCESS_START)

    def wanted(self, name: str) -> bool:
        """Whether a sample of this name is worth keeping from a page."""
        return name.startswith(self._wanted_starts)

    def recognise(self, names: Iterable[str]) -> tuple[Engine, Form] | None:
        """The engine and form that most names of a page belong to; None when not one name is known."""
        found: dict[tuple[str, str], int] = {}
        prefixes = self.prefixes
        for name in names:
            for prefix in prefixes:
                if name.startswith(prefix):
                    engine = self._by_prefix[prefix]
                    if self._knows(engine, prefix, name):
                        key = (engine.name, prefix)
                        found[key] = found.get(key, 0) + 1
                    break
        if not found:
            return None
        engine_name, prefix = max(found, key=lambda key: (found[key], key))
        engine = self.engine(engine_name)
        return engine, engine.form(prefix)

    @cached_property
    def _by_prefix(self) -> dict[str, Engine]:
        return {f.prefix: e for e in self.engines for f in e.forms}

    @staticmethod
    def _knows(engine: Engine, prefix: str, name: str) -> bool:
        # A colon in a prefix is proof enough; "vllm_" or "sglang_" alone may be anybody's.
        if prefix.endswith(":"):
            return True
        canonical = engine.prefix + name.removeprefix(prefix)
        bases = _base_names(engine)
        return any(candidate in bases for candidate in _bases(canonical))

    def refusal(self, names: Iterable[str]) -> Refusal | None:
        """The first known-but-not-audited producer that a page's names point at."""
        listed = list(names)
        for refusal in self.refusals:
            if any(name.startswith(refusal.prefix) for name in listed):
                return refusal
        return None


@lru_cache(maxsize=32)
def _base_names(engine: Engine) -> frozenset[str]:
    return frozenset((*engine.names(), *engine.known))


def _bases(name: str) -> list[str]:
    out = [name]
    for suffix in (*HISTOGRAM_SUFFIXES, "_created"):
        if name.endswith(suffix):
            base = name.removesuffix(suffix)
            out += [base, base + "_total"]
    if not name.endswith("_total"):
        out.append(name + "_total")
    return out


def unknown_names(engine: Engine, form: str, names: Iterable[str]) -> list[str]:
    """Names of a page under the engine's prefix that no declaration covers, sorted."""
    bases = _base_names(engine)
    out = []
    for name in set(names):
        if not name.startswith(form):
            continue
        canonical = engine.prefix + name.removeprefix(form)
        if not any(candidate in bases for candidate in _bases(canonical)):
            out.append(name)
    return sorted(out)


# --------------------------------------------------------------------------- loading


def queries_folder() -> Path:
    """Where the declarations lie: inside an installed package, or at the top of a checkout."""
    packaged = Path(__file__).resolve().parent.parent / "_data" / "queries"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "queries"


@lru_cache(maxsize=4)
def load_vocabulary(folder: Path | None = None) -> Vocabulary:
    """Read every ``*.toml`` in the folder.

    Raises:
        VocabularyError: a declaration lacks a field or has an unknown word in it.
    """
    engines, refusals = [], []
    for path in sorted((folder or queries_folder()).glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        refusals += [Refusal(**r) for r in data.get("refused", [])]
        if "engine" in data:
            engines.append(_engine(path.name, data))
    # vLLM first: it is the engine most pages come from, and order decides ties.
    engines.sort(key=lambda e: (e.name != "vllm", e.name))
    return Vocabulary(engines=tuple(engines), refusals=tuple(refusals))


_ENGINE_KEYS = {
    "name", "title", "releases", "forms", "model_labels", "rank_labels", "copy_labels", "replica_labels",
    "prefill_runs", "disconnects_leave_no_trace", "router_sign",
}  # fmt: skip


def _engine(file: str, data: Mapping[str, Any]) -> Engine:
    head = data["engine"]
    quantities = {name: _declaration(file, name, raw) for name, raw in data.get("quantity", {}).items()}
    return Engine(
        name=head["name"],
        title=head["title"],
        releases=head.get("releases", ""),
        forms=tuple(Form(**f) for f in head["forms"]),
        quantities=quantities,
        model_labels=tuple(head.get("model_labels", ())),
        rank_labels=tuple(head.get("rank_labels", ())),
        copy_labels=tuple(head.get("copy_labels", ())),
        replica_labels=tuple(head.get("replica_labels", ())),
        config_labels={k: tuple(v) for k, v in data.get("config_labels", {}).items()},
        known=frozenset(data.get("known", {}).get("series", ())),
        prefill_runs=head.get("prefill_runs", "mixed"),
        disconnects_leave_no_trace=bool(head.get("disconnects_leave_no_trace", False)),
        router_sign=head.get("router_sign"),
        traits={k: v for k, v in head.items() if k not in _ENGINE_KEYS},
    )


def _declaration(file: str, name: str, raw: Mapping[str, Any]) -> Declaration:
    def need(key: str, allowed: Iterable[str] | None = None) -> Any:
        if key not in raw:
            raise VocabularyError(f"{file}: [quantity.{name}] has no {key!r}")
        if allowed is not None and raw[key] not in allowed:
            raise VocabularyError(f"{file}: [quantity.{name}] {key} = {raw[key]!r}, not one of {list(allowed)}")
        return raw[key]

    kind = need("kind", KINDS)
    if need("reduce") != REDUCTIONS[kind]:
        raise VocabularyError(f"{file}: [quantity.{name}] a {kind} reduces by {REDUCTIONS[kind]!r}")
    unknown = set(raw) - {f for f in Declaration.__dataclass_fields__ if f != "name"}
    if unknown:
        raise VocabularyError(f"{file}: [quantity.{name}] unknown keys {sorted(unknown)}")
    where = {k: tuple([v] if isinstance(v, str) else v) for k, v in raw.get("where", {}).items()}
    return Declaration(
        name=name,
        series=tuple(need("series")),
        kind=kind,
        reduce=raw["reduce"],
        across=need("across", ACROSS),
        population=need("population", POPULATIONS),
        unit=need("unit"),
        counts=need("counts"),
        source=need("source"),
        split=raw.get("split"),
        where=where,
        one_of=tuple(raw.get("one_of", ())),
        split_names=dict(raw.get("split_names", {})),
        zero_beside=tuple(raw.get("zero_beside", ())),
        unit_in_help=bool(raw.get("unit_in_help", False)),
        core=bool(raw.get("core", False)),
        missing=raw.get("missing", ""),
        caveats=tuple(raw.get("caveats", ())),
    )
