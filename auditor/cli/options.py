"""Options that several commands share, each with its ``AUDITOR_*`` environment twin."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import click

from auditor.model import Options, Setting, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from auditor.engine_logs import LogScan

    # Generic for types only: at run time the oldest click that we claim has no such brackets.
    NumberType = click.ParamType[float]
    PairType = click.ParamType[tuple[str, float]]
else:
    NumberType = PairType = click.ParamType

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?\s*$")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, None: 1.0}
_NUMBER = re.compile(r"^\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(%|ms|s|k|m|g)?\s*$", re.IGNORECASE)
LONGEST_SECONDS = 100 * 365.25 * 86400.0
"""A longer time is a slip of the keyboard, and no clock counts it."""
LONGEST_WAIT_SECONDS = 86400.0
"""Of one answer; the sockets below take 24 days at most."""
_FACTOR = {"%": 0.01, "ms": 0.001, "s": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "": 1.0}


def option(*names: str, **attributes: Any) -> Decorator:
    """``click.option`` with an environment twin named after the long option."""
    long = next(n for n in names if n.startswith("--")).split("/")[0]
    attributes.setdefault("envvar", "AUDITOR_" + long.removeprefix("--").replace("-", "_").upper())
    return click.option(*names, **attributes)


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell offer files, for an argument that may be a file or an address."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def seconds(text: str) -> float:
    """Seconds of ``60``, ``60s``, ``500ms``, ``15m``, ``24h``, ``7d``.

    Raises:
        UsageError: not a length of time, not above 0, or more than a hundred years.
    """
    match = _DURATION.match(text)
    if not match or float(match[1]) <= 0:
        raise UsageError(f"{text!r} is no length of time; write 60s, 15m or 24h")
    length = float(match[1]) * _SECONDS[match[2]]
    if length > LONGEST_SECONDS:
        raise UsageError(f"{text!r} is more than a hundred years; write 60s, 15m or 24h")
    return length


class Duration(NumberType):
    name = "duration"

    def __init__(self, most: float = LONGEST_SECONDS) -> None:
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            length = seconds(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if length > self.most:
            self.fail(f"{value!r} is more than {self.most / 3600:g} hours", param, ctx)
        return length


class Number(click.FloatRange):
    """A number within limits; nan and inf, which pass every comparison or none, are no numbers here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number that could be meant", param, ctx)
        return number


class Pair(PairType):
    """``name=number``, the number with an optional unit: ``2s``, ``150ms``, ``40%``, ``8k``."""

    name = "name=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        if isinstance(value, tuple):
            return value
        key, sign, number = str(value).partition("=")
        match = _NUMBER.match(number)
        if not sign or not key.strip() or not match:
            self.fail(f"{value!r}: name=number is needed, for example prefill_rate=1860", param, ctx)
        amount = float(match[1]) * _FACTOR[(match[2] or "").lower()]
        if not 0 <= amount < math.inf:
            self.fail(f"{value!r}: the number is {'below 0' if amount < 0 else 'too large to be meant'}", param, ctx)
        return key.strip(), amount


DURATION, WAIT, PAIR = Duration(), Duration(most=LONGEST_WAIT_SECONDS), Pair()


