"""Forward passes of engines that count them apart: what a pass holds, and how long seated streams stand still.

An engine that runs a ready prefill batch alone freezes every seated stream until the batch ends. How often that
happens is in the counts of passes; how long it takes only where the engine times its passes.
"""

from __future__ import annotations

from auditor.measures.readings.rates import seconds
from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.readings.requests import finished_count
from auditor.measures.subject import Missing, Subject

NO_PASS = "no forward pass in the window"
MIXED_CHUNKS = "unless mixed chunking is on: then decode rides along in prefill passes and nothing stands still"


def passes_by_kind(s: Subject) -> tuple[float, float]:
    """Prefill and decode passes of the window.

    Raises:
        Missing: no such counter, or one that leaves out prefill passes.
    """
    split = s.counter("passes").split
    if s.engine.quantities["passes"].split is None:
        raise Missing("not_exported", f"{s.engine.title} counts passes without their kind", sources=("passes",))
    prefill = split.get("prefill", 0.0)
    if prefill == 0 and _prefilled(s) > 0:
        raise Missing("not_exported", "this release counts decode passes only", sources=("passes",))
    return prefill, split.get("decode", 0.0)


def counts_passes(s: Subject) -> bool:
    """This engine counts forward passes instead of observing steps."""
    return "step_tokens" not in s.engine.quantities and "passes" in s.engine.quantities


def passes(s: Subject) -> float:
    """Forward passes of the window, of all kinds."""
    if s.engine.quantities["passes"].split is None:
        return s.increase("passes")
    return sum(passes_by_kind(s))


def tokens_per_pass(s: Subject) -> Found:
    """Tokens run over forward passes; a range where the page does not say how many first tokens there were."""
    count = passes(s)
    if count <= 0:
        raise Missing("no_traffic", NO_PASS, sources=("passes",))
    if "decoded_tokens" in s.engine.quantities:
        ran = s.counter("scheduled_prompt_tokens").split.get("local_compute", 0.0) + s.increase("decoded_tokens")
        return Found(ran / count, count=count, sources=("scheduled_prompt_tokens", "decoded_tokens", "passes"))
    computed, generated = s.value("computed_prompt_tokens"), s.increase("generation_tokens")
    reason = "the first token of a request comes with the last pass of its prompt, and requests are not counted"
    sources = ("computed_tokens", "generation_tokens", "passes")
    return Found(None, computed / count, (computed + generated) / count, count, sources, reason=reason)


def _prefilled(s: Subject) -> float:
    for name in ("scheduled_prompt_tokens", "prompt_tokens_by_source"):
        if s.has(name):
            return s.counter(name).split.get("local_compute", 0.0)
    return 0.0


@reading(unit="ratio")
def decode_pass_share(s: Subject) -> Found:
    """Decode passes over all forward passes."""
    prefill, decode = passes_by_kind(s)
    return Found(ratio(decode, prefill + decode, NO_PASS, ("passes",)), count=prefill + decode, sources=("passes",))


@reading(unit="seconds", better="lower")
def seconds_per_decode_pass(s: Subject) -> Found:
    """Wall seconds between decode passes: the window's length over its decode passes. Idle time is in it.

    A stream gets one token (with speculation a few) per decode pass, so this is the least its tokens are apart.
    """
    _, decode = passes_by_kind(s)
    engines = max(1, len({(p.target, p.rank) for p in s.parts if "passes" in p.quantities}))
    value = ratio(seconds(s) * engines, decode, "no decode pass in the window", ("passes",))
    return Found(value, count=decode, sources=("passes",), caveats=("idle time is in it",))


@reading(unit="tokens per pass")
def prefill_tokens_per_pass(s: Subject) -> Found:
    """Prompt tokens computed per prefill pass."""
    prefill, _ = passes_by_kind(s)
    tokens = s.counter("scheduled_prompt_tokens").split.get("local_compute", 0.0)
    sources = ("scheduled_prompt_tokens", "passes")
    return Found(ratio(tokens, prefill, "no prefill pass in the window", sources), count=prefill, sources=sources)


