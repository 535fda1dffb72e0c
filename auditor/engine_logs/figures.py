"""The rolling figures an engine prints while it runs: one record a line.

vLLM prints, every ten seconds by default, rates over the time since its last such line and gauges of that
moment; its hit rate is over recent requests. SGLang prints one line per prefill batch, and one per
``decode_log_interval`` (40) decode batches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from auditor.engine_logs.lines import ClockKind, LogLine

RecordKind = Literal["interval", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """One running line. Rates are tokens a second, shares 0..1; None is what the line does not say.

    ``kind``: ``interval`` is a vLLM line; ``prefill`` and ``decode`` are SGLang batches. ``hit_rate`` is
    rolling over recent requests in vLLM, of this one batch in SGLang.
    """

    line: int
    kind: RecordKind
    engine: str
    moment: float | None
    clock: ClockKind | None
    prompt_tok_s: float | None = None
    generation_tok_s: float | None = None
    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    hit_rate: float | None = None
    preemptions: int | None = None
    new_tokens: int | None = None
    cached_tokens: int | None = None
    accept_length: float | None = None

    @property
    def time(self) -> float | None:
        """Unix seconds, where the log says date, year and zone."""
        return self.moment if self.clock == "zone" else None

    @property
    def makes_no_tokens(self) -> bool:
        return not self.prompt_tok_s and not self.generation_tok_s

    @property
    def shows_load(self) -> bool:
        return bool(self.running or self.waiting or self.kv_usage)

    def gauges(self) -> tuple[int | None, int | None, float | None, float | None]:
        """What stays exactly equal on a frozen engine."""
        return self.running, self.waiting, self.kv_usage, self.hit_rate


_VLLM = re.compile(r"(?:Engine (?P<engine>\d+): |(?P<all>\d+ Engines Aggregated: ))?Avg prompt throughput: ")
_SGLANG = re.compile(r"(?P<kind>Prefill|Decode) batch(?: ?\[\d+\])?[.,:] ")
_PAIR = re.compile(r"([#\w][\w #/()-]*?): (-?[\d.]+|nan)(?![\w.])")
_HIT_LINE = re.compile(r"Prefix cache hit rate: GPU: (?P<gpu>-?\d+(?:\.\d+)?)%")
_SWAPS = re.compile(r"total_num_cumulative_preemption=(\d+)")
_RETRACTED = re.compile(r"Retract requests\..*?#retracted_reqs: (\d+)|Retract requests\.")


def read_record(line: LogLine) -> RunningRecord | None:
    """The record in one log line, or None where it is no running line or lost its numbers."""
    text = line.text
    if found := _VLLM.search(text):
        return _read_vllm(line, text[found.start() :], found["engine"] or found["all"] or "")
    if found := _SGLANG.search(text):
        return _read_sglang(line, text[found.end() :], found["kind"])
    return None


def read_late_hit_rate(text: str) -> float | None:
    """vLLM V0 prints its hit rate on a line of its own, after the figures it belongs to."""
    found = _HIT_LINE.search(text)
    return float(found["gpu"]) / 100 if found else None


def read_preemptions(text: str) -> tuple[str, int] | None:
    """``("total", n)`` for a cumulative count (vLLM V0), ``("more", n)`` for newly retracted (SGLang)."""
    if found := _SWAPS.search(text):
        return "total", int(found[1])
    if found := _RETRACTED.search(text):
        return "more", int(found[1] or 1)
    return None


def _pairs(text: str) -> dict[str, float]:
    pairs: dict[str, float] = {}
    for piece in text.split(", "):
        found = _PAIR.search(piece)
        if found and found[2] != "nan":
            try:
                pairs.setdefault(found[1].strip(), float(found[2].rstrip(".")))
            except ValueError:
                continue
    return pairs


def _read_vllm(line: LogLine, text: str, engine: str) -> RunningRecord | None:
    text = text.split(": ", 1)[1] if text.startswith("Engine ") else text
    text = re.sub(r"^\d+ Engines Aggregated: ", "", text)
    pairs = _pairs(text)
    if "Avg generation throughput" not in pairs and "Running" not in pairs:
        return None
    usage = next((value for name, value in pairs.items() if name.endswith("KV cache usage")), None)
    hit = pairs.get("Prefix cache hit rate")
    waiting = pairs.get("Waiting", pairs.get("Pending"))
    return RunningRecord(
        line=line.number,
        kind="interval",
        engine=_origin(line.source, engine.strip(" :")),
        moment=line.moment,
        clock=line.clock,
        prompt_tok_s=pairs.get("Avg prompt throughput"),
        generation_tok_s=pairs.get("Avg generation throughput"),
        running=_whole(pairs.get("Running")),
        waiting=_whole(waiting),
        kv_usage=None if usage is None else round(usage / 100, 6),
        hit_rate=None if hit is None else round(hit / 100, 6),
        preemptions=_whole(pairs.get("Preemptions")),
    )


def _read_sglang(line: LogLine, text: str, kind: str) -> RunningRecord | None:
    pairs = _pairs(text)
    if "#running-req" not in pairs:
        return None
    new, cached = _whole(pairs.get("#new-token")), _whole(pairs.get("#cached-token"))
    total = (new or 0) + (cached or 0)
    usages = [value for name, value in pairs.items() if name.endswith("usage") and name != "pre-allocated usage"]
    return RunningRecord(
        line=line.number,
        kind="prefill" if kind == "Prefill" else "decode",
        engine=_origin(line.source, line.process),
        moment=line.moment,
        clock=line.clock,
        prompt_tok_s=pairs.get("input throughput (token/s)"),
        generation_tok_s=pairs.get("gen throughput (token/s)"),
        running=_whole(pairs.get("#running-req")),
        waiting=_whole(pairs.get("#queue-req")),
        kv_usage=max(usages) if usages else None,
        hit_rate=(cached or 0) / total if kind == "Prefill" and total else None,
        new_tokens=new,
        cached_tokens=cached,
        accept_length=pairs.get("accept len"),
    )


def _origin(source: str, engine: str) -> str:
    return f"{source} {engine}".strip()


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