def judging_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How to judge: thresholds, subjects, claims, and what no page tells."""
    for decorate in reversed(
        (
            option("--by", type=click.Choice(["model", "rank", "target", "all"]), default="model", show_default=True,
                   help="What makes a subject; rank is one data-parallel engine."),
            option("--min-requests", type=click.IntRange(1), default=30, show_default=True,
                   help="Fewer events than this give no verdict."),
            option("--min-coverage", type=Number(0, 1), default=0.9, show_default=True,
                   help="Share of targets and window below which readings are partial."),
            option("--short-cap", type=click.IntRange(1), default=50, show_default=True,
                   help="Requests that ask for at most this many tokens are probes."),
            option("--worth", type=Number(1), default=1.05, show_default=True,
                   help="A lever whose ceiling is below this is not worth a test."),
            option("--slo", type=PAIR, multiple=True, metavar="READING=X", help="Share of observations at most X: ttft_seconds=2."),
            option("--claim", type=PAIR, multiple=True, metavar="NAME=X", help="Is the number in your notes what its name says? prefill_rate=1860."),
            option("--budget", type=Number(1), metavar="N", help="max_num_batched_tokens, which is on no page."),
            option("--threshold", type=Number(0), metavar="N", help="long_prefill_token_threshold; 0 is off."),
            option("--seats", type=Number(1), metavar="N", help="max_num_seqs."),
            option("--context", type=Number(1), metavar="N", help="max_model_len."),
            option("--block-size", type=Number(1), metavar="N", help="Tokens in a KV block, as resolved at boot."),
            option("--boot-log", type=click.Path(), metavar="FILE", help="Take settings from the engine's own start-up lines."),
            option("--peak-tflops", type=Number(0, min_open=True), metavar="X", help="Peak arithmetic of one GPU."),
            option("--peak-gbytes-per-second", type=Number(0, min_open=True), metavar="X", help="Peak memory bandwidth of one GPU."),
            option("--parameters", type=PARAMETERS, metavar="N", help="Model size, for a roofline without the engine's estimates: 8e9, 70b."),
            option("--precision", type=click.Choice(["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]),
                   help="Of the weights, with --parameters; bf16 is assumed."),
            option("--accelerator", metavar="NAME", help="Take the peaks from a small named table."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


class Parameters(NumberType):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip().lower()
        factor = {"b": 1e9, "m": 1e6, "k": 1e3}.get(text[-1:], 1.0)
        try:
            number = float(text.rstrip("bmk")) * factor
        except ValueError:
            self.fail(f"{value!r} is no number of parameters; write 8e9 or 70b", param, ctx)
        if not 0 < number < 1e16:
            self.fail(f"{value!r} is no number of parameters", param, ctx)
        return number


PARAMETERS = Parameters()

SETTINGS = ("budget", "threshold", "seats", "context", "block_size", "peak_tflops", "peak_gbytes_per_second",
            "parameters", "precision", "accelerator")  # fmt: skip


def read_options(values: Mapping[str, Any]) -> Options:
    """The judging options of a command line.

    Raises:
        UsageError: unknown reading or claim, or a threshold above the context.
    """
    from auditor.measures.claims import CLAIMS
    from auditor.measures.readings.distributions import DISTRIBUTIONS

    slo, claims = dict(values.get("slo") or ()), dict(values.get("claim") or ())
    for name in slo:
        require_name(name, DISTRIBUTIONS, "a distribution that --slo knows")
    for name in claims:
        require_name(name, tuple(CLAIMS), "a claim")
    threshold, context = values.get("threshold"), values.get("context")
    if threshold and context and threshold > context:
        raise UsageError(f"--threshold {threshold:g} is above --context {context:g}: the engine refuses to start so")
    return Options(
        min_requests=values["min_requests"],
        min_coverage=values["min_coverage"],
        short_cap=values["short_cap"],
        worth=values["worth"],
        by=values["by"],
        slo=slo,
        claims=claims,
    )


def read_settings(values: Mapping[str, Any]) -> dict[str, Setting]:
    """Settings given by options and by a boot log, each with its source."""
    out: dict[str, Setting] = {}
    if values.get("boot_log"):
        out.update(scan_boot_log(values["boot_log"]).settings)
    for name in SETTINGS:
        value = values.get(name)
        if value is not None:
            out[name] = Setting(value, "flag")
    return out


@lru_cache(maxsize=1)
def scan_boot_log(path: str) -> LogScan:
    """The log of --boot-log, read once: settings and what its boots cost both come from it."""
    from auditor.engine_logs import scan_log

    return scan_log(path)


def read_boot_facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the log of --boot-log tells beside settings.

    ``boot_effects``: what a setting did to the pool between its boots, in sentences. ``log_hit_rate``: the last prefix
    cache hit rate it printed, which is no reading. ``tested_settings``: the values of a setting over its boots.
    """
    if not values.get("boot_log"):
        return {}
    from auditor.planning.effects import find_effects
    from auditor.planning.pools import setting_of

    scan = scan_boot_log(values["boot_log"])
    out: dict[str, Any] = {}
    judged = {
        "effect": "",
        "within_spread": ", no more than repeated boots differ",
        "spread_unknown": "; nothing was booted twice, so the spread is not known",
    }
    effects = [e for e in find_effects(scan.boots)[0] if e.pool_change is not None]
    if effects:
        out["boot_effects"] = [e.sentence() + judged[e.verdict] for e in effects]
    started = [setting_of(boot, "budget") for boot in scan.boots if boot.state == "started"]
    budgets = sorted({b for b in started if b is not None})
    if len(budgets) > 1:
        out["tested_settings"] = {"budget": budgets}
    rates = [f.hit_rate for f in scan.figures.engines.values() if f.hit_rate is not None]
    if rates:
        out["log_hit_rate"] = rates[-1]
    return out


def require_name(name: str, known: tuple[str, ...], what: str) -> None:
    """Raise UsageError with the nearest right name when ``name`` is not known."""
    if name in known:
        return
    near = nearest(name, known, 0.4)
    hint = f"; did you mean {near}?" if near else f"; known: {', '.join(sorted(known))}"
    raise UsageError(f"{name!r} is not {what}{hint}")


def nearest(name: str, known: Sequence[str], cutoff: float) -> str | None:
    """The known name that this one was meant for, if any is like it. Case does not count."""
    import difflib

    folded = {k.casefold(): k for k in reversed(known)}
    # What was typed may be the beginning of a name, which is unlike a long one by its length alone.
    begun = sorted((k for k in folded if k.startswith(name.casefold())), key=len) if len(name) > 2 else []
    near = begun or difflib.get_close_matches(name.casefold(), list(folded), 1, cutoff)
    return folded[near[0]] if near else None