@reading(unit="tokens per pass")
def decode_tokens_per_pass(s: Subject) -> Found:
    """Tokens per decode pass: without speculation the number of streams in it."""
    _, decode = passes_by_kind(s)
    sources = ("decoded_tokens", "passes")
    value = ratio(s.increase("decoded_tokens"), decode, "no decode pass in the window", sources)
    return Found(value, count=decode, sources=sources)


@reading(unit="ratio", better="lower")
def frozen_pass_share(s: Subject) -> Found:
    """Forward passes in which seated streams emit nothing because prefill runs alone, over all passes.

    At most every prefill pass. At least those between scrapes in which fewer requests left the batch than were
    running when it began: then somebody was seated all the time.
    """
    _refuse_mixed(s)
    return _frozen(s, "passes", NO_PASS)


@reading(unit="ratio", better="lower")
def frozen_time_share(s: Subject) -> Found:
    """Engine seconds in which seated streams emit nothing because prefill runs alone, over all its busy seconds.

    Needs an engine that times its passes; limits like those of frozen_pass_share.
    """
    _refuse_mixed(s)
    return _frozen(s, "engine_seconds", "the engine timed no pass in the window")


@reading(unit="ratio")
def engine_prefill_share(s: Subject) -> Found:
    """Prefill over all engine seconds in forward passes: real engine time, not request time.

    Passes that mix prefill and decode make it a range.
    """
    split = s.counter("engine_seconds").split
    sources = ("engine_seconds",)
    total, mixed, prefill = sum(split.values()), split.get("mixed", 0.0), split.get("prefill", 0.0)
    low = ratio(prefill, total, "the engine timed no pass in the window", sources)
    if not mixed:
        return Found(low, count=_pass_count(s), sources=sources)
    reason = "some passes run prefill and decode together"
    return Found(None, low, (prefill + mixed) / total, _pass_count(s), sources, reason=reason)


def _pass_count(s: Subject) -> float | None:
    return s.increase("passes") if s.has("passes") else None


def _refuse_mixed(s: Subject) -> None:
    if s.engine.prefill_runs == "mixed":
        raise Missing("not_exported", f"{s.engine.title} runs prefill in the same steps as decode: no stream freezes")


def _frozen(s: Subject, name: str, nothing: str) -> Found:
    if name == "passes":
        passes_by_kind(s)
    split = s.counter(name).split
    total, sources = sum(split.values()), (name, "running_requests")
    high = ratio(split.get("prefill", 0.0), total, nothing, sources)
    low = min(high, sum(_surely_frozen(part, name) for part in s.slices or (s,)) / total)
    count = _pass_count(s)
    if high - low < 1e-12:
        return Found(high, count=count, sources=sources, caveats=(MIXED_CHUNKS,))
    reason = "the page does not say in which prefill passes a stream was seated"
    return Found(None, low, high, count, sources, (MIXED_CHUNKS,), reason)


def _surely_frozen(s: Subject, name: str) -> float:
    """Prefill passes (or their seconds) of engines that had a stream seated all the time."""
    try:
        left = finished_count(s)[0] + s.increase("aborted_requests") + s.increase("preemptions")
    except Missing:
        return 0.0
    total = 0.0
    for e in s.engines():
        if e.has(name) and _seated_throughout(e, left):
            total += e.counter(name).split.get("prefill", 0.0)
    return total


def _seated_throughout(e: Subject, left: float) -> bool:
    if e.window.kind == "lifetime" or e.restarted or not e.has("running_requests"):
        return False
    running = e.gauge("running_requests")
    seated = (running.first or 0.0) - left
    if seated <= 0 or not running.last:
        return False
    # The gauge may be old: whoever sat there all the time got a token from every decode pass.
    decode = e.counter("passes").split.get("decode", 0.0) if e.has("passes") else 0.0
    return not (decode and e.has("decoded_tokens")) or e.increase("decoded_tokens") >= decode * seated
