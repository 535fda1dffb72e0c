"""A commented premises file to begin with, made from an audit: what is true today, as limits one can tighten."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from auditor.gate.deciding import number_of, number_words
from auditor.gate.evidence import audit_of
from auditor.gate.model import Names, ReadingName
from auditor.gate.presets import BELIEFS, PRESETS
from auditor.model import Reading, Report, SubjectReport

UPPER = (
    "length_share",
    "queue_share",
    "error_share",
    "ttft_seconds",
    "itl_seconds",
    "e2e_seconds",
    "preemptions_per_request",
)
LOWER = ("prefix_hit_share", "tokens_per_draft_step", "generation_tokens_per_wall_second")
ROOM = 1.25
"""Distance of a proposed limit from the far end of today's interval."""

_CONTROL = re.compile(r"[^\x20-\x7e\xa0-\u1fff\u2010-\u2027\u2030-\ud7ff]")


def starter_file(report: Report, names: Names, *, min_requests: int, min_coverage: float) -> str:
    """The text of a premises file that this program reads without an error."""
    lines = [
        "# Premises: what must be true of this service. Read by: auditor gate TARGET --window 60s --premises FILE",
        f"# Made by {_comment(report.tool)} from {_comment(report.window.get('source') or 'a window')}.",
        "# A premise holds when its whole interval is on the right side, is broken when the whole interval is on the",
        "# wrong side, and is undecided otherwise. Exit codes: 0 pass, 1 broken, 3 undecided.",
        "",
        "# recommended: metrics trustworthy, engine alive, answers complete as errors; requests accounted,",
        "# no preemption, no queueing, kv not the limit as warnings. strict: all of them as errors. none: only what",
        "# stands below.",
        "extends: recommended",
        f"min_requests: {min_requests}",
        f"min_coverage: {min_coverage:g}",
        "",
        "premises:",
    ]
    for i, subject in enumerate(report.subjects):
        lines += _subject_lines(subject, report, names, min_requests, last=i == len(report.subjects) - 1)
    if not any(line.startswith("  - ") for line in lines):
        lines += [
            "  # nothing had enough events for a limit of its own; this one always works",
            "  - belief: engine alive",
        ]
    lines += [
        "",
        "  # Other kinds of premises:",
        "  # - belief: decode dominates          # " + ", ".join(list(BELIEFS)[:6]) + " ...",
        "  # - audit: prefix-cache               # auditor list audits",
        "  # - before: batched-tokens            # is this lever worth a test? auditor list levers",
        "  # - claim: {prefill_rate: 1860}       # does the number in your notes mean what its name says?",
        "  # - {reading: e2e_seconds, worse_than_baseline_by: 10%}     # needs --baseline report.json",
        "",
        "# waivers:",
        '#   - {premise: answers complete, until: 2027-01-31, reason: "client fix shipping"}',
        "",
    ]
    return "\n".join(lines)


def _subject_lines(
    subject: SubjectReport, report: Report, names: Names, min_requests: int, *, last: bool
) -> Iterator[str]:
    title = ", ".join(f"{k} {v}" for k, v in subject.labels.items())
    yield f"  # {_comment(title)}"
    for belief in PRESETS["recommended"]:
        verdict = audit_of(subject, BELIEFS[belief].audit or "")
        if verdict is not None and verdict.verdict != "holds":
            yield f"  # today: {belief}: {verdict.verdict.replace('_', ' ')}: {_comment(verdict.summary)}"
    alone = len(report.subjects) == 1
    for name in (*UPPER, *LOWER):
        reading, declared = subject.readings.get(name), names.readings.get(name)
        if reading is None or declared is None:
            continue
        limit = _limit(reading, declared, upper=name in UPPER, min_requests=min_requests)
        if limit is None:
            continue
        key = "at_most" if name in UPPER else "at_least"
        number = number_of(reading, "mean" if declared.distribution else None)
        assert not isinstance(number, str)
        yield f"  # today: {_comment(number_words(number, declared))}"
        yield f"  - reading: {name}"
        if not alone:
            yield f"    name: {_quoted(f'{name} of {title}')}"
            pairs = ", ".join(f"{k}: {_quoted(_literal(v or ''))}" for k, v in subject.labels.items())
            yield f"    for: {{{pairs}}}"
        yield f"    {key}: {_written(limit, declared)}"
    if not last:
        yield ""


def _limit(reading: Reading, name: ReadingName, *, upper: bool, min_requests: int) -> float | None:
    """A round limit beyond the far end of today's interval; None where today's number is no ground for one."""
    number = number_of(reading, "mean" if name.distribution else None)
    if isinstance(number, str) or number.value is None or (number.events or 0) < min_requests:
        return None
    if upper:
        far = number.high
        if far is None or (name.is_share and far * ROOM >= 1):
            return None
        return max(_round(far * ROOM, up=True), 0.01 if name.unit == "ratio" else 0.0) or None
    far = number.low
    return None if far is None or far <= 0 else _round(far / ROOM, up=False)


def _round(value: float, *, up: bool) -> float:
    """Two significant digits, away from today's value."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    units = math.ceil(value / step - 1e-9) if up else math.floor(value / step + 1e-9)
    return float(f"{units * step:.2g}")


def _written(value: float, name: ReadingName) -> str:
    if name.unit == "ratio":
        return f"{value * 100:.3g}%"
    if name.unit == "seconds":
        return f"{value * 1000:.6g}ms" if value < 1 else f"{value:.6g}s"
    return f"{value:.6g}" if value < 1e5 else f"{value:.0f}"


def _comment(text: object) -> str:
    """Fit for one comment line: a control character would end it."""
    return _CONTROL.sub("?", str(text))[:160]


def _quoted(text: str) -> str:
    """A YAML double-quoted scalar; JSON's is one."""
    import json

    return json.dumps(text)


def _literal(text: str) -> str:
    """A label value as a shell pattern that matches nothing else."""
    return re.sub(r"([*?\[])", r"[\1]", text)
