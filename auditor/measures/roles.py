"""Nodes of a disaggregated pair: which role a page has, and how a pair becomes one service.

A prefill node and a decode node each count the same requests and prompts. Added up they would be counted twice, so of
a pair each quantity is taken from the node that did the work; what each node knows for its own half only is given up,
with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from auditor.measures.vocabulary import Engine
from auditor.model import Counter, Histogram, Info, Part, Quantity, Slice

PREFILL, DECODE = "prefill", "decode"
TRANSFERRED = 0.95
"""A node whose prompt tokens came by KV transfer to at least this share prefills nothing itself."""


def node_roles(parts: Iterable[Part], engine: Engine) -> dict[str, tuple[str, str]]:
    """Target -> (role, the sentence that says why), for targets that are one half of a pair."""
    by_target: dict[str, list[Part]] = {}
    for p in parts:
        by_target.setdefault(p.target, []).append(p)
    out: dict[str, tuple[str, str]] = {}
    for target, members in by_target.items():
        found = _labelled(members, engine) or _transferring(members) or _one_token_only(members)
        if found is not None:
            out[target] = found
    return out


def _labelled(parts: Sequence[Part], engine: Engine) -> tuple[str, str] | None:
    roles: Mapping[str, object] = engine.traits.get("roles", {})
    label = roles.get("label")
    values = {
        labels.get(str(label), "")
        for p in parts
        for q in [p.quantities.get("node_role")]
        if isinstance(q, Info)
        for labels in q.labels
    } - {""}
    for role in (PREFILL, DECODE):
        words = roles.get(role, ())
        if values and isinstance(words, list) and values <= set(words):
            where = "decode runs elsewhere" if role == PREFILL else "prefill runs elsewhere"
            return role, f'{label}="{sorted(values)[0]}" on the page: {where}'
    return None


def _transferring(parts: Sequence[Part]) -> tuple[str, str] | None:
    splits = [q.split for p in parts if isinstance(q := p.quantities.get("prompt_tokens_by_source"), Counter)]
    total = sum(sum(split.values()) for split in splits)
    external = sum(split.get("external_kv_transfer", 0.0) for split in splits)
    if total <= 0 or external < TRANSFERRED * total:
        return None
    return DECODE, f"{external / total:.0%} of prompt tokens came by KV transfer: their prefill is on another page"


def _one_token_only(parts: Sequence[Part]) -> tuple[str, str] | None:
    caps = [q for p in parts if isinstance(q := p.quantities.get("cap_tokens"), Histogram)]
    count = sum(h.count for h in caps)
    if count <= 0 or sum(h.sum for h in caps) != count or any(h.rebuilt_sum for h in caps):
        return None
    asked = sum(q.increase for p in parts if isinstance(q := p.quantities.get("external_query_tokens"), Counter))
    if asked > 0 or any("kv_transfer_seconds" in p.quantities for p in parts):
        return PREFILL, "every request asked for one token: decode runs elsewhere"
    return None


def join_pair(parts: Sequence[Part], engine: Engine) -> tuple[tuple[Part, ...], str | None]:
    """The parts of one service, no token counted twice, and what was joined in words; unchanged without a pair."""
    roles = node_roles(parts, engine)
    kinds = [role for role, _ in roles.values()]
    prefills, decodes = kinds.count(PREFILL), kinds.count(DECODE)
    if not prefills or not decodes:
        return tuple(parts), None
    pair: Mapping[str, Sequence[str]] = engine.traits.get("pair", {})
    elsewhere = {PREFILL: set(pair.get("from_decode", ())), DECODE: set(pair.get("from_prefill", ()))}
    own_half = set(pair.get("own_half", ()))
    reason = "a prefill and a decode node each know their own half of it; audit the nodes alone with --by target"

    def cut(p: Part) -> Part:
        if p.target not in roles:
            return p
        dropped = elsewhere[roles[p.target][0]] | own_half
        flaws = {name: reason for name in own_half if name in p.quantities}
        slices = tuple(Slice(s.start, s.end, _without(s.quantities, dropped), s.restarted) for s in p.slices)
        return replace(p, quantities=_without(p.quantities, dropped), slices=slices, flaws={**p.flaws, **flaws})

    words = f"{prefills} prefill and {decodes} decode node{'s' if prefills + decodes > 2 else ''} as one service"
    return tuple(cut(p) for p in parts), words


def _without(quantities: Mapping[str, Quantity], dropped: set[str]) -> dict[str, Quantity]:
    return {name: q for name, q in quantities.items() if name not in dropped}
