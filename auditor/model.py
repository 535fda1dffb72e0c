"""The words of the project as frozen types, and their JSON.

Data flows one way: Page -> Window -> Part -> Subject of readings -> Verdict, Lever -> Report. Every
stage reads the types of the stage before and knows nothing of the one behind it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, overload

SCHEMA = 1

Labels = tuple[tuple[str, str], ...]
"""Label pairs sorted by name; hashable, so that it can stand in a key."""

State = Literal["measured", "partial", "bounded", "no_traffic", "not_exported", "absent", "invalid", "failed"]
HAS_VALUE: frozenset[str] = frozenset({"measured", "partial"})
VerdictWord = Literal["holds", "broken", "undecided", "not_applicable", "error"]
Severity = Literal["info", "warning", "problem"]
WindowKind = Literal["lifetime", "scrapes", "series", "range"]
TargetState = Literal["measured", "failed", "not_an_engine", "not_one_process"]
QuantityKind = Literal["counter", "gauge", "histogram", "info"]


class AuditorError(Exception):
    """Base of every failure that has a sentence for the user and an exit code."""

    exit_code = 4


class UsageError(AuditorError):
    """The caller asked for something that cannot be done as asked: exit code 2."""

    exit_code = 2


class EvidenceError(AuditorError):
    """Something remote, or the content of a page, failed: exit code 3."""

    exit_code = 3


class OutputError(AuditorError):
    """An output, a hand-over or the history could not be written: exit code 4."""

    exit_code = 4


# --------------------------------------------------------------------------- pages


class Sample(NamedTuple):
    """One line of a page. ``value`` may be NaN or infinite here; readings never are."""

    name: str
    labels: Labels
    value: float


SeriesKey = tuple[str, Labels]
"""Name and labels of one series."""


@dataclass(frozen=True, eq=False)
class SeriesKeys:
    """The series of a page or a target without their values: what like engines share.

    ``memo`` keeps what was worked out from the keys alone, so that a fleet of like engines pays for it once.
    """

    keys: tuple[SeriesKey, ...]
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class PageShape(SeriesKeys):
    """All of an exposition page but its numbers."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    helps: Mapping[str, str] = field(default_factory=dict)
    samples_read: int = 0
    names_read: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Page:
    """One exposition page: the wanted samples, and what was said about their families."""

    shape: PageShape
    values: tuple[float, ...]
    """One number for each of the shape's keys. NaN and infinity may be among them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Page) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[Any, ...]:
        shape = self.shape
        return self.values, shape.keys, shape.kinds, shape.helps, shape.samples_read, shape.names_read

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The wanted samples, made at each call."""
        return tuple(Sample(name, labels, v) for (name, labels), v in zip(self.shape.keys, self.values, strict=True))

    @property
    def kinds(self) -> Mapping[str, str]:
        """Family name as written in its TYPE line -> counter, gauge, histogram, summary, info, unknown."""
        return self.shape.kinds

    @property
    def helps(self) -> Mapping[str, str]:
        """Family name -> HELP text (needed where a unit stands only there)."""
        return self.shape.helps

    @property
    def samples_read(self) -> int:
        """All sample lines of the page, wanted or not."""
        return self.shape.samples_read

    @property
    def names_read(self) -> frozenset[str]:
        """The names of all samples of the page, wanted or not."""
        return self.shape.names_read


# --------------------------------------------------------------------------- windows


@dataclass(frozen=True)
class Series:
    """One series of one target. ``values`` runs along the target's ``times``; None where it was not there."""

    name: str
    labels: Labels
    values: tuple[float | None, ...]


