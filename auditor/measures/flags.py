"""Flags: stable words for what a window shows beside its numbers. The condition is the contract.

A flag is one function that returns a sentence when it is set. Those of a whole target (``not_one_process``,
``no_engine_metrics``) are set where they are found; ``blind_histogram`` by the gate.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from auditor.measures.readings.agreement import agree, extrapolation_error
from auditor.measures.readings.in_progress import kv_tokens_held, longest_prompt, prompts_in_progress
from auditor.measures.readings.prompt_work import (
    INFLATION_TOLERANCE,
    cache_is_off,
    demand,
    live_generated_tokens,
    lookups,
)
from auditor.measures.readings.registry import IMPOSSIBLE, READINGS
from auditor.measures.readings.requests import finished_count
from auditor.measures.readings.step_facts import several_front_ends
from auditor.measures.readings.steps import exceeds_budget
from auditor.measures.readings.time import impossible_time
from auditor.measures.roles import DECODE, PREFILL, node_roles
from auditor.measures.subject import Missing, Subject
from auditor.model import Counter, Gauge

FlagFunction = Callable[[Subject], str | None]
FLAGS: dict[str, FlagFunction] = {}

ELSEWHERE: Mapping[str, str] = {
    "not_one_process": "Start time alternates, or counters fall and rise again between scrapes: the address is a "
    "balancer. The target is refused; audit the replicas behind it.",
    "no_engine_metrics": "The page answered without one series of any known engine: statistics switched off, wrong "
    "port or process, or a renamed metric set.",
    "blind_histogram": "All mass of a gated percentile lies in one bucket: it cannot see a change. Gate the mean.",
}


def flag(function: FlagFunction) -> FlagFunction:
    FLAGS[function.__name__] = function
    return function


def flag_text(name: str) -> str:
    """What ``auditor explain`` says of a flag."""
    return ELSEWHERE.get(name) or inspect.cleandoc(FLAGS[name].__doc__ or "")


def find_flags(s: Subject) -> dict[str, str]:
    """All flags of a subject with the sentence behind each, in a fixed order."""
    out: dict[str, str] = {}
    for name, function in FLAGS.items():
        try:
            sentence = function(s)
        except (Missing, ArithmeticError):
            continue
        if sentence is not None:
            out[name] = sentence
    return out


@flag
def lifetime_only(s: Subject) -> str | None:
    """One scrape: shares and counts are since the engine's start; preemption, liveness and pool stay undecided."""
    return "one scrape: everything is since the engine's start" if s.window.kind == "lifetime" else None


@flag
def no_traffic(s: Subject) -> str | None:
    """No live or finished counter moved in the window."""
    if s.moved:
        return None
    return "no token moved in any line of the log" if s.of_log else "no counter moved in the window"


@flag
def too_few_requests(s: Subject) -> str | None:
    """Fewer finished requests than --min-requests."""
    done, _ = finished_count(s)
    if s.moved and done < s.options.min_requests:
        return f"{done:g} finished requests, fewer than {s.options.min_requests}"
    return None


@flag
def counter_reset(s: Subject) -> str | None:
    """The engine restarted inside the window: readings are partial."""
    return s.partial_reason if s.restarted else None


@flag
def cold_start(s: Subject) -> str | None:
    """The process started inside the window, or its counters start at 0: warm-up is part of the figures."""
    if s.window.kind == "lifetime":
        return None
    if s.restarted:
        return "the engine started inside the window"
    started = [p.started_at for p in s.parts if p.started_at is not None]
    if s.window.start is not None and any(t >= s.window.start for t in started):
        return "the engine started inside the window"
    totals = [q.at_start for p in s.parts for q in p.quantities.values() if isinstance(q, Counter)]
    if s.moved and totals and all(t == 0 for t in totals):
        return "all counters start at 0"
    return None


