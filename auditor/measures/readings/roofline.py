"""How near decode is to memory bandwidth and prefill to arithmetic, where somebody gives the peaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditor.measures.accelerators import ACCELERATORS, BYTES_PER_PARAMETER, find_accelerator
from auditor.measures.readings.registry import Found, reading
from auditor.measures.readings.stretch import computed_tokens, engines, gather
from auditor.measures.subject import Missing, Subject

PRECISION = "bf16"
FAILS = (
    "wrong for mixtures of experts unless the parameters that a step really reads are counted, and for hybrid "
    "models: one published roofline that counted experts alone predicted the opposite of what was measured"
)
MEASURED_WIDTH = 1.05


def _peak(s: Subject, setting: str, kind: str, option: str) -> float:
    """The peak given by an option, or by the accelerator's row of the table.

    Raises:
        Missing: nobody gave one, or the table has no such name or figure.
    """
    given = s.setting(setting)
    if given is not None:
        return given
    named = s.settings.get("accelerator")
    if named is None:
        raise Missing("not_exported", f"no peak given: {option} X, or --accelerator NAME")
    found = find_accelerator(str(named.value))
    if found is None:
        names = ", ".join(a.name for a in ACCELERATORS)
        raise Missing("not_exported", f"--accelerator {named.value} is not in the table ({names}); give {option} X")
    value = found.gbytes_per_second if kind == "memory" else found.tflops
    if value is None:
        raise Missing("not_exported", f"no figure for {found.name}: {found.source}; give {option} X")
    return value


def _weight_bytes(s: Subject) -> tuple[float, tuple[str, ...]]:
    """Bytes of all weights from --parameters and --precision, and what was assumed.

    Raises:
        Missing: no model size was given.
    """
    parameters = s.setting("parameters")
    if parameters is None:
        raise Missing(
            "not_exported",
            "no estimates on the page: start the engine with --enable-mfu-metrics, or give --parameters N",
        )
    named = s.settings.get("precision")
    precision = str(named.value) if named is not None else PRECISION
    assumed = () if named is not None else (f"{PRECISION} weights assumed: --precision tells",)
    return parameters * BYTES_PER_PARAMETER.get(precision, 2.0), assumed


def _step_limits(s: Subject) -> tuple[float | None, float | None]:
    """(shortest, longest) that a decode step without prefill can be, in seconds, from the 99 % ceiling."""
    stretch = s.read("decode_stretch_share")
    ceiling: Any = stretch.extra.get("ceiling_99")
    if not isinstance(ceiling, list) or stretch.state != "bounded":
        return None, None
    e = gather(s)
    low, high = ceiling
    return (None if high is None else e.service_seconds / (high * e.outputs)), e.service_seconds / (low * e.outputs)


def _most_while_busy(s: Subject, share: float) -> float | None:
    """The share over the time in which steps ran: recorded steps take at least the shortest step each."""
    shortest, _ = _step_limits(s)
    if shortest is None or not s.has("step_tokens") or not s.window.seconds:
        return None
    busy = s.histogram("step_tokens").count * shortest / (s.window.seconds * engines(s))
    return min(1.0, share / busy) if 0 < busy < 1 else share


def _of_estimate(s: Subject, name: str, peak: float) -> Found:
    achieved = s.read(name)
    if achieved.value is None:
        raise Missing(achieved.state, achieved.reason or f"{name} has no value", sources=achieved.sources)
    share = achieved.value / peak
    caveats = ("the engine's own estimate; idle time lowers it", FAILS)
    extra: Mapping[str, Any] = {"peak": peak, "by": "engine estimates"}
    high = _most_while_busy(s, share)
    if high is not None and high <= share * MEASURED_WIDTH:
        return Found(share, count=achieved.count, sources=achieved.sources, caveats=caveats, extra=extra)
    reason = "over the whole window below, over the time in which steps ran above"
    return Found(None, share, high, achieved.count, achieved.sources, caveats, reason, extra)


def _has_estimate(s: Subject, name: str) -> bool:
    return s.has(name) and s.increase(name) > 0


@reading(unit="ratio", better="higher")
def memory_bandwidth_share(s: Subject) -> Found:
    """Memory bandwidth that decode uses over the accelerator's peak (--peak-gbytes-per-second or --accelerator).

    From the engine's estimate of bytes read: over the wall clock as the low end, over the time in which steps ran as
    the high one. Without estimates from --parameters: every step reads all weights once, so weights / (length of a
    step without prefill) / peak is a low end; the KV cache that a step reads comes on top, so there is no high end.
    A share above 1 means that a step does not read the whole model, as with a mixture of experts.
    """
    peak = _peak(s, "peak_gbytes_per_second", "memory", "--peak-gbytes-per-second")
    if _has_estimate(s, "estimated_read_bytes"):
        return _of_estimate(s, "achieved_read_gbytes_per_second", peak)
    weights, assumed = _weight_bytes(s)
    _, longest = _step_limits(s)
    if longest is None or longest <= 0:
        stretch = s.read("decode_stretch_share")
        raise Missing(stretch.state if stretch.state != "bounded" else "invalid", stretch.reason or "no step length")
    share = weights / 1e9 / longest / peak
    caveats = ("one device holds all weights: with tensor parallelism give the share of one", *assumed, FAILS)
    extra = {"peak": peak, "by": "parameters", "step_seconds": longest}
    reason = "weights only: the KV cache that a step reads comes on top"
    return Found(None, share, None, s.read("finished_requests").value, ("itl_seconds",), caveats, reason, extra)


@reading(unit="ratio", better="higher")
def arithmetic_share(s: Subject) -> Found:
    """Arithmetic that prefill uses over the accelerator's peak (--peak-tflops or --accelerator).

    From the engine's estimate, over the wall clock and over the time in which steps ran. Without estimates from
    --parameters: 2 operations a parameter and computed token, over the prefill request-seconds or the window,
    whichever is shorter: a low end, since prompts overlap.
    """
    peak = _peak(s, "peak_tflops", "arithmetic", "--peak-tflops")
    if _has_estimate(s, "estimated_flops"):
        return _of_estimate(s, "achieved_tflops_per_gpu", peak)
    parameters = s.setting("parameters")
    _weight_bytes(s)
    prefill = s.value("prefill_seconds")
    busy = min(prefill, s.window.seconds * engines(s)) if s.window.seconds else prefill
    tokens = computed_tokens(s)
    if busy <= 0 or tokens <= 0:
        raise Missing("no_traffic", "no prompt was prefilled in the window", sources=("prefill_seconds",))
    share = 2 * (parameters or 0.0) * tokens / busy / 1e12 / peak
    extra = {"peak": peak, "by": "parameters"}
    reason = "prompts overlap, so their request-seconds are more than the engine's"
    caveats = ("attention is left out", FAILS)
    return Found(None, share, None, s.read("finished_requests").value, ("prefill_seconds",), caveats, reason, extra)
