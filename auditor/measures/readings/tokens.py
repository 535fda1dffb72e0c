"""Tokens and the prefix cache: what was asked for, what was computed, what the look-ups claim."""

from __future__ import annotations

from collections.abc import Callable

from auditor.measures.histogram import count_at_most
from auditor.measures.intervals import token_share, wilson
from auditor.measures.readings.prompt_work import (
    INFLATION_TOLERANCE,
    NO_PROMPT,
    computed_tokens,
    demand,
    live_generated_tokens,
    lookups,
    of_lookups,
)
from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.subject import Missing, Subject


@reading(unit="tokens")
def prompt_tokens(s: Subject) -> Found:
    """Prompt tokens in the window, cached ones too, also of requests that never finish (live counter).

    Counted once per sequence when n > 1.
    """
    value, sources = demand(s)
    return Found(value, count=value, sources=sources)


@reading(unit="tokens", better="higher")
def generation_tokens(s: Subject) -> Found:
    """Generated tokens in the window (live counter)."""
    s.refuse_flawed("generation_tokens")
    if s.has("generation_tokens"):
        value = s.increase("generation_tokens")
        return Found(value, count=value, sources=("generation_tokens",))
    if s.has("output_length_tokens") and not s.histogram("output_length_tokens").rebuilt_sum:
        value = s.histogram("output_length_tokens").sum
        return Found(value, count=value, sources=("output_length_tokens",))
    raise s.missing("generation_tokens")


@reading(unit="tokens")
def computed_prompt_tokens(s: Subject) -> Found:
    """Prompt tokens whose KV was really computed, by the best source there is (named in ``from``)."""
    c = computed_tokens(s)
    return Found(c.computed, count=c.prompt, sources=c.sources, caveats=(f"population: {c.population}",))


@reading(unit="tokens")
def cached_prompt_tokens(s: Subject) -> Found:
    """Prompt tokens that were not computed: prompt minus computed, of one population."""
    c = computed_tokens(s)
    return Found(c.prompt - c.computed, count=c.prompt, sources=c.sources, caveats=(f"population: {c.population}",))


@reading(unit="ratio", better="higher")
def prefix_hit_share(s: Subject) -> Found:
    """Share of prompt tokens that the cache saved from being computed.

    Best source there is: 1 - computed by source / prompt tokens (live); else 1 - KV computed / prompt tokens of
    finished requests; else hits over look-ups, only where look-ups cover the prompt tokens within 2 % (counters in
    blocks: 0.9 to 1.02) and nothing was preempted. Anything else is invalid, never a guess.
    """
    c = computed_tokens(s)
    value = ratio(c.prompt - c.computed, c.prompt, NO_PROMPT, c.sources)
    if not -INFLATION_TOLERANCE <= value <= 1 + INFLATION_TOLERANCE:
        raise Missing(
            "invalid",
            f"{c.computed:g} computed of {c.prompt:g} prompt tokens cannot be: two populations",
            sources=c.sources,
        )
    value = min(1.0, max(0.0, value))
    interval = None
    if s.has("prompt_length_tokens"):
        interval = token_share(value, s.histogram("prompt_length_tokens"))
    low, high = interval if interval is not None else (None, None)
    return Found(value, low, high, c.prompt, c.sources, (f"population: {c.population}",))


@reading(unit="ratio")
def lookup_hit_share(s: Subject) -> Found:
    """Hits over queries of the prefix cache: what the engine says, no verdict rests on it."""
    queries, hits = s.increase("prefix_query_tokens"), s.increase("prefix_hit_tokens")
    sources = ("prefix_hit_tokens", "prefix_query_tokens")
    value = ratio(hits, queries, "nothing was looked up in the window", sources)
    return Found(value, count=queries, sources=sources, caveats=("what the engine's look-ups claim, shown as such",))


@reading(unit="ratio")
def query_inflation(s: Subject) -> Found:
    """Looked-up tokens over prompt tokens: 1 where each prompt is looked up once."""
    found = lookups(s)
    if not (s.has("prompt_tokens") or s.has("prompt_length_tokens")):
        raise Missing("absent", "neither prompt tokens nor prompt lengths are on the page")
    prompt, sources = demand(s)
    sources = ("prefix_query_tokens", *sources)
    return Found(ratio(found.queries, prompt, NO_PROMPT, sources), count=prompt, sources=sources)


def _tier_share(s: Subject, tier: str, fallback: Callable[[Subject], Found] | None) -> Found:
    if s.has("cached_tokens_by_source"):
        prompt, sources = demand(s)
        split = s.counter("cached_tokens_by_source").split
        if set(split) == {""}:
            raise Missing("not_exported", "this release counts cached tokens without their tier")
        hits = split.get(tier, 0.0)
        sources = ("cached_tokens_by_source", *sources)
        return Found(ratio(hits, prompt, NO_PROMPT, sources), count=prompt, sources=sources)
    if fallback is not None:
        return fallback(s)
    raise s.missing("cached_tokens_by_source")


