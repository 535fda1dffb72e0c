"""Speculative decoding: what the drafter proposed and what was kept."""

from __future__ import annotations

from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.subject import Subject

NO_DRAFT = "no draft step in the window"


@reading(unit="tokens per step", better="higher")
def tokens_per_draft_step(s: Subject) -> Found:
    """Tokens that one draft step yields: 1 + accepted / drafts. The figure to compare at any draft length."""
    drafts, accepted = s.increase("drafts"), s.increase("accepted_tokens")
    sources = ("accepted_tokens", "drafts")
    return Found(1 + ratio(accepted, drafts, NO_DRAFT, sources), count=drafts, sources=sources)


@reading(unit="ratio")
def draft_acceptance(s: Subject) -> Found:
    """Accepted over drafted tokens. It falls when more are drafted: never compare it at different lengths."""
    drafted, accepted = s.increase("drafted_tokens"), s.increase("accepted_tokens")
    sources = ("accepted_tokens", "drafted_tokens")
    caveat = "falls when more tokens are drafted: never compare it at different draft lengths"
    return Found(ratio(accepted, drafted, NO_DRAFT, sources), count=drafted, sources=sources, caveats=(caveat,))


@reading(unit="tokens per step")
def drafted_per_draft_step(s: Subject) -> Found:
    """Tokens drafted per draft step: drafted / drafts."""
    drafted, drafts = s.increase("drafted_tokens"), s.increase("drafts")
    sources = ("drafted_tokens", "drafts")
    return Found(ratio(drafted, drafts, NO_DRAFT, sources), count=drafts, sources=sources)


@reading(unit="ratio", better="higher")
def kept_share_of_verified(s: Subject) -> Found:
    """Verified positions that became tokens: tokens_per_draft_step / (1 + drafted_per_draft_step).

    The rest is the cost of speculation, which grows with the batch.
    """
    kept, drafted = s.value("tokens_per_draft_step"), s.value("drafted_per_draft_step")
    sources = ("accepted_tokens", "drafted_tokens", "drafts")
    return Found(kept / (1 + drafted), count=s.increase("drafts"), sources=sources)