@flag
def old_and_new_names(s: Subject) -> str | None:
    """Two generations of a name side by side: harmless while they agree; counted once."""
    names = sorted({name for p in s.parts for name in p.doubles})
    if not names:
        return None
    conflict = next((text for p in s.parts for text in p.doubles.values() if text), "")
    return f"{', '.join(names)} under two names, counted once" + (f"; they disagree: {conflict}" if conflict else "")


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


@flag
def steps_merge_chunks(s: Subject) -> str | None:
    """A recorded step holds more tokens than the budget: chunks of a prompt were merged into one observation."""
    if exceeds_budget(s):
        return f"recorded steps exceed the budget of {s.setting('budget'):g}: chunks of a prompt land on one step"
    return None


@flag
def steps_per_front_end(s: Subject) -> str | None:
    """Several front ends each record every step."""
    return several_front_ends(s)


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


@flag
def aborts_not_exported(s: Subject) -> str | None:
    """Client disconnects leave no trace in this engine's counters."""
    if s.engine.disconnects_leave_no_trace:
        return "client disconnects are counted in no finish reason"
    return None


@flag
def unfinished_work(s: Subject) -> str | None:
    """Prompt tokens beyond what may be in progress belong to requests that never finished."""
    done, _ = finished_count(s)
    generated = s.increase("generation_tokens") if s.has("generation_tokens") else 0.0
    if done == 0 and (s.value("prompt_tokens") > 0 or generated > 0):
        return "tokens moved and nothing finished"
    rest = s.value("unfinished_prompt_tokens")
    _, end = prompts_in_progress(s, longest_prompt(s))
    running = s.gauge("running_requests").last or 0.0 if s.has("running_requests") else 0.0
    # A prompt is counted at its first token and stays unfinished while it decodes; what runs holds its KV.
    decoding = running * longest_prompt(s) if running else 0.0
    held = kv_tokens_held(s, end=True) if running else None
    if held is not None:
        decoding = min(decoding, held)
    if rest > max(end, decoding):
        return f"{rest:g} prompt tokens belong to requests that did not finish (disconnects, for instance)"
    return None


@flag
def finish_counts_disagree(s: Subject) -> str | None:
    """Finish reasons, end-to-end count and inference count differ."""
    counts = {"finish reasons": s.increase("finished_requests")}
    for name, words in (("e2e_seconds", "end-to-end times"), ("inference_seconds", "timed requests")):
        if s.has(name):
            counts[words] = s.histogram(name).count
    if len(counts) < 2:
        return None
    low, high = min(counts.values()), max(counts.values())
    if agree(low, high, max(high, 1), extrapolation_error(s)):
        return None
    return ", ".join(f"{value:g} {words}" for words, value in counts.items())


@flag
def impossible_share(s: Subject) -> str | None:
    """A sum above what contains it: inference above end-to-end time, or a share outside 0 to 1."""
    contradiction = impossible_time(s)
    if contradiction is not None:
        return contradiction
    for name, declared in READINGS.items():
        reading = s.read(name) if declared.is_share else None
        if reading is not None and reading.reason and ("cannot be" in reading.reason or IMPOSSIBLE in reading.reason):
            return f"{name}: {reading.reason}"
    return None


@flag
def probes_dominate(s: Subject) -> str | None:
    """More than half the requests asked for at most --short-cap tokens: probes, not answers."""
    reading = s.read("short_cap_share")
    least = reading.value if reading.value is not None else reading.low
    if least is not None and least > 0.5:
        return f"{least:.0%} of requests asked for at most {s.options.short_cap} tokens"
    return None


@flag
def scheduler_starvation(s: Subject) -> str | None:
    """Nothing finished, and fewer than one token per running request and second over at least 30 s."""
    length = s.window.seconds
    running = s.gauge("running_requests")
    if length is None or length < 30 or s.window.kind == "lifetime" or not running.first or not running.last:
        return None
    done, _ = finished_count(s)
    seats = min(running.first, running.last)
    generated = live_generated_tokens(s)
    stale = gauges_stale(s) is not None
    if done == 0 and generated < seats * length and not stale:
        return f"{generated:g} tokens in {length:.0f} s with at least {seats:g} requests running, and none finished"
    return None


