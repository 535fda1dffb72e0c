"""What a metrics server holds: which engines, under which form of their names, with which labels. Asked first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from auditor.measures.presence import copies_text, spread_text
from auditor.measures.promql import PIECE, Scope
from auditor.measures.reduce import declared_names
from auditor.measures.selectors import Matcher, any_of, one_of, selector
from auditor.measures.targets import LIKELY_CAUSES
from auditor.measures.vocabulary import Engine, Vocabulary
from auditor.model import EvidenceError
from auditor.sources.prometheus import LengthError, LimitError, MetricsServer

TARGET_LABELS = (("cluster", "job", "instance"), ("cluster", "namespace", "pod"), ("cluster", "host.name", "host"))
"""Labels that name a target; the first set whose last label is there is used."""
MOST_CANDIDATES = 4
REPLICA_LABELS = (
    "prometheus_replica", "__replica__", "replica", "receive_replica", "thanos_replica", "prometheus", "monitor",
    "rule_replica",
)  # fmt: skip
"""Labels by which pairs of metrics servers mark their copies of one series (Prometheus operator, Thanos, Mimir)."""


@dataclass(frozen=True)
class Found:
    """One engine under one form of its names."""

    scope: Scope
    core_names: tuple[str, ...]
    """Names of one series that each engine of each target has: who was there, and when."""
    monotone_names: tuple[str, ...]
    """Names of a counter that as many as possible have: what falls when a process restarts."""


def find_engines(
    server: MetricsServer,
    vocabulary: Vocabulary,
    *,
    matchers: tuple[Matcher, ...],
    by: str,
    start: float,
    end: float,
) -> list[Found]:
    """Every engine and form that has series in the range.

    Raises:
        EvidenceError: not one, with what was looked for; an empty answer is no zero.
    """
    prefixes = Matcher("__name__", "=~", f"(?:{any_of(vocabulary.prefixes)}).+")
    names = server.label_values("__name__", selector(None, (prefixes, *matchers)), start, end)
    found = []
    routers = []
    for engine, form, known in _by_form(vocabulary, names):
        candidates = _candidates(engine, form, known)
        if not candidates:
            routers.append(form)
            continue
        shown = one_of("__name__", [name for c in candidates for name in c.names])
        labels = frozenset(server.label_names(selector(None, (shown, *matchers)), start, end))
        scope = Scope(
            engine=engine,
            form=form,
            names=frozenset(known),
            by=by,
            matchers=matchers,
            target_labels=_target_labels(labels),
            victoria=server.dialect == "victoria",
            labels=labels | frozenset(_other_labels(server, engine, form, known, matchers, start, end)),
        )
        core, falling = _choose(server, scope, candidates, seconds=end - start, end=end)
        found.append(Found(scope, core.names, falling.names))
    if not found:
        raise EvidenceError(_nothing(server, vocabulary, names, matchers, routers))
    return found


def _by_form(vocabulary: Vocabulary, names: Iterable[str]) -> list[tuple[Engine, str, set[str]]]:
    by_prefix: dict[str, set[str]] = {}
    for name in names:
        prefix = next((p for p in vocabulary.prefixes if name.startswith(p)), None)
        if prefix is not None:
            by_prefix.setdefault(prefix, set()).add(name)
    out = []
    for prefix in sorted(by_prefix):
        recognised = vocabulary.recognise(by_prefix[prefix])
        if recognised is not None:
            out.append((recognised[0], prefix, by_prefix[prefix]))
    return out


@dataclass(frozen=True)
class _Candidate:
    """A quantity that could tell engines apart, by the names it has there."""

    names: tuple[str, ...]
    monotone: bool


def _candidates(engine: Engine, form: str, names: set[str]) -> list[_Candidate]:
    """The likeliest few: those that every release has, without labels of their own. Counters before gauges."""
    ranked: list[tuple[tuple[bool, ...], str, _Candidate]] = []
    for declaration in engine.quantities.values():
        monotone = declaration.kind in ("counter", "histogram")
        if not monotone and declaration.kind != "gauge":
            continue
        suffix = "_count" if declaration.kind == "histogram" else ""
        there = []
        for canonical in declaration.series:
            exported = engine.exported(canonical, form) + suffix
            there += [n for n in (exported, exported.removesuffix("_total")) if n in names][:1]
        if there:
            worth = (
                not declaration.core,
                declaration.split is not None or bool(declaration.where) or bool(declaration.one_of),
                declaration.population == "finished",
                declaration.kind == "histogram",
            )
            ranked.append((worth, declaration.name, _Candidate(tuple(dict.fromkeys(there)), monotone)))
    ordered = [candidate for _, _, candidate in sorted(ranked, key=lambda r: r[:2])]
    counters = [c for c in ordered if c.monotone][:MOST_CANDIDATES]
    return counters and [*counters, *[c for c in ordered if not c.monotone][:MOST_CANDIDATES]]


def _choose(
    server: MetricsServer, scope: Scope, candidates: Sequence[_Candidate], *, seconds: float, end: float
) -> tuple[_Candidate, _Candidate]:
    """(what has most samples, the monotone one that has most): some engines show a counter at its first event only."""
    monotone = [c for c in candidates if c.monotone]
    try:
        text = spread_text(scope, [name for c in candidates for name in c.names], seconds)
        rows = server.instant(text, end).rows
    except (LimitError, LengthError):
        return monotone[0], monotone[0]
    samples = {row.labels.get(PIECE, ""): row.value for row in rows}

    def spread(candidate: _Candidate) -> float:
        return sum(samples.get(name, 0.0) for name in candidate.names)

    # max() takes the first of equals, and candidates are in order of worth.
    return max(candidates, key=spread), max(monotone, key=spread)


def _other_labels(
    server: MetricsServer, engine: Engine, form: str, names: set[str], matchers: tuple[Matcher, ...], start: float,
    end: float,
) -> Sequence[str]:  # fmt: skip
    """Labels of gauges and info series, which counters need not have: pid, configuration, a router's mark."""
    declared = declared_names(engine, form)
    wanted = [n for n in names if any(d.kind in ("gauge", "info") for d, _, _ in declared.get(n, ()))]
    if not wanted:
        return ()
    return server.label_names(selector(None, (one_of("__name__", wanted), *matchers)), start, end)


