"""How much of decode is other requests' prefill, and so what prefill levers could gain at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.measures.histogram import iter_buckets
from auditor.measures.readings.registry import Found, reading
from auditor.measures.readings.step_facts import died_inside
from auditor.measures.readings.time import impossible_time
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram

if TYPE_CHECKING:
    from auditor.measures.ceilings.evidence import Evidence
    from auditor.measures.ceilings.ranges import Ceiling

MOST_PREEMPTED = 0.01
REBUILT = "sums are rebuilt from bucket midpoints on this page"
SOURCES = (
    "itl_seconds", "prefill_seconds", "decode_seconds", "output_length_tokens", "step_tokens",
    "prompt_tokens_by_source", "ttft_seconds",
)  # fmt: skip


@reading(unit="ratio")
def decode_stretch_share(s: Subject) -> Found:
    """Part of decode time that is waiting for other requests' prefill; with it, what free prefill could gain.

    Prefill chunks share engine steps with everybody's decode, so the decode seconds of one request contain the
    prefill of others, and the share of time that is called prefill bounds nothing: with the prefix cache off a server
    showed 36.5 % prefill, for which 1 / (1 - share) promises 1.57x; with the cache on, the same requests took 1/15.6
    of the time.

    Derivation. Let G gaps add up to D seconds (inter-token histogram), and let F finished requests have P prefill
    seconds, Dr decode seconds and Gr gaps. If prompt tokens cost no step time and each prompt still took one step,
    every output would take one step without prefill, of length s0:

        ceiling = (P + Dr) / (s0 (Gr + F))          stretch share of decode = 1 - s0 / (D / G)

    Only s0 is unknown, and one answer gives both. It is read off the gap histogram. Chunks (N1 first tokens +
    computed tokens over min(budget, long-prefill threshold)) over steps tell what share of gaps no chunk can have
    stretched; where the histogram has a valley near that share, the valley tells. The smallest gaps up to that share
    are the plain ones. Their mean follows from one position in all buckets that gives the exact sum, and has hard
    limits from the same sum. In a series, moments without prompts (lulls) show s0 itself.

    The ends are that mean, moved by margins that were fitted to simulated vLLM schedulers (members ceiling_99 and
    ceiling_95; the limits of the share are those of 99 %). Where more than half of the gaps may be stretched there is
    no upper end (why_no_upper says so), unless prefill request-seconds are below 5 % of the wall W; then

        ceiling <= (P + Dr) / (D/G (Gr + F)) exp(0.03 + 2 P/W)

    The unit is a request's prefill + decode: queues are not in it, and where a long queue moves into larger batches,
    service alone can even get slower. Without a step budget the hull over 256 to 16,384 is taken. W counts once for
    each engine. With preemptions in more than 1 % of requests there is no answer: prompts computed again are in no
    token counter. Engines that run prefill alone (SGLang by default) freeze every stream instead: the same
    arithmetic, another mechanism (member mechanism) and wider margins; their prefill batches are counted on the page.

    Assumptions: decode-only steps and those with a chunk differ mainly by the chunk; steps of a window are alike. Not
    modelled: asynchronous scheduling, n > 1, one slow stream, pauses of the host. docs/ceilings.md has the proof.
    """
    preempted = s.read("preemptions_per_request")
    if preempted.value is not None and preempted.value > MOST_PREEMPTED:
        raise Missing(
            "invalid",
            f"{preempted.value:.1%} of requests were preempted: prompts computed again are in no token counter",
            sources=("preemptions",),
        )
    e = gather(s)
    from auditor.measures.ceilings.lulls import lull_base
    from auditor.measures.ceilings.ranges import find_ceiling

    lull = lull_base(s, e.longest_prefill_seconds) if s.slices else None
    budget = s.setting("budget")
    c = find_ceiling(
        e,
        budget=budget,
        threshold=s.setting("threshold") or None,
        lull_seconds=None if lull is None else lull[0],
    )
    caveats = ["calibrated on simulated schedulers, not on servers"]
    budget_known = budget is not None or e.prefill_passes is not None
    if not budget_known:
        caveats.append("step budget unknown: every usual one was tried; give --budget N or --boot-log FILE")
    if lull is not None:
        caveats.append(f"steps without prefill read off {lull[1]:g} gaps in lulls of the series")
    if preempted.value:
        caveats.append(f"{preempted.value:.2%} preemptions per request: a little recomputed prefill is hidden")
    if died_inside(s):
        caveats.append("an engine ended inside the window: chunks of prompts that died with it are not counted")
    if e.prefill_alone:
        caveats.append("decode time is end-to-end minus first-token time; gaps are those of streaming requests")
    low, high = _share(e, c.at_99[0]) or 0.0, _share(e, c.at_99[1])
    return Found(
        None,
        low,
        1.0 if high is None else max(low, high),
        e.gap_count,
        SOURCES,
        tuple(caveats),
        c.why_no_upper or "gaps show prefill only by their lengths",
        extra=_extra(c, e, budget_known=budget_known),
    )


def _share(e: Evidence, speedup: float | None) -> float | None:
    """The stretch share that belongs to a ceiling."""
    if speedup is None or e.mean_gap <= 0 or e.outputs <= 0:
        return None
    return max(0.0, 1 - e.service_seconds / (speedup * e.outputs) / e.mean_gap)


def _extra(c: Ceiling, e: Evidence, *, budget_known: bool) -> dict[str, object]:
    from auditor.measures.ceilings.wording import sentence

    plain = e.service_seconds / e.decode_seconds if e.decode_seconds > 0 else None
    return {
        "ceiling_99": list(c.at_99),
        "ceiling_95": list(c.at_95),
        "mechanism": "frozen streams" if e.prefill_alone else "shared steps",
        "base_seconds": c.base_seconds or None,
        "why_no_upper": c.why_no_upper if c.at_99[1] is None else None,
        "share_of_gaps_without_prefill": None if c.baseline is None else c.baseline.clean.share,
        "plain_speedup": plain,
        "sentence": sentence(c, plain, prefill_alone=e.prefill_alone, budget_known=budget_known),
    }


def gather(s: Subject) -> Evidence:
    """Collect the evidence of a subject.

    Raises:
        Missing: phase times or lengths are not on the page, contradict each other, or nothing finished.
    """
    prefill_alone = s.engine.prefill_runs == "alone"
    prefill, output = s.histogram("prefill_seconds"), s.histogram("output_length_tokens")
    sources = ("prefill_seconds", "decode_seconds", "output_length_tokens")
    contradiction = impossible_time(s)
    if contradiction is not None:
        raise Missing("invalid", contradiction, sources=sources)
    decode_seconds, finished = _decode(s)
    if prefill.rebuilt_sum or output.rebuilt_sum:
        raise Missing("invalid", REBUILT, sources=sources)
    if finished <= 0 or prefill.count <= 0 or prefill.sum + decode_seconds <= 0:
        raise Missing("no_traffic", "no request finished in the window", sources=sources)
    from auditor.measures.ceilings.evidence import Evidence

    tokens_per_gap = 1.0 if prefill_alone else _tokens_per_gap(s)
    return Evidence(
        gaps=_gaps(s),
        # Where prefill is counted at its end and the rest at the request's, windows cut them apart.
        prefill_seconds=prefill.sum / prefill.count * finished,
        decode_seconds=decode_seconds,
        finished=finished,
        own_gaps=max(0.0, output.sum - finished) / tokens_per_gap,
        computed_tokens=computed_tokens(s),
        first_tokens=_first_tokens(s, prefill.count),
        steps=s.histogram("step_tokens").count if s.has("step_tokens") else None,
        wall_seconds=None if s.window.seconds is None else s.window.seconds * engines(s),
        longest_prefill_seconds=max((b.high for b in iter_buckets(prefill)), default=0.0),
        tokens_per_gap=tokens_per_gap,
        prefill_passes=_prefill_passes(s) if prefill_alone else None,
        prefill_alone=prefill_alone,
    )


def _decode(s: Subject) -> tuple[float, float]:
    """(decode seconds, finished requests); end-to-end minus time to first token where no decode time is exported."""
    if s.has("decode_seconds") or s.engine.traits.get("decode_time") != "e2e_minus_ttft":
        decode = s.histogram("decode_seconds")
        if decode.rebuilt_sum:
            raise Missing("invalid", REBUILT, sources=("decode_seconds",))
        return decode.sum, decode.count
    e2e, ttft = s.histogram("e2e_seconds"), s.histogram("ttft_seconds")
    if e2e.count <= 0 or ttft.count <= 0:
        raise Missing("no_traffic", "no request finished in the window", sources=("e2e_seconds", "ttft_seconds"))
    return max(0.0, e2e.sum - ttft.sum / ttft.count * e2e.count), e2e.count


def _prefill_passes(s: Subject) -> float | None:
    """Batches of prefill that ran alone, where the engine counts them."""
    if not s.has("passes"):
        return None
    passes = s.counter("passes").split.get("prefill", 0.0)
    return passes if passes > 0 else None


def engines(s: Subject) -> int:
    """Engines whose steps run side by side: one per target and rank."""
    return max(1, len({(p.target, p.rank) for p in s.parts if not p.pooled}))


def computed_tokens(s: Subject) -> float:
    """C, live where a series has it, else of finished requests; prompt tokens where neither is exported."""
    if s.has("prompt_tokens_by_source"):
        computed = s.counter("prompt_tokens_by_source").split.get("local_compute", 0.0)
        if s.has("recomputed_tokens"):
            computed -= s.increase("recomputed_tokens")
        return max(0.0, computed)
    reading = s.read("computed_prompt_tokens")
    if reading.value is not None:
        return reading.value
    return s.value("prompt_tokens")


def _first_tokens(s: Subject, finished: float) -> float:
    return s.histogram("ttft_seconds").count if s.has("ttft_seconds") else finished


def _gaps(s: Subject) -> Histogram | None:
    if not s.has("itl_seconds"):
        return None
    h = s.histogram("itl_seconds")
    usable = h.count > 0 and h.edges and not h.flaw and not h.rebuilt_sum
    return h if usable else None


def _tokens_per_gap(s: Subject) -> float:
    reading = s.read("tokens_per_output_event")
    return max(1.0, reading.value) if reading.value is not None else 1.0
