"""Whether the counts of requests and their times agree."""

from __future__ import annotations

from auditor.measures.flags.registry import flag
from auditor.measures.readings.agreement import agree, extrapolation_error
from auditor.measures.readings.in_progress import kv_tokens_held, longest_prompt, prompts_in_progress
from auditor.measures.readings.registry import IMPOSSIBLE, READINGS
from auditor.measures.readings.requests import finished_count
from auditor.measures.readings.time import impossible_time
from auditor.measures.subject import Subject


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