def _target_labels(labels: frozenset[str]) -> tuple[str, ...]:
    for names in TARGET_LABELS:
        if names[-1] in labels:
            return tuple(name for name in names if name in labels)
    return tuple(name for name in ("cluster", "namespace", "job") if name in labels)


def find_copies(server: MetricsServer, found: Found, *, seconds: float, end: float) -> tuple[str, ...]:
    """Replica labels under which one series is stored more than once.

    A label of such a name may also tell real replicas apart; it marks copies only where nothing else does.
    """
    labels = found.scope.labels or frozenset()
    candidates = [name for name in REPLICA_LABELS if name in labels and name not in found.scope.target_labels]
    copies = []
    for name in candidates:
        text = copies_text(found.scope, found.core_names, name, seconds)
        rows = {row.labels.get(PIECE): row.value for row in server.instant(text, end).rows}
        if rows.get("all", 0) > rows.get("distinct", 0):
            copies.append(name)
    return tuple(copies)


def _nothing(
    server: MetricsServer, vocabulary: Vocabulary, names: Sequence[str], matchers: Sequence[Matcher],
    routers: Sequence[str],
) -> str:  # fmt: skip
    if routers:
        return (
            f"{server.address}: only gauges under {', '.join(routers)} in this window, no counters and histograms: "
            "a router's copy; have the workers scraped"
        )
    refusal = vocabulary.refusal(names)
    if refusal is not None:
        return f"{server.address}: {refusal.title}: {refusal.reason}"
    hints = [f"another window, {LIKELY_CAUSES}"]
    if matchers:
        hints.insert(0, f"no series with {selector(None, matchers)}")
    hints.append("a server for several tenants answers so without its tenant header (--header 'X-Scope-OrgID: NAME')")
    return (
        f"{server.address}: not one series of a known engine in this window (looked for "
        f"{', '.join(vocabulary.prefixes)}). Likely: {'; '.join(hints)}"
    )
