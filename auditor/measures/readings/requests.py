"""Requests: how many finished and how, what never finished, caps and parallel sampling."""

from __future__ import annotations

import math

from auditor.measures.histogram import count_at_most, iter_buckets
from auditor.measures.intervals import wilson
from auditor.measures.readings.prompt_work import live_prompt_tokens
from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram

NOTHING = "no request finished in the window"
DISCONNECTS = "client disconnects are in no reason and no histogram"


def finished_count(s: Subject) -> tuple[float, str]:
    """Finished requests, and the quantity that says so."""
    if s.has("finished_requests"):
        return s.increase("finished_requests"), "finished_requests"
    for name in (
        "inference_seconds",
        "e2e_seconds",
        "prompt_length_tokens",
        "output_length_tokens",
        "prefill_seconds",
    ):
        if s.has(name):
            return s.histogram(name).count, name
    raise s.missing("finished_requests")


def _reasons(s: Subject) -> dict[str, float]:
    """Finished requests by reason; a histogram's count cannot stand in for them."""
    return dict(s.counter("finished_requests").split)


def _reason_count(s: Subject, reason: str) -> float:
    reasons = _reasons(s)
    if not reasons or set(reasons) == {""}:
        hint = s.engine.holes.get("finish_reasons", "the page counts finished requests without their reasons")
        raise Missing("not_exported", hint, sources=("finished_requests",))
    # Releases that create all reasons at start leave out those they do not know; others create one on first use.
    if reason not in reasons and reason == "error" and "abort" in reasons and not s.sparse:
        raise Missing("not_exported", "this release counts no requests that ended in an error")
    return reasons.get(reason, 0.0)


@reading(unit="requests")
def finished_requests(s: Subject) -> Found:
    """Requests (sequences when n > 1) that ended in the window, all reasons.

    Without finish reasons, the count of a per-request histogram.
    """
    value, source = finished_count(s)
    caveats = (DISCONNECTS,) if s.engine.disconnects_leave_no_trace else ()
    return Found(value, count=value, sources=(source,), caveats=caveats)


def _reason_share(s: Subject, reason: str) -> Found:
    count = _reason_count(s, reason)
    rest = s.increase("finished_requests") - _reasons(s).get("abort", 0.0)
    sources = ("finished_requests",)
    value = ratio(count, rest, NOTHING, sources)
    low, high = wilson(count, rest) or (None, None)
    return Found(value, low, high, rest, sources, extra={"events": count})


@reading(unit="ratio", better="lower")
def length_share(s: Subject) -> Found:
    """Answers cut off by their token limit: length / (finished - abort)."""
    return _reason_share(s, "length")


@reading(unit="ratio")
def stop_share(s: Subject) -> Found:
    """Answers that ended by themselves: stop / (finished - abort)."""
    return _reason_share(s, "stop")


@reading(unit="ratio", better="lower")
def error_share(s: Subject) -> Found:
    """Requests that ended in an engine error: error / (finished - abort)."""
    return _reason_share(s, "error")


@reading(unit="ratio", better="lower")
def abort_share(s: Subject) -> Found:
    """Requests that the engine aborted: abort / finished. Client disconnects are not in it."""
    count = _reason_count(s, "abort")
    total = s.increase("finished_requests")
    value = ratio(count, total, NOTHING, ("finished_requests",))
    low, high = wilson(count, total) or (None, None)
    caveats = (DISCONNECTS,) if s.engine.disconnects_leave_no_trace else ()
    return Found(value, low, high, total, ("finished_requests",), caveats)


@reading(unit="requests")
def aborted_requests(s: Subject) -> Found:
    """Requests that were aborted, as the engine counts them: its own counter, else the finish reason.

    Where the engine has a counter of its own, some of these requests never started and are in no other count.
    """
    if "aborted_requests" in s.engine.quantities:
        count = s.increase("aborted_requests")
        return Found(count, count=count, sources=("aborted_requests",))
    count = _reason_count(s, "abort")
    caveats = (DISCONNECTS,) if s.engine.disconnects_leave_no_trace else ()
    return Found(count, count=count, sources=("finished_requests",), caveats=caveats)


@reading(unit="responses", better="lower")
def http_error_responses(s: Subject) -> Found:
    """Answers to POST requests with a status of 400 or more: prompts that are too long end here and nowhere else."""
    split = s.counter("http_responses").split
    count = math.fsum(n for status, n in split.items() if status.isdigit() and int(status) >= 400)
    return Found(count, count=math.fsum(split.values()), sources=("http_responses",))


@reading(unit="requests")
def first_tokens(s: Subject) -> Found:
    """First tokens given in the window: count of the time-to-first-token histogram (live).

    Where that is not on the page, finished requests stand in.
    """
    s.refuse_flawed("ttft_seconds")
    if s.has("ttft_seconds"):
        count = s.histogram("ttft_seconds").count
        return Found(count, count=count, sources=("ttft_seconds",))
    count, source = finished_count(s)
    return Found(count, count=count, sources=(source,), caveats=("finished requests stand in for first tokens",))


@reading(unit="requests")
def unmatched_first_tokens(s: Subject) -> Found:
    """First tokens minus finished requests, net: requests running at the start count negative."""
    first = s.histogram("ttft_seconds").count
    done, source = finished_count(s)
    return Found(first - done, count=first, sources=("ttft_seconds", source))


@reading(unit="ratio")
def unmatched_first_token_share(s: Subject) -> Found:
    """Unmatched first tokens over first tokens. May be negative."""
    first = s.histogram("ttft_seconds").count
    done, source = finished_count(s)
    sources = ("ttft_seconds", source)
    return Found(ratio(first - done, first, "no first token in the window", sources), count=first, sources=sources)


