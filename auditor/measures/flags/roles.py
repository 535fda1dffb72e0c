"""Half of a disaggregated pair."""

from __future__ import annotations

from auditor.measures.flags.registry import flag
from auditor.measures.roles import DECODE, PREFILL, node_roles
from auditor.measures.subject import Subject


@flag
def decode_node(s: Subject) -> str | None:
    """A decode node of a disaggregated pair: it says so, or KV transfer makes up at least 95 % of prompt tokens."""
    return _sole_role(s, DECODE)


def _sole_role(s: Subject, role: str) -> str | None:
    """Why every page of the subject has this role; None where one has another."""
    found = node_roles(s.parts, s.engine)
    if {r for r, _ in found.values()} != {role} or {p.target for p in s.parts} != set(found):
        return None
    return next(iter(found.values()))[1]


@flag
def prefill_node(s: Subject) -> str | None:
    """A prefill node: it says so, or all requests are capped at one token and a KV connector is on the page."""
    return _sole_role(s, PREFILL)
