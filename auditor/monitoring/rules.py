"""Recording and alert rules for Prometheus, Thanos, Mimir and vmalert."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from auditor.audits import load_audits
from auditor.measures.readings import READINGS
from auditor.measures.recording import (
    COUNTS,
    RATIOS,
    count_text,
    increase_over_text,
    level_text,
    rate_over,
    ratio_text,
    whole_scope,
)
from auditor.measures.vocabulary import Engine
from auditor.model import Options

LENGTH = "1h"
STILL = "15m"
UNDECIDED_FOR = "2h"
BROKEN_FOR = "15m"


@dataclass(frozen=True)
class Belief:
    """A premise that one recorded ratio decides: above or below its audit's limit it is broken."""

    audit: str
    reading: str
    broken: str


BELIEFS = (
    Belief("time-split", "prefill_share", "<"),
    Belief("prefix-cache", "prefix_hit_share", "<"),
    Belief("length-truncation", "length_share", ">"),
    Belief("queueing", "queue_share", ">"),
    Belief("preemption", "preemptions_per_request", ">"),
    Belief("speculation", "tokens_per_draft_step", "<"),
)


def recorded_name(reading: str) -> str:
    return f"premise:{reading}:ratio_rate{LENGTH}"


def render_rules(engine: Engine) -> str:
    """The rules of one engine as YAML text."""
    lines = [
        f"# Recording and alert rules for {engine.title}, made by: auditor queries --as rules --engine {engine.name}",
        "# Ratios are of rates over one hour, by model. Premises: auditor list audits.",
        "groups:",
        f"- name: premise-auditor-{engine.name}",
        "  interval: 1m",
        "  rules:",
    ]
    for name, text in _recorded(engine):
        lines += [f"  - record: {name}", f"    expr: {_block(text)}"]
        lines += ["    labels:", f"      engine_kind: {engine.name}"]
    lines += [f"- name: premise-auditor-{engine.name}-alerts", "  rules:"]
    for alert in _alerts(engine):
        lines += alert
    return "\n".join(lines) + "\n"


def _recorded(engine: Engine) -> Iterator[tuple[str, str]]:
    scope = whole_scope(engine)
    for name in RATIOS:
        text = ratio_text(scope, name, rate_over(LENGTH))
        if text is not None:
            yield recorded_name(name), text
    for name in COUNTS:
        text = count_text(scope, name, increase_over_text(LENGTH))
        if text is not None:
            yield f"premise:{name}:increase{LENGTH}", text


def _alerts(engine: Engine) -> Iterator[list[str]]:
    scope = whole_scope(engine)
    audits = load_audits()
    known = {name for name, _ in _recorded(engine)}
    events = f"premise:finished_requests:increase{LENGTH}"
    on = f"on ({', '.join(scope.group)}) " if scope.group else ""
    mine = f'{{engine_kind="{engine.name}"}}'
    least = Options().min_requests
    for belief in BELIEFS:
        name = recorded_name(belief.reading)
        if name not in known:
            continue
        limit = f"{getattr(audits[belief.audit], 'LIMIT'):g}"  # noqa: B009  (not every audit has one)
        enough = f" and {on}({events}{mine} >= {least})" if events in known else ""
        yield _alert(
            "PremiseBroken",
            belief.audit,
            f"({name}{mine} {belief.broken} {limit}){enough}",
            BROKEN_FOR,
            "warning",
            f"Not so over the last hour: {_premise(belief.audit)}",
            f"{READINGS[belief.reading].headline} It is {{{{ $value | {_shown(belief.reading)} }}}}, "
            f"the limit is {limit}.",
        )
        if events in known:
            # Speculation that is switched off leaves no series, which is no gap.
            gone = f" or ({events}{mine} >= {least} unless {on}{name}{mine})" if belief.audit != "speculation" else ""
            few = f"{events}{mine} < {least}"
            if belief.audit == "speculation":
                few = f"({few}) and {on}{name}{mine}"
            yield _alert(
                "PremiseUndecided",
                belief.audit,
                f"({few}){gone}",
                UNDECIDED_FOR,
                "info",
                f"Nobody can tell: {_premise(belief.audit)}",
                f"Fewer than {least} requests finished in an hour, or the series for {belief.reading} are not there.",
            )
    yield from _facts(engine, on)


def _facts(engine: Engine, on: str) -> Iterator[list[str]]:
    scope = whole_scope(engine)
    running, waiting, usage = (level_text(scope, n) for n in ("running_requests", "waiting_requests", "kv_usage"))
    tokens = count_text(scope, "generation_tokens", increase_over_text(STILL))
    preempted = count_text(scope, "preemptions", increase_over_text(STILL))
    if running and tokens:
        yield _alert(
            "PremiseBroken",
            "engine-liveness",
            f"({running} > 0) unless {on}({tokens} > 0)",
            BROKEN_FOR,
            "critical",
            f"Not so: {_premise('engine-liveness')}",
            f"{{{{ $value | humanize }}}} requests are running and not one token was generated in {STILL}.",
        )
    limits = [f"({text} > 0)" for text in (preempted, waiting) if text]
    if usage and limits:
        yield _alert(
            "PremiseBroken",
            "kv-pool",
            f"({usage} >= 0.95) and {on}({' or '.join(limits)})",
            BROKEN_FOR,
            "warning",
            f"Not so: {_premise('kv-pool')}",
            "The KV pool is used to {{ $value | humanizePercentage }} while requests wait or are preempted.",
        )


def _premise(audit: str) -> str:
    return str(getattr(load_audits()[audit], "PREMISE", audit))


def _shown(reading: str) -> str:
    return "humanizePercentage" if READINGS[reading].unit == "ratio" else "humanize"


def _alert(name: str, premise: str, expr: str, length: str, severity: str, summary: str, text: str) -> list[str]:
    return [
        f"  - alert: {name}",
        f"    expr: {_block(expr)}",
        f"    for: {length}",
        "    labels:",
        f"      severity: {severity}",
        f"      premise: {premise}",
        "    annotations:",
        f"      summary: {_quoted(summary)}",
        f"      description: {_quoted(text)}",
    ]


def _block(expression: str) -> str:
    """A YAML block scalar."""
    return "|-\n" + "\n".join(f"      {line}" for line in expression.split("\n"))


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