@reading(unit="requests")
def user_requests(s: Subject) -> Found:
    """Requests as the user sent them: count of the parameter-n histogram, once whatever n is."""
    if "parallel_samples" not in s.engine.quantities and s.has("received_requests"):
        count = s.increase("received_requests")
        caveats = ("POST requests of any kind, as they came in",)
        return Found(count, count=count, sources=("received_requests",), caveats=caveats)
    count = s.histogram("parallel_samples").count
    return Found(count, count=count, sources=("parallel_samples",))


@reading(unit="sequences")
def sequences(s: Subject) -> Found:
    """Generated sequences that finished: what per-request series count when n > 1."""
    value, source = finished_count(s)
    return Found(value, count=value, sources=(source,))


@reading(unit="sequences per request")
def mean_n(s: Subject) -> Found:
    """Mean number of sequences a user request asked for: sum over count of the parameter-n histogram."""
    h = s.histogram("parallel_samples")
    return Found(ratio(h.sum, h.count, NOTHING, ("parallel_samples",)), count=h.count, sources=("parallel_samples",))


def _finished_sum(s: Subject, name: str) -> Found:
    h = s.histogram(name)
    if h.rebuilt_sum:
        raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=(name,))
    return Found(h.sum, count=h.count, sources=(name,))


@reading(unit="tokens")
def finished_prompt_tokens(s: Subject) -> Found:
    """Prompt tokens of finished requests: sum of the prompt-length histogram."""
    return _finished_sum(s, "prompt_length_tokens")


@reading(unit="tokens")
def finished_generation_tokens(s: Subject) -> Found:
    """Generated tokens of finished requests: sum of the output-length histogram."""
    return _finished_sum(s, "output_length_tokens")


@reading(unit="tokens")
def unfinished_prompt_tokens(s: Subject) -> Found:
    """Prompt tokens minus those of finished requests, net.

    Negative when requests that began earlier end in the window; steady series swing between -0.11 and +0.13 of
    the prompt tokens.
    """
    prompt, sources = live_prompt_tokens(s)
    return Found(prompt - s.value("finished_prompt_tokens"), count=prompt, sources=(*sources, "prompt_length_tokens"))


@reading(unit="ratio")
def unfinished_prompt_share(s: Subject) -> Found:
    """Unfinished prompt tokens over prompt tokens, net."""
    prompt, live = live_prompt_tokens(s)
    sources = (*live, "prompt_length_tokens")
    rest = prompt - s.value("finished_prompt_tokens")
    return Found(ratio(rest, prompt, "no prompt token in the window", sources), count=prompt, sources=sources)


@reading(unit="ratio")
def short_cap_share(s: Subject) -> Found:
    """Requests that asked for at most --short-cap tokens (50): probes and classifiers, not answers.

    Exact at a bucket edge, else bounded by the edges around it.
    """
    caps = s.buckets("cap_tokens")
    if caps.count <= 0:
        raise Missing("no_traffic", NOTHING, sources=("cap_tokens",))
    low, high = count_at_most(caps, s.options.short_cap)
    if low == high:
        a, b = wilson(low, caps.count) or (None, None)
        return Found(low / caps.count, a, b, caps.count, ("cap_tokens",))
    reason = f"{s.options.short_cap} is no bucket edge"
    return Found(None, low / caps.count, high / caps.count, caps.count, ("cap_tokens",), reason=reason)


@reading(unit="ratio", better="lower")
def length_share_large_cap(s: Subject) -> Found:
    """Answers cut off by length among requests that asked for more than --short-cap tokens.

    The page does not say which requests were cut, so: at least (length - short) / large, at most
    min(length, requests that can have reached their cap) / large. A value where both agree.
    """
    caps = s.buckets("cap_tokens")
    length = _reason_count(s, "length")
    sources = ("finished_requests", "cap_tokens", "output_length_tokens")
    short_low, short_high = count_at_most(caps, s.options.short_cap)
    large_most, large_least = caps.count - short_low, caps.count - short_high
    if large_most <= 0:
        raise Missing("no_traffic", f"no request asked for more than {s.options.short_cap} tokens", sources=sources)
    reached = length
    if s.has("output_length_tokens"):
        output = s.histogram("output_length_tokens")
        if output.edges:
            reached = min(length, _may_have_reached_cap(caps, output, s.options.short_cap))
    # Requests without a cap on the page may be among those cut off; the share of the rest falls as short ones rise.
    uncapped = max(0.0, s.increase("finished_requests") - caps.count)
    low = max(0.0, length - uncapped - short_high) / large_least if large_least > 0 else 0.0
    high = min(1.0, reached / large_least) if large_least > 0 else 1.0
    low = min(low, high)
    if math.isclose(low, high, abs_tol=1e-12):
        a, b = wilson(low * large_most, large_most) or (None, None)
        return Found(low, a, b, large_most, sources)
    reason = "the page does not say which requests were cut off"
    return Found(None, low, high, large_most, sources, reason=reason)


def _may_have_reached_cap(caps: Histogram, output: Histogram, short_cap: float) -> float:
    """Most requests with a cap above ``short_cap`` that can have generated as much as their cap.

    Caps are matched from the largest down with outputs at least as long as the cap's lower edge.
    """
    matched = 0.0
    for bucket in reversed(list(iter_buckets(caps))):
        if bucket.high <= short_cap:
            break
        edge = max(bucket.low, short_cap if bucket.low < short_cap else bucket.low)
        long_enough = output.count - count_at_most(output, edge)[0]
        matched = min(matched + bucket.count, long_enough)
    return matched
