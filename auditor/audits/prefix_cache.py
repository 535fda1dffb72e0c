"""Does the prefix cache save prompt work?

Premise: the prefix cache saves prompt work: at least 5 % of prompt tokens are not computed.

Why it matters: a hit rate on a dashboard is taken for work saved. Look-ups can claim hits that saved nothing, and a
cache that is on may share nothing at all.

How it is measured: prefix_hit_share = 1 - computed / prompt tokens, from the engine's count of computed tokens where it
has one; look-ups only where they cover the prompt tokens exactly and nothing was preempted. Broken says which of
four it is: cache_off, nothing_shared, below_block_floor, lookups_contradict_computed.

When it misleads: with parallel sampling (n > 1) siblings of one request hit each other's blocks, which is no reuse
between requests. Preempted requests find their own blocks. Releases before about 0.28 look waiting requests up again
and again. A hit share is no speed-up: what it gains depends on what prefill costs everybody.

What to do: off: switch it on and measure. On and nothing shared: look at how prompts are built (a timestamp or an id at
the front defeats every cache). Prompts below one block: no cache can hit; look at the block size. Contradiction:
believe the computed tokens, not the look-ups.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, interval_words, judge, percent, shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "the prefix cache saves prompt work"
QUESTION = "Does the prefix cache save?"
NEEDS = ("prefix_hit_share", "computed_prompt_tokens", "prompt_tokens", "lookup_hit_share", "query_inflation")
LIMIT = 0.05
REASONS = ("cache_off", "lookups_contradict_computed", "below_block_floor", "nothing_shared")

_LENGTHS = {"buckets": {1000.0: 100}, "sum": 80_000.0, "count": 100}
EXAMPLES = (
    Example(
        "holds",
        "100 prompts of 800 tokens, half of the tokens computed.",
        {
            "prompt_tokens": 80_000.0,
            "prompt_tokens_by_source": {"local_compute": 40_000.0, "local_cache_hit": 40_000.0},
            "prompt_length_tokens": _LENGTHS,
            "finished_requests": {"stop": 100},
        },
    ),
    Example(
        "broken",
        "Every prompt token was computed while look-ups claim 3.7 % hits.",
        {
            "prompt_tokens": 80_000.0,
            "prompt_tokens_by_source": {"local_compute": 80_000.0, "local_cache_hit": 0.0},
            "prefix_query_tokens": 80_000.0,
            "prefix_hit_tokens": 2_960.0,
            "prompt_length_tokens": _LENGTHS,
            "finished_requests": {"stop": 100},
        },
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    share = readings["prefix_hit_share"]
    word: VerdictWord
    word, why = judge_by_requests(readings, options)
    reasons = [name for name in REASONS if readings.has_flag(name)]
    computed_all = (
        share.value == 0
        and not {"prefix_hit_tokens", "prefix_query_tokens"} & set(share.sources)
        and readings.value("prompt_tokens") != 0
    )
    if reasons or computed_all:
        word = "broken"
    if word == "holds" and readings.has_flag("parallel_sampling_inflates_counts_and_hits"):
        users, sequences = readings.value("user_requests"), readings.value("sequences")
        siblings = 1 - users / sequences if users is not None and sequences else 1.0
        if (share.low if share.low is not None else share.value or 0.0) - siblings < LIMIT:
            word = "undecided"
            why = f"up to {percent(siblings)} may be siblings of one request (n > 1), not reuse between requests"
    if word == "undecided" and readings.has_flag("decode_node"):
        word, why = "not_applicable", "a decode node: its prompts come by KV transfer"
    summary = _summary(readings, word, why, reasons)
    return verdict(
        "prefix-cache",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=summary,
        expected=f"at least {LIMIT:g}",
        found=found_words(share),
        uses=NEEDS,
        flags=(
            *REASONS,
            "queries_inflated",
            "parallel_sampling_inflates_counts_and_hits",
            "recompute_may_count_as_hits",
            "old_and_new_names",
            "too_few_requests",
            "lifetime_only",
        ),
        next=_next(readings, word, reasons),
    )


def judge_by_requests(readings: Readings, options: Options) -> tuple[VerdictWord, str]:
    """The share against the limit; the events behind it are requests, not its tokens."""
    share = readings["prefix_hit_share"]
    word, why = judge(share, options, at_least=LIMIT)
    done = readings.value("finished_requests")
    if done is None:
        done = readings.value("first_tokens")
    if share.value is not None and word in ("holds", "broken") and (done or 0) < options.min_requests:
        return "undecided", f"only {shown(done or 0)} requests behind it, {options.min_requests} needed"
    return word, why


def _summary(readings: Readings, word: VerdictWord, why: str, reasons: list[str]) -> str:
    share, computed, prompt = (readings[n] for n in ("prefix_hit_share", "computed_prompt_tokens", "prompt_tokens"))
    lookup = readings.get("lookup_hit_share")
    claim = lookup.value if lookup is not None else None
    if "cache_off" in reasons:
        return f"it is off ({readings.settings['prefix_caching'].source})"
    if share.value is None:
        text = why
        if claim is not None:
            text += f"; look-ups claim {percent(claim)}, not used"
        return text
    if "lookups_contradict_computed" in reasons:
        return f"0 tokens: computed = prompt. Look-ups claim {percent(claim)}; contradicted, not used"
    if share.value == 0:
        text = f"0 of {shown(prompt.value)} prompt tokens"
        if "below_block_floor" in reasons:
            return f"{text}: {readings.facts.get('below_block_floor', 'prompts are shorter than a block')}"
        if "nothing_shared" in reasons:
            return f"{text}: it is on, and no prompt shares a whole block with an earlier one"
        return text + (f"; {why}" if word == "undecided" else "")
    saved = (computed.count or 0) - (computed.value or 0)
    tokens = f"{shown(saved)} of {shown(computed.count)}"
    text = f"{percent(share.value)} of prompt tokens  {interval_words(share, of=tokens)}"
    if word not in ("holds", "broken"):
        text += f"; {why}"
    return text


def _next(readings: Readings, word: VerdictWord, reasons: list[str]) -> tuple[str, ...]:
    if "cache_off" in reasons:
        return ("switch prefix caching on for one replica and compare",)
    if "below_block_floor" in reasons:
        return (
            "no cache can hit prompts shorter than a block: look at the block size (boot log) before anything else",
        )
    if "lookups_contradict_computed" in reasons:
        return ("trust computed tokens, not the look-up rate; look for what differs at the front of the prompts",)
    if word == "broken":
        return ("caching is not the question while nothing is shared: look at how prompts begin (ids, timestamps)",)
    if word == "undecided" and readings["prefix_hit_share"].state in ("invalid", "absent", "not_exported"):
        return ("a release that exports prompt tokens by source settles it, or a window without preemptions",)
    if word == "undecided":
        return ("audit a longer window",)
    below = readings.get("below_block_share")
    if below is not None and below.low:
        block = readings.value("block_size_tokens")
        size = shown(block)
        return (
            f"{percent(below.low)} or more of the prompts are shorter than a block of {size} tokens and can never hit; "
            f"of a longer one at most its whole blocks can (floor(length / {size}) x {size})",
        )
    return ()
