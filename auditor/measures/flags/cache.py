"""What the prefix cache's counters mean here."""

from __future__ import annotations

from auditor.measures.flags.registry import flag
from auditor.measures.readings.in_progress import longest_prompt, prompts_in_progress
from auditor.measures.readings.prompt_work import (
    INFLATION_TOLERANCE,
    cache_is_off,
    demand,
    lookups,
)
from auditor.measures.readings.requests import finished_count
from auditor.measures.subject import Subject


@flag
def parallel_sampling_inflates_counts_and_hits(s: Subject) -> str | None:
    """Mean n above 1: per-request series count sequences, and siblings hit each other's blocks."""
    if "parallel_samples" not in s.engine.quantities:
        return _more_sequences_than_requests(s)
    h = s.histogram("parallel_samples")
    if h.count > 0 and h.sum > h.count:
        return (
            f"{h.count:g} user requests asked for {h.sum:g} sequences (mean n {h.sum / h.count:.2f}): counts are per "
            "sequence, and hits include siblings of one request"
        )
    return None


def _more_sequences_than_requests(s: Subject) -> str | None:
    """More sequences ended than POST requests can have asked for one each."""
    done, _ = finished_count(s)
    at_start = 0.0 if s.from_zero else s.gauge("active_http_requests").first or 0.0
    requests = s.increase("received_requests") + at_start
    if done > max(1.02 * requests, requests + 1):
        return (
            f"{done:g} sequences ended for at most {requests:g} POST requests (n above 1, or lists of prompts): counts "
            "are per sequence, and hits include siblings of one request"
        )
    return None


@flag
def recompute_may_count_as_hits(s: Subject) -> str | None:
    """Preemptions in the window, and the hit share could come from look-ups only."""
    if s.has("prompt_tokens_by_source") or s.has("computed_prompt_length_tokens") or not s.has("prefix_hit_tokens"):
        return None
    count = s.increase("preemptions")
    return f"{count:g} preemptions: resumed requests hit their own blocks" if count > 0 else None


@flag
def queries_inflated(s: Subject) -> str | None:
    """Look-ups above 1.02 x (prompt tokens + prompts in progress at both ends): waiting requests count again."""
    found = lookups(s)
    prompt, _ = demand(s)
    start, end = prompts_in_progress(s, longest_prompt(s), by_queries=False)
    if prompt > 0 and found.queries > (1 + INFLATION_TOLERANCE) * (prompt + start + end):
        return f"{found.queries:g} tokens looked up for {prompt:g} prompt tokens: waiting requests are looked up again"
    return None


def _computed_equals_prompt(s: Subject) -> tuple[float, float] | None:
    """(computed, prompt tokens) where a count of computed tokens equals them."""
    if s.has("prompt_tokens_by_source"):
        computed, prompt = s.value("computed_prompt_tokens"), s.increase("prompt_tokens")
    elif s.has("computed_prompt_length_tokens"):
        computed, prompt = s.histogram("computed_prompt_length_tokens").sum, s.value("finished_prompt_tokens")
    else:
        return None
    return (computed, prompt) if prompt > 0 and computed == prompt else None


@flag
def lookups_contradict_computed(s: Subject) -> str | None:
    """Look-ups claim hits while computed tokens equal prompt tokens: the hits saved nothing."""
    hits, queries = s.increase("prefix_hit_tokens"), s.increase("prefix_query_tokens")
    equal = _computed_equals_prompt(s)
    if equal and hits > 0 and queries > 0:
        return f"look-ups claim {hits / queries:.1%} while all {equal[1]:g} prompt tokens were computed"
    return None


@flag
def cache_off(s: Subject) -> str | None:
    """Page or boot log says that prefix caching is off. No hit in itself proves nothing."""
    if cache_is_off(s):
        return f"prefix caching is off ({s.settings['prefix_caching'].source})"
    return None


def _no_hit(s: Subject) -> bool:
    reading = s.read("prefix_hit_share")
    return reading.value == 0


@flag
def nothing_shared(s: Subject) -> str | None:
    """Caching is on, at least --min-requests prompts are surely longer than a block, and not one hit."""
    setting = s.settings.get("prefix_caching")
    if setting is None or setting.value is not True or not _no_hit(s):
        return None
    block = s.value("block_size_tokens")
    lengths = s.buckets("prompt_length_tokens")
    low = 0.0
    longer = 0.0
    for edge, count in zip(lengths.edges, lengths.counts, strict=True):
        longer += count if low >= block else 0.0
        low = edge
    if longer >= s.options.min_requests:
        return f"caching is on, {longer:g} prompts are longer than a block of {block:g}, and none hit"
    return None


@flag
def below_block_floor(s: Subject) -> str | None:
    """At least --min-requests finished, no hits, and more than half the prompts are shorter than one block."""
    done, _ = finished_count(s)
    reading = s.read("below_block_share")
    least = reading.value if reading.value is not None else reading.low
    if done >= s.options.min_requests and least is not None and least > 0.5 and _no_hit(s) and not cache_is_off(s):
        at_least = "at least " if reading.value is None else ""
        return f"{at_least}{least:.0%} of prompts are shorter than one block of {s.value('block_size_tokens'):g} tokens"
    return None