class SeriesTable(Sequence[Series]):
    """The series of one target side by side: shared keys, and one column of values a page."""

    __slots__ = ("columns", "is_complete", "shared")

    def __init__(self, shared: SeriesKeys, columns: Sequence[Sequence[float | None]]) -> None:
        self.shared = shared
        self.columns = tuple(columns)
        self.is_complete = not any(None in column for column in self.columns)
        """No series is missing on any page."""

    @classmethod
    def of(cls, series: Iterable[Series]) -> SeriesTable:
        listed = list(series)
        keys = SeriesKeys(tuple((s.name, s.labels) for s in listed))
        return cls(keys, tuple(zip(*(s.values for s in listed), strict=True)))

    def __len__(self) -> int:
        return len(self.shared.keys)

    @overload
    def __getitem__(self, index: int) -> Series: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Series, ...]: ...
    def __getitem__(self, index: int | slice) -> Series | tuple[Series, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        name, labels = self.shared.keys[index]
        return Series(name, labels, tuple(column[index] for column in self.columns))

    def __iter__(self) -> Iterator[Series]:
        rows = zip(*self.columns, strict=True) if self.columns else iter([()] * len(self))
        for (name, labels), values in zip(self.shared.keys, rows, strict=True):
            yield Series(name, labels, values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SeriesTable({list(self)!r})"


@dataclass(frozen=True)
class TargetWindow:
    """What one target gave in the window: points (scraped pages) or parts (reduced by a metrics server)."""

    address: str
    state: TargetState
    engine: str | None = None
    version: str | None = None
    reason: str | None = None
    times: tuple[float | None, ...] = ()
    """Unix seconds at which each page was asked for; None where nobody knows."""
    form: str = ""
    """The prefix under which this target exports its engine's names, for example ``vllm:``."""
    helps: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    series: Sequence[Series] = ()
    parts: tuple[Part, ...] = ()
    samples_read: int = 0
    coverage: float = 1.0
    """Share of the window that this target's pages or samples cover."""

    def __post_init__(self) -> None:
        if not isinstance(self.series, SeriesTable):
            object.__setattr__(self, "series", SeriesTable.of(self.series))

    @property
    def table(self) -> SeriesTable:
        """The series, as the table that they always are."""
        assert isinstance(self.series, SeriesTable)
        return self.series


@dataclass(frozen=True)
class Window:
    """What happened between two moments, as the sources saw it; everything right of it is pure."""

    kind: WindowKind
    start: float | None
    end: float | None
    seconds: float | None
    targets: tuple[TargetWindow, ...]
    coverage: float = 1.0
    restarts: int = 0
    warnings: tuple[str, ...] = ()
    partial_response: str = ""
    """What a metrics server warned about its own answers; empty where it did not."""
    step_seconds: float | None = None
    """Distance between the samples behind a range."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    source: str = ""
    """How the window was made, in words a report can print: ``t0.prom -> t1.prom``."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a boot log told beside settings: ``boot_effects`` (sentences), ``log_hit_rate`` (0..1)."""


# --------------------------------------------------------------------------- quantities


@dataclass(frozen=True)
class Counter:
    """What a counter did in the window.

    ``increase`` is reset-aware; ``at_start`` and ``at_end`` are the page's totals, where a page was read.
    ``split`` holds the increase by the values of the declared split label.
    """

    increase: float
    at_start: float | None = None
    at_end: float | None = None
    split: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Gauge:
    """A gauge over the window. ``split`` holds the last value by the declared split label."""

    first: float | None
    last: float | None
    low: float | None
    high: float | None
    mean: float | None
    split: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Histogram:
    """Increase of a histogram: ``counts[i]`` observations lie in (edges[i-1], edges[i]]; not cumulative.

    The last edge is infinite. ``edges`` is empty where layouts differed between the parts, or where a
    bucket was missing; ``flaw`` then says why, and count and sum still hold.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float
    count: float
    flaw: str | None = None
    rebuilt_sum: bool = False
    """The sum was rebuilt from bucket midpoints by a re-exporter (Ray): only its range is known."""


@dataclass(frozen=True)
class Info:
    """Labels of an info series, one mapping per distinct copy."""

    labels: tuple[Mapping[str, str], ...]


Quantity = Counter | Gauge | Histogram | Info


@dataclass(frozen=True)
class Slice:
    """The time between two neighbouring scrapes (or steps of a range) of one part."""

    start: float | None
    end: float | None
    quantities: Mapping[str, Quantity]
    restarted: bool = False


@dataclass(frozen=True)
class LogEvidence:
    """What a running log says of one engine beside its gauges: a log has no counters."""

    moved: bool
    """Tokens moved in at least one of its lines."""
    missing: str
    """Why every quantity that is not in the part is missing."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Flag -> the sentence behind it, for what only lines of a log show."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """The rolling figures as they were printed, and sums of batch lines: facts, never readings."""


@dataclass(frozen=True)
class Part:
    """One engine of one target for one model: the finest grain at which quantities are kept."""

    target: str
    engine: str
    model: str | None
    rank: str | None
    quantities: Mapping[str, Quantity]
    slices: tuple[Slice, ...] = ()
    restarts: int = 0
    pooled: bool = False
    """Several engines, added up by a metrics server. What it holds is the total of what its sibling parts show."""
    multiprocess: bool = False
    """The page has neither ``process_*`` nor ``_created``: several front ends share it."""
    started_at: float | None = None
    """Unix seconds at which the process started, where the page says so."""
    forms: Mapping[str, str] = field(default_factory=dict)
    """Quantity -> the series name it was read from."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Quantity whose unit stands only in HELP -> tokens, blocks or unknown."""
    flaws: Mapping[str, str] = field(default_factory=dict)
    """Quantity that is on the page and cannot be used -> the reason."""
    doubles: Mapping[str, str] = field(default_factory=dict)
    """Quantity exported under two names -> empty, or how they disagree."""
    copies: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Gauge exported once per process -> how many copies of one engine, and how many of them above 0 at the end."""
    log: LogEvidence | None = None
    """Set where the part was read from a running log and not from a page."""


# --------------------------------------------------------------------------- readings


@dataclass(frozen=True)
class Reading:
    """A number derived from quantities, limits for it, or the reason why there is none.

    ``low`` and ``high`` are a 95 % interval beside a value, and hard limits in state ``bounded``.
    """

    name: str
    state: State
    unit: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    count: float | None = None
    sources: tuple[str, ...] = ()
    reason: str | None = None
    caveats: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON members: the quantiles of a distribution, mean and max of a gauge over a series."""

    def __post_init__(self) -> None:
        for number in (self.value, self.low, self.high, self.count):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{self.name}: {number} is not a value a reading can have")
        if (self.value is not None) != (self.state in HAS_VALUE):
            raise ValueError(f"{self.name}: value {self.value} in state {self.state}")

    @property
    def has_value(self) -> bool:
        return self.value is not None

    def limits(self) -> tuple[float | None, float | None]:
        """What a threshold is judged by: the interval or limits, else the value itself."""
        if self.value is not None and self.low is None and self.high is None:
            return self.value, self.value
        return self.low, self.high

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "value": self.value,
            "unit": self.unit,
            "low": self.low,
            "high": self.high,
            "count": self.count,
            "from": list(self.sources),
            "reason": self.reason,
            "caveats": list(self.caveats),
            **self.extra,
        }


@dataclass(frozen=True)
class Setting:
    """A value that no page tells, or that a page does tell, with where it came from."""

    value: float | str | bool
    source: str

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "source": self.source}


