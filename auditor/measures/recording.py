"""Ratios as PromQL, for recording rules, alerts and dashboards: rendered from the same declarations.

An audit never reads these: its ratios are computed from quantities in ``readings/``. A test holds the two against each
other on a real server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from auditor.measures.promql import Render, Scope, at_offset
from auditor.measures.selectors import Matcher
from auditor.measures.vocabulary import Declaration, Engine


@dataclass(frozen=True)
class Term:
    """A quantity, or its sum or count, with a sign; ``only`` narrows it by its split label."""

    quantity: str
    piece: str = ""
    sign: int = 1
    only: tuple[Matcher, ...] = ()
    rare: bool = False
    """It may have no series while nothing of it happened: then it is 0 where the denominator is there."""


@dataclass(frozen=True)
class Ratio:
    """Numerator over denominator, plus ``plus``; ``otherwise`` where its series are not there."""

    above: tuple[Term, ...]
    below: tuple[Term, ...]
    plus: float = 0.0
    otherwise: Ratio | None = None


def _sum(name: str, sign: int = 1) -> Term:
    return Term(name, "sum", sign)


_P, _D, _Q, _E = (_sum(n) for n in ("prefill_seconds", "decode_seconds", "queue_seconds", "e2e_seconds"))
_COMPUTED = (Matcher("source", "=", "local_compute"),)
_NOT_ABORTED = (Matcher("finished_reason", "!=", "abort"),)
_BY_LENGTH = (Matcher("finished_reason", "=", "length"),)

RATIOS: Mapping[str, Ratio] = {
    "prefill_share": Ratio((_P,), (_P, _D)),
    "queue_share": Ratio((_Q,), (_Q, _P, _D)),
    "hidden_wait_share": Ratio((_E, replace(_Q, sign=-1), replace(_P, sign=-1), replace(_D, sign=-1)), (_E,)),
    "prefix_hit_share": Ratio(
        (Term("prompt_tokens"), Term("prompt_tokens_by_source", sign=-1, only=_COMPUTED)),
        (Term("prompt_tokens"),),
        otherwise=Ratio(
            (_sum("prompt_length_tokens"), _sum("computed_prompt_length_tokens", -1)), (_sum("prompt_length_tokens"),)
        ),
    ),
    "length_share": Ratio(
        (Term("finished_requests", only=_BY_LENGTH, rare=True),), (Term("finished_requests", only=_NOT_ABORTED),)
    ),
    "preemptions_per_request": Ratio((Term("preemptions"),), (Term("finished_requests"),)),
    "tokens_per_draft_step": Ratio((Term("accepted_tokens"),), (Term("drafts"),), plus=1.0),
}
"""Readings that are recorded: name -> how they are made of quantities."""

COUNTS = ("finished_requests", "generation_tokens")


def whole_scope(engine: Engine, *, matchers: tuple[Matcher, ...] = (), by: str = "model") -> Scope:
    """All declared names of an engine under its canonical form: for queries written without a server at hand."""
    from auditor.measures.reduce import declared_names

    suffixed = {n for n, found in declared_names(engine, engine.prefix).items() if _as_written(n, found)}
    return Scope(engine, engine.prefix, frozenset(suffixed), by=by, matchers=matchers)


def _as_written(name: str, found: list[tuple[Declaration, int, str]]) -> bool:
    # A counter's name without _total is how few producers write it: not worth an arm in every rule.
    return any(name in d.series or d.kind == "histogram" or not d.series[p].endswith("_total") for d, p, _ in found)


def ratio_text(scope: Scope, name: str, how: Render) -> str | None:
    """A recorded reading as one expression by subject; None where the engine has no series for it."""
    return _ratio(scope, RATIOS[name], how)


def _ratio(scope: Scope, ratio: Ratio, how: Render) -> str | None:
    other = _ratio(scope, ratio.otherwise, how) if ratio.otherwise is not None else None
    terms = (*ratio.above, *ratio.below)
    if any(not _is_there(scope, term) for term in terms):
        return other
    below = _added(scope, ratio.below, how)
    above = _added(scope, ratio.above, how, below=below)
    text = f"({above})\n/\n(({below}) > 0)"
    if ratio.plus:
        text = f"{ratio.plus:g} + {text}"
    return f"({text})\nor\n({other})" if other is not None else text


def _is_there(scope: Scope, term: Term) -> bool:
    declaration = scope.engine.quantities.get(term.quantity)
    if declaration is None or (term.piece and declaration.kind != "histogram"):
        return False
    if not term.piece and declaration.kind != "counter":
        return False
    if term.only and declaration.split != term.only[0].label:
        return False
    return bool(scope.present(declaration, f"_{term.piece}" if term.piece else ""))


def _added(scope: Scope, terms: tuple[Term, ...], how: Render, *, below: str = "") -> str:
    out = ""
    for term in terms:
        narrowed = replace(scope, matchers=(*scope.matchers, *term.only))
        declaration = scope.engine.quantities[term.quantity]
        suffix = f"_{term.piece}" if term.piece else ""
        text = narrowed.summed(declaration, suffix, how, by=scope.group)
        if term.rare:
            text = f"({text} or 0 * ({below}))"
        sign = "-" if term.sign < 0 else "+"
        out = f"{out} {sign} {text}" if out else text
    return out


def count_text(scope: Scope, name: str, how: Render) -> str | None:
    """A counter over all its split labels, by subject."""
    declaration = scope.engine.quantities.get(name)
    if declaration is None or declaration.kind != "counter" or not scope.present(declaration):
        return None
    return scope.summed(declaration, "", how, by=scope.group)


def level_text(scope: Scope, name: str) -> str | None:
    """A gauge now, by subject."""
    declaration = scope.engine.quantities.get(name)
    if declaration is None or declaration.kind != "gauge" or not scope.present(declaration):
        return None
    return scope.level(declaration, at_offset(0), by=scope.group, split=False)


def bucket_text(scope: Scope, name: str, how: Render) -> str | None:
    """Buckets of a histogram by subject and edge."""
    declaration = scope.engine.quantities.get(name)
    if declaration is None or declaration.kind != "histogram" or not scope.present(declaration, "_bucket"):
        return None
    return scope.summed(declaration, "_bucket", how, by=(*scope.group, "le"))


def mean_text(scope: Scope, name: str, how: Render) -> str | None:
    """Sum over count of a histogram, by subject."""
    declaration = scope.engine.quantities.get(name)
    if declaration is None or declaration.kind != "histogram" or not scope.present(declaration, "_sum"):
        return None
    total, count = (scope.summed(declaration, f"_{p}", how, by=scope.group) for p in ("sum", "count"))
    return f"{total}\n/\n({count} > 0)"


def rate_over(length: str) -> Render:
    """``rate()`` over a length as PromQL writes it: ``1h``, ``$__rate_interval``."""
    return lambda s: f"rate({s}[{length}])"


def increase_over_text(length: str) -> Render:
    return lambda s: f"increase({s}[{length}])"
