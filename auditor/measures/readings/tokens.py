"""Tokens and the prefix cache: what was asked for, what was computed, what the look-ups claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from auditor.measures.histogram import count_at_most
from auditor.measures.intervals import token_share, wilson
from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.subject import Missing, Subject

NO_PROMPT = "no prompt token in the window"
# How far queries may be from prompt tokens and still be one look-up a token.
INFLATION_TOLERANCE = 0.02
BLOCKS_LOW, BLOCKS_HIGH = 0.9, 1.02


class Lookups(NamedTuple):
    """Look-ups of the prefix cache, in tokens."""

    queries: float
    hits: float
    external_hits: float
    in_blocks: bool


class Computed(NamedTuple):
    """Computed prompt tokens beside the prompt tokens of the same population."""

    computed: float
    prompt: float
    population: str
    sources: tuple[str, ...]


def demand(s: Subject) -> tuple[float, tuple[str, ...]]:
    """Prompt tokens of the window: the live counter, else those of finished requests."""
    if s.has("prompt_tokens"):
        return s.increase("prompt_tokens"), ("prompt_tokens",)
    if s.has("prompt_length_tokens") and not s.histogram("prompt_length_tokens").rebuilt_sum:
        return s.histogram("prompt_length_tokens").sum, ("prompt_length_tokens",)
    if s.has("computed_tokens"):
        # An engine that counts what it computed and what it reused, and not their sum.
        return s.increase("computed_tokens") + s.increase("cached_tokens"), ("computed_tokens", "cached_tokens")
    raise s.missing("prompt_tokens")


def live_prompt_tokens(s: Subject) -> tuple[float, tuple[str, ...]]:
    """Prompt tokens that were worked on in the window, finished or not.

    Raises:
        Missing: the engine adds prompt tokens only when a request ends.
    """
    if s.engine.is_live("prompt_tokens"):
        return s.increase("prompt_tokens"), ("prompt_tokens",)
    if s.engine.is_live("prompt_tokens_by_source"):
        return sum(s.counter("prompt_tokens_by_source").split.values()), ("prompt_tokens_by_source",)
    raise Missing("not_exported", f"{s.engine.title} adds prompt tokens when a request ends, not before")


def live_generated_tokens(s: Subject) -> float:
    """Tokens generated in the window, also those of requests that have not ended.

    Raises:
        Missing: the engine adds generated tokens only when a request ends.
    """
    if s.engine.is_live("generation_tokens"):
        return s.increase("generation_tokens")
    if s.engine.is_live("decoded_tokens"):
        return s.increase("decoded_tokens") + s.histogram("ttft_seconds").count
    raise Missing("not_exported", f"{s.engine.title} adds generated tokens when a request ends, not before")


def lookups(s: Subject) -> Lookups:
    """Queries and hits in tokens, converted where the counters are in blocks."""
    queries, hits = s.increase("prefix_query_tokens"), s.increase("prefix_hit_tokens")
    external = s.increase("external_hit_tokens") if s.has("external_hit_tokens") else 0.0
    if not _in_blocks(s, queries):
        return Lookups(queries, hits, external, False)
    block = s.setting("block_size")
    if block is None:
        raise Missing(
            "invalid",
            "look-ups are counted in blocks and the page does not say how large a block is; give --block-size N",
            sources=("prefix_query_tokens",),
        )
    return Lookups(queries * block, hits * block, external, True)


def _in_blocks(s: Subject, queries: float) -> bool:
    units = {p.units.get("prefix_query_tokens") for p in s.parts if "prefix_query_tokens" in p.units}
    if "blocks" in units:
        return True
    if units != {"unknown"}:
        return False
    block = s.setting("block_size")
    try:
        prompt, _ = demand(s)
    except Missing:
        return False
    if block is None or prompt <= 0 or abs(queries / prompt - 1) <= INFLATION_TOLERANCE:
        return False
    return BLOCKS_LOW <= queries * block / prompt <= BLOCKS_HIGH


def cache_is_off(s: Subject) -> bool:
    """Page or boot log says that prefix caching is off, on every engine."""
    setting = s.settings.get("prefix_caching")
    return setting is not None and setting.value is False


def _by_source(s: Subject) -> Computed:
    split = s.counter("prompt_tokens_by_source").split
    sources: tuple[str, ...] = ("prompt_tokens_by_source",)
    computed = split.get("local_compute", 0.0)
    if s.has("recomputed_tokens"):
        computed -= s.increase("recomputed_tokens")
        sources += ("recomputed_tokens",)
    if s.has("prompt_tokens") and s.engine.is_live("prompt_tokens"):
        prompt = s.increase("prompt_tokens")
        sources += ("prompt_tokens",)
    else:
        prompt = sum(split.values())
    return Computed(computed, prompt, "live", sources)


def external_kv_share(s: Subject) -> float | None:
    """Share of prompt tokens whose KV was computed on another node; None when no prompt token moved.

    Raises:
        Missing: the page has no prompt tokens by source.
    """
    split = s.counter("prompt_tokens_by_source").split
    total = sum(split.values())
    return split.get("external_kv_transfer", 0.0) / total if total > 0 else None


def _scheduled(s: Subject) -> Computed:
    split = s.counter("scheduled_prompt_tokens").split
    return Computed(split.get("local_compute", 0.0), sum(split.values()), "live", ("scheduled_prompt_tokens",))


def _nothing_preempted(s: Subject) -> bool:
    return s.has("preemptions") and s.increase("preemptions") == 0


def _counted(s: Subject) -> Computed:
    """Prompt and cached tokens, or computed and cached ones, counted at the same moment."""
    prompt, sources = demand(s)
    cached = s.increase("cached_tokens")
    population = "live" if s.engine.is_live("cached_tokens") else "finished requests"
    return Computed(prompt - cached, prompt, population, (*dict.fromkeys((*sources, "cached_tokens")),))


def _can_be_counted(s: Subject) -> bool:
    if not s.has("cached_tokens"):
        return False
    whole = "prompt_tokens" if s.has("prompt_tokens") else "computed_tokens"
    return s.has(whole) and s.engine.is_live(whole) == s.engine.is_live("cached_tokens")


def _of_finished(s: Subject) -> Computed:
    computed, prompt = s.histogram("computed_prompt_length_tokens"), s.histogram("prompt_length_tokens")
    sources = ("computed_prompt_length_tokens", "prompt_length_tokens")
    if computed.rebuilt_sum or prompt.rebuilt_sum:
        raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=sources)
    return Computed(computed.sum, prompt.sum, "finished requests", sources)


def _of_lookups(s: Subject) -> Computed:
    found = lookups(s)
    prompt, sources = demand(s)
    sources = ("prefix_hit_tokens", "prefix_query_tokens", *sources)
    if prompt <= 0 and found.queries <= 0:
        raise Missing("no_traffic", NO_PROMPT, sources=sources)
    inflation = ratio(found.queries, prompt, NO_PROMPT, sources)
    low = BLOCKS_LOW if found.in_blocks else 1 - INFLATION_TOLERANCE
    if not low <= inflation <= 1 + INFLATION_TOLERANCE:
        raise Missing(
            "invalid",
            f"look-ups cover {inflation:.3g} times the prompt tokens, so hits over look-ups is no share of the work; "
            "prompt tokens by source (vLLM from 0.16) would settle it",
            sources=sources,
        )
    if s.has("preemptions") and s.increase("preemptions") > 0:
        raise Missing(
            "invalid",
            f"{s.increase('preemptions'):g} preemptions in the window: preempted requests find their own blocks "
            "again and count as hits; prompt tokens by source, or a window without preemptions, would settle it",
            sources=(*sources, "preemptions"),
        )
    # Hits are a share of what was looked up; laid on the prompt tokens, which blocks only approximate.
    saved = (found.hits + found.external_hits) / found.queries
    return Computed(prompt * (1 - saved), prompt, "look-ups", sources)


def computed_tokens(s: Subject) -> Computed:
    """Computed prompt tokens by the best source there is.

    (1) by source, live; prefill batches, live, where nothing was preempted; (2) KV computed by finished requests;
    prompt and cached tokens counted at one moment; (3) prompt minus hits, where look-ups can be believed; a cache that
    is off computes everything.

    Raises:
        Missing: from the last source tried.
    """
    if s.has("prompt_tokens_by_source"):
        return _by_source(s)
    if s.has("scheduled_prompt_tokens") and _nothing_preempted(s):
        return _scheduled(s)
    if s.has("computed_prompt_length_tokens") and s.has("prompt_length_tokens"):
        return _of_finished(s)
    if _can_be_counted(s):
        return _counted(s)
    if s.has("scheduled_prompt_tokens"):
        raise Missing(
            "invalid",
            "this page cannot tell whether requests were preempted: prompts computed again would count as hits",
            sources=("scheduled_prompt_tokens",),
        )
    if cache_is_off(s):
        prompt, sources = demand(s)
        return Computed(prompt, prompt, "the cache is off", (*sources, "cache_config"))
    if "prefix_query_tokens" not in s.engine.quantities and "cached_tokens" in s.engine.quantities:
        raise s.missing("cached_tokens")
    return _of_lookups(s)


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
    c = _of_lookups(s)
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
