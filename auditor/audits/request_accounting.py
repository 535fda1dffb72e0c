"""Are all requests counted?

Premise: the finished requests are all the requests.

Why it matters: every share of time, length or cut answers speaks of finished requests only. Clients that hang up
leave no trace in vLLM's finish reasons, and they are rarely the typical ones: long answers are abandoned first.

How it is measured: finish reasons, end-to-end times and inference times count the same requests within 2 % (or one
request); and first tokens without a finished request are at most what runs at both ends of the window, plus 2 % of
the first tokens. A request that failed or was aborted inside the engine may end without a first token: that is
accounted.

When it misleads: a client that hangs up before its first token is in no series at all. The difference is net:
requests that began before the window and end in it hide others that never ended.

What to do: look for client timeouts, load-balancer timeouts and retries; ask the clients' side how many requests it
sent.
"""

from __future__ import annotations

from auditor.audits.judging import percent, shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "the finished requests are all the requests"
QUESTION = "Are all requests counted?"
NEEDS = (
    "finished_requests",
    "e2e_seconds",
    "inference_time_seconds",
    "first_tokens",
    "unmatched_first_tokens",
    "running_requests",
)
LIMIT = 0.02

EXAMPLES = (
    Example(
        "holds",
        "405 finish reasons, 401 timed requests (1 % apart), and 6 first tokens of requests that still run.",
        {
            "finished_requests": {"stop": 125, "length": 280},
            "e2e_seconds": {"buckets": {20.0: 405}, "sum": 5000.0, "count": 405},
            "inference_seconds": {"buckets": {20.0: 401}, "sum": 4800.0, "count": 401},
            "ttft_seconds": {"buckets": {1.0: 411}, "sum": 200.0, "count": 411},
            "running_requests": (0.0, 6.0),
        },
    ),
    Example(
        "broken",
        "60 first tokens, 45 finished requests, nothing running: 15 clients hung up.",
        {
            "finished_requests": {"stop": 45, "abort": 0},
            "e2e_seconds": {"buckets": {20.0: 45}, "sum": 300.0, "count": 45},
            "inference_seconds": {"buckets": {20.0: 45}, "sum": 290.0, "count": 45},
            "ttft_seconds": {"buckets": {1.0: 60}, "sum": 20.0, "count": 60},
            "running_requests": (0.0, 0.0),
        },
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    counts = _counts(readings)
    differ = _counts_differ(counts)
    excess, allowed = _unmatched(readings)
    events = max(counts.values(), default=0.0)
    lost = _lost_tokens(readings) if allowed is None else None
    word: VerdictWord = "undecided"
    if differ or lost is not None or (excess is not None and allowed is not None and excess > allowed):
        word = "broken"
    elif events >= options.min_requests and (len(counts) > 1 or allowed is not None):
        word = "holds"
    return verdict(
        "request-accounting",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=lost or _summary(readings, counts, differ, excess, allowed, options),
        expected="counts within 2 %; unmatched first tokens within what runs at both ends plus 2 %",
        found=_found(counts, excess, allowed),
        uses=NEEDS,
        flags=("finish_counts_disagree", "unfinished_work", "aborts_not_exported", "too_few_requests", "no_traffic",
               "lifetime_only", "counter_reset", "parallel_sampling_inflates_counts_and_hits"),
        next=_next(word),
    )  # fmt: skip


def _counts(readings: Readings) -> dict[str, float]:
    """How many requests each series of finished requests counts, by what they are called in a sentence."""
    out: dict[str, float] = {}
    done = readings["finished_requests"]
    if done.value is not None:
        by_reason = "finished_requests" in done.sources and readings["length_share"].state != "not_exported"
        out["finish reasons" if by_reason else "finished requests"] = done.value
    for name, words in (("e2e_seconds", "end-to-end times"), ("inference_time_seconds", "timed requests")):
        count = readings[name].count
        if count is not None:
            out[words] = count
    return out


def _counts_differ(counts: dict[str, float]) -> bool:
    if len(counts) < 2:
        return False
    least, most = min(counts.values()), max(counts.values())
    return most - least > max(1.0, LIMIT * most)


def _unmatched(readings: Readings) -> tuple[float | None, float | None]:
    """First tokens beyond finished requests (or the reverse), and how many the window's ends explain."""
    net, running = readings.value("unmatched_first_tokens"), readings.facts.get("requests_running_at_both_ends")
    first = readings.value("first_tokens")
    if net is None or running is None or first is None:
        return net, None
    allowed = float(running) + LIMIT * first
    if net < 0:
        allowed += _ended_without_first_token(readings)
    return abs(net), allowed


def _lost_tokens(readings: Readings) -> str | None:
    """Without a count of first tokens: prompt tokens that belong to no finished request while nothing runs."""
    share, rest = readings.value("unfinished_prompt_share"), readings.value("unfinished_prompt_tokens")
    if share is None or share <= LIMIT or readings.facts.get("requests_running_at_both_ends") != 0:
        return None
    tokens = f"{shown(rest)} prompt tokens ({percent(share)})"
    return f"{tokens} belong to no finished request, and nothing runs: disconnects?"


def _ended_without_first_token(readings: Readings) -> float:
    """Requests that the engine aborted or failed: they finish, and may never have had a first token."""
    aborted = (readings.value("abort_share") or 0.0) * (readings.value("finished_requests") or 0.0)
    errors = readings.get("error_share")
    failed = float(errors.extra.get("events") or 0.0) if errors is not None else 0.0
    return aborted + failed


def _summary(
    readings: Readings,
    counts: dict[str, float],
    differ: bool,
    excess: float | None,
    allowed: float | None,
    options: Options,
) -> str:
    words = ", ".join(f"{shown(value)} {name}" for name, value in counts.items())
    if not counts or (max(counts.values()) == 0 and not excess):
        return readings["finished_requests"].reason or "no request finished in the window"
    if differ:
        return f"{words}: they differ by more than 2 %"
    done, net = readings.value("finished_requests") or 0.0, readings.value("unmatched_first_tokens") or 0.0
    first = readings.value("first_tokens")
    if excess is not None and allowed is not None and excess > allowed:
        share = f" ({percent(net / first)})" if first and net > 0 else ""
        if net > 0:
            lost = f"{shown(net)} of {shown(first)} requests that gave a first token"
            return f"{lost} never finished{share}: disconnects?"
        return f"{shown(-net)} finished requests had no first token, and nothing that ran explains them"
    if max(counts.values()) < options.min_requests:
        return f"{words}: fewer than {options.min_requests}"
    if len(counts) < 2 and allowed is None:
        return f"{words}, and no other count to hold them against"
    same = len(set(counts.values())) == 1
    text = f"{shown(done)} finished, all counts agree" if same else f"{words}: within 2 %"
    if allowed is not None and net > 0:
        text += f"; {shown(net)} first tokens more, as many as run"
    return text


def _found(counts: dict[str, float], excess: float | None, allowed: float | None) -> str:
    words = [f"{shown(value)} {name}" for name, value in counts.items()]
    if excess is not None:
        words.append(f"unmatched {shown(excess)}" + ("" if allowed is None else f" of {shown(allowed)} allowed"))
    return ", ".join(words) or "nothing was counted"


def _next(word: VerdictWord) -> tuple[str, ...]:
    if word == "broken":
        return ("look for client and balancer timeouts, and ask the clients how many requests they sent",)
    if word == "undecided":
        return ("audit a longer window, or one with traffic",)
    return ()
