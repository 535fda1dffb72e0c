"""What prompts asked for and what of it was computed: the sources, best first, that the token readings rest on."""

from __future__ import annotations

from typing import NamedTuple

from auditor.measures.readings.registry import ratio
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
    s.refuse_flawed("prompt_tokens")
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


def of_lookups(s: Subject) -> Computed:
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
    return of_lookups(s)
