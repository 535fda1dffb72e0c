"""Where the numbers come from, when it is not a page."""

from __future__ import annotations

from auditor.measures.flags.registry import flag
from auditor.measures.subject import Subject


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