@dataclass(frozen=True)
class Claim:
    """A number in somebody's notes, held against the readings."""

    claim: str
    value: float
    matches: tuple[str, ...]
    is_what_it_says: bool | None
    right: tuple[str, float | None]
    summary: str

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "value": self.value,
            "matches": list(self.matches),
            "is_what_it_says": self.is_what_it_says,
            "right": {"reading": self.right[0], "value": self.right[1]},
            "summary": self.summary,
        }


@dataclass(frozen=True)
class Options:
    """What the caller decides about judging; everything else is in the window."""

    min_requests: int = 30
    min_coverage: float = 0.9
    short_cap: int = 50
    worth: float = 1.05
    by: str = "model"
    slo: Mapping[str, float] = field(default_factory=dict)
    claims: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Readings:
    """All that audits, levers and claims may see of one subject: readings by name, flags, settings."""

    labels: Mapping[str, str | None]
    window_kind: WindowKind
    values: Mapping[str, Reading]
    flags: tuple[str, ...]
    settings: Mapping[str, Setting]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain statements found on the way to the flags, by flag: the words an audit quotes."""

    def __getitem__(self, name: str) -> Reading:
        return self.values[name]

    def get(self, name: str) -> Reading | None:
        return self.values.get(name)

    def value(self, name: str) -> float | None:
        """The value, or None in every state that has none."""
        reading = self.values.get(name)
        return None if reading is None else reading.value

    def has_flag(self, *names: str) -> bool:
        return any(name in self.flags for name in names)

    @property
    def lifetime(self) -> bool:
        return self.window_kind == "lifetime"


# --------------------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Verdict:
    """What an audit says of its premise, with the evidence and what to do next."""

    audit: str
    premise: str
    question: str
    verdict: VerdictWord
    severity: Severity
    summary: str
    expected: str
    found: str
    flags: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "premise": self.premise,
            "question": self.question,
            "verdict": self.verdict,
            "severity": self.severity,
            "summary": self.summary,
            "expected": self.expected,
            "found": self.found,
            "flags": list(self.flags),
            "readings": list(self.readings),
            "next": list(self.next),
        }


@dataclass(frozen=True)
class Example:
    """A small window in terms of quantities, with the verdict it must get; ``auditor explain`` shows it.

    Counters are numbers or mappings by split label, gauges pairs (first, last), histograms mappings with
    ``sum``, ``count`` and ``buckets`` (upper edge -> observations in that bucket, not cumulative).
    """

    verdict: VerdictWord
    text: str
    quantities: Mapping[str, Any]
    seconds: float | None = 60.0
    kind: WindowKind = "scrapes"
    settings: Mapping[str, float | str | bool] = field(default_factory=dict)
    engine: str = "vllm"
    """The engine in whose quantities it is told."""


Range = tuple[float | None, float | None]


@dataclass(frozen=True)
class Lever:
    """One thing an operator can change: the most it can gain, what it costs, what would settle it."""

    lever: str
    verdict: Literal["worth_a_test", "not_worth_a_test", "undecided", "not_applicable"]
    summary: str
    ceiling_speedup: Range = (None, None)
    ceiling_speedup_95: Range = (None, None)
    if_twice_as_fast: Range = (None, None)
    reason: str | None = None
    touches: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    settles: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "summary": self.summary,
            "ceiling_speedup": list(self.ceiling_speedup),
            "ceiling_speedup_95": list(self.ceiling_speedup_95),
            "if_twice_as_fast": list(self.if_twice_as_fast),
            "verdict": self.verdict,
            "reason": self.reason,
            "touches": list(self.touches),
            "costs": list(self.costs),
            "needs": list(self.needs),
            "settles": self.settles,
        }


# --------------------------------------------------------------------------- report


@dataclass(frozen=True)
class SubjectReport:
    labels: Mapping[str, str | None]
    flags: tuple[str, ...]
    settings: Mapping[str, Setting]
    readings: Mapping[str, Reading]
    audits: tuple[Verdict, ...]
    levers: tuple[Lever, ...] = ()
    claims: tuple[Claim, ...] = ()
    parts: tuple[Mapping[str, Any], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    course: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "labels": dict(self.labels),
            "flags": list(self.flags),
            "settings": {k: s.to_json() for k, s in sorted(self.settings.items())},
            "readings": {k: r.to_json() for k, r in self.readings.items()},
            "audits": {v.audit: v.to_json() for v in self.audits},
            "levers": {lv.lever: lv.to_json() for lv in self.levers},
            "claims": [c.to_json() for c in self.claims],
            "parts": [dict(p) for p in self.parts],
            "facts": dict(self.facts),
        }
        if self.course is not None:
            out["course"] = dict(self.course)
        return out


@dataclass(frozen=True)
class Report:
    """An audit's whole result. Every output is a function of :meth:`to_json`."""

    window: Mapping[str, Any]
    targets: tuple[Mapping[str, Any], ...]
    subjects: tuple[SubjectReport, ...]
    tool: str
    exit_code: int = 0
    kind: str = "audit"
    course: Mapping[str, Any] | None = None
    gate: Mapping[str, Any] | None = None
    fleet: Mapping[str, Any] | None = None
    """Several engines side by side: the readings that mean the same on all of them."""

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "schema": SCHEMA,
            "kind": self.kind,
            "tool": self.tool,
            "window": dict(self.window),
            "targets": [dict(t) for t in self.targets],
            "subjects": [s.to_json() for s in self.subjects],
        }
        if self.course is not None:
            out["course"] = dict(self.course)
        if self.gate is not None:
            out["gate"] = dict(self.gate)
        if self.fleet is not None:
            out["fleet"] = dict(self.fleet)
        out["exit_code"] = self.exit_code
        return out

    def with_exit_code(self, code: int) -> Report:
        return replace(self, exit_code=code)


def utc_text(unix_seconds: float | None) -> str | None:
    """``2026-11-29T19:24:20.125Z``, or None."""
    if unix_seconds is None:
        return None
    moment = datetime.fromtimestamp(unix_seconds, tz=UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f"{moment.microsecond // 1000:03d}"
    return f"{text}Z" if fraction == "000" else f"{text}.{fraction}Z"


_UNSAFE_ON_A_SCREEN = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]")
"""Control, direction and invisible characters that JSON lets stand; the lower ones it escapes itself."""


def dump_json(document: Mapping[str, Any]) -> str:
    """JSON text of a document: stable bytes, no NaN, one trailing newline.

    A label may hold characters that turn a screen's writing round; they are escaped, and read back as they were.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return _UNSAFE_ON_A_SCREEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def sort_labels(pairs: Mapping[str, str] | Sequence[tuple[str, str]]) -> Labels:
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return tuple(sorted(items))


def iter_quantities(part: Part) -> Iterator[tuple[str, Quantity]]:
    yield from part.quantities.items()