def _local_hits(s: Subject) -> Found:
    if s.has("prompt_tokens_by_source"):
        prompt, sources = demand(s)
        hits = s.counter("prompt_tokens_by_source").split.get("local_cache_hit", 0.0)
        sources = ("prompt_tokens_by_source", *sources)
        return Found(ratio(hits, prompt, NO_PROMPT, sources), count=prompt, sources=sources)
    c = of_lookups(s)
    found = lookups(s)
    return Found(found.hits / found.queries, count=c.prompt, sources=c.sources)


@reading(unit="ratio")
def device_hit_share(s: Subject) -> Found:
    """Prompt tokens served from the accelerator's own prefix cache, over prompt tokens."""
    return _tier_share(s, "device", _local_hits)


@reading(unit="ratio")
def host_hit_share(s: Subject) -> Found:
    """Prompt tokens served from host memory, over prompt tokens."""
    return _tier_share(s, "host", None)


@reading(unit="ratio")
def external_hit_share(s: Subject) -> Found:
    """Prompt tokens found by the KV connector, over what the local tiers left. Never added to a local share.

    Before December 2025 the connector's queries counted the whole prompt, so the smaller of its queries and of
    what the local cache left is the base.
    """
    hits, asked = s.increase("external_hit_tokens"), s.increase("external_query_tokens")
    sources: tuple[str, ...] = ("external_hit_tokens", "external_query_tokens")
    left = asked
    if s.has("prefix_query_tokens") and s.has("prefix_hit_tokens"):
        found = lookups(s)
        left = min(asked, found.queries - found.hits)
        sources += ("prefix_query_tokens", "prefix_hit_tokens")
    return Found(ratio(hits, left, "no KV connector was asked in the window", sources), count=left, sources=sources)


@reading(unit="tokens")
def block_size_tokens(s: Subject) -> Found:
    """Granularity of a prefix hit: one block. An option or a boot log wins over the page's label."""
    setting = s.settings.get("block_size")
    if setting is None or not isinstance(setting.value, int | float):
        if s.has("cache_config"):
            raise Missing("absent", "the cache configuration names no block size; give --block-size N")
        raise s.missing("cache_config")
    caveats = [f"from {setting.source}"]
    if setting.source == "page" and s.has("cache_config"):
        caveats.append("wrong for hybrid models, whose resolved block is in the boot log only")
    source = "cache_config" if s.has("cache_config") else "page_size_tokens"
    return Found(
        float(setting.value),
        sources=(source,) if setting.source == "page" else (),
        caveats=tuple(caveats),
    )


@reading(unit="ratio")
def below_block_share(s: Subject) -> Found:
    """Requests whose prompt is shorter than one block, so that no hit is possible however often it repeats."""
    block = s.value("block_size_tokens")
    lengths = s.buckets("prompt_length_tokens")
    if lengths.count <= 0:
        raise Missing("no_traffic", "no request finished in the window", sources=("prompt_length_tokens",))
    low, high = count_at_most(lengths, block - 1)
    sources = ("prompt_length_tokens",)
    if low == high:
        a, b = wilson(low, lengths.count) or (None, None)
        return Found(low / lengths.count, a, b, lengths.count, sources)
    return Found(
        None,
        low / lengths.count,
        high / lengths.count,
        lengths.count,
        sources,
        reason=f"a block of {block:g} tokens lies between bucket edges",
    )


@reading(unit="tokens per token")
def prompt_per_generated_token(s: Subject) -> Found:
    """Prompt tokens over generated tokens: the demand. No share of time."""
    prompt, sources = demand(s)
    if sources != ("prompt_length_tokens",):
        generated, names = s.increase("generation_tokens"), ("generation_tokens",)
    else:
        generated, names = s.histogram("output_length_tokens").sum, ("output_length_tokens",)
    sources = (*sources, *names)
    return Found(ratio(prompt, generated, "no token was generated", sources), count=generated, sources=sources)


@reading(unit="tokens per token")
def computed_per_generated_token(s: Subject) -> Found:
    """Computed prompt tokens over generated tokens of the same population: the real work. No share of time."""
    c = computed_tokens(s)
    names: tuple[str, ...]
    if c.population == "finished requests":
        generated, names = s.value("finished_generation_tokens"), ("output_length_tokens",)
    elif s.engine.is_live("generation_tokens"):
        generated, names = s.increase("generation_tokens"), ("generation_tokens",)
    else:
        generated, names = live_generated_tokens(s), ("decoded_tokens", "ttft_seconds")
    sources = (*c.sources, *names)
    return Found(ratio(c.computed, generated, "no token was generated", sources), count=generated, sources=sources)