@flag
def gauges_stale(s: Subject) -> str | None:
    """Gauges above 0 and equal at both ends while nothing moved: they describe no load."""
    if s.window.kind == "lifetime" or s.moved:
        return None
    told = next((w for p in s.parts if p.log is not None and (w := p.log.words.get("gauges_stale"))), None)
    if told is not None:
        return told
    still = []
    for name in ("running_requests", "waiting_requests", "kv_usage"):
        for p in s.parts:
            q = p.quantities.get(name)
            if isinstance(q, Gauge) and q.last and q.first == q.last:
                still.append(name)
    if still:
        return f"{', '.join(sorted(set(still)))} above 0 and unchanged while no token moved"
    return None


@flag
def kv_bound(s: Subject) -> str | None:
    """The KV pool limits: used at least 95 % with preemptions or a queue, or 5 % of requests preempted."""
    if s.window.kind == "lifetime" or gauges_stale(s) is not None:
        return None
    preempted = s.increase("preemptions") if s.has("preemptions") else 0.0
    done = 0.0 if s.of_log else finished_count(s)[0]
    if done > 0 and preempted >= 0.05 * done:
        return f"{preempted:g} preemptions for {done:g} finished requests"
    series = s.window.kind in ("series", "range")
    usage = s.read("kv_usage_peak" if series else "kv_usage_max").value
    waiting = s.gauge("waiting_requests") if s.has("waiting_requests") else None
    queued = (waiting.high if series else waiting.last) if waiting else 0.0
    if usage is not None and usage >= 0.95 and (preempted > 0 or (queued or 0) > 0):
        seen = f" and {preempted:g} preemptions" if s.has("preemptions") else ""
        return f"KV use {usage:.0%} with {queued or 0:g} waiting{seen}"
    return None


def _log_words(s: Subject, name: str) -> str | None:
    return next((w for p in s.parts if p.log is not None and (w := p.log.words.get(name))), None)


@flag
def log_only(s: Subject) -> str | None:
    """Read from a running log: rolling averages and gauges, no counters, so most readings have no value."""
    return _log_words(s, "log_only")


@flag
def rolling_hit_rate(s: Subject) -> str | None:
    """A log prints a prefix cache hit rate: rolling over recent requests, so it is no window's, and not used."""
    figures = [p.log.figures for p in s.parts if p.log is not None]
    printed = [f["hit_rate"] for f in figures if f.get("hit_rate") is not None]
    rate = printed[-1] if printed else s.window.facts.get("log_hit_rate")
    if not isinstance(rate, int | float) or rate <= 0:
        return None
    preempted = max((f.get("preemptions") or 0 for f in figures), default=0)
    if s.has("preemptions"):
        preempted = max(preempted, s.increase("preemptions"))
    settles = "prompt_tokens_by_source (local_cache_hit) or request_prefill_kv_computed_tokens of a page settles it"
    text = (
        f"the log prints a prefix cache hit rate of {100 * rate:.1f} %, over recent requests and not over this window: "
        "not used"
    )
    if preempted > 0:
        return (
            f"{text}. preemptions>0: {preempted:g} requests were preempted, and many releases count what a resumed "
            "request finds of its own as hits, so this is not reuse in the workload. "
            f"{settles}, or a window without preemptions"
        )
    return f"{text}. {settles}"


@flag
def prefill_first_scheduling(s: Subject) -> str | None:
    """Fewer than 5 % of an SGLang log's batches are decode while requests run: ready prefill batches go first."""
    return _log_words(s, "prefill_first_scheduling")


@flag
def partial_response(s: Subject) -> str | None:
    """The metrics server warned, or answered in part."""
    return s.window.partial_response or None
