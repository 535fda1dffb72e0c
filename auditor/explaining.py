"""The words of the report, explained: what ``auditor explain NAME`` prints.

Everything comes from where it is used: docstrings, the declarations in ``queries/``, and worked examples that are run
as they are printed. Nothing is written twice.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditor.audits import Audit, load_audits
from auditor.levers import load_levers
from auditor.meanings import MEANINGS
from auditor.measures.examples import example_subject
from auditor.measures.flags import ELSEWHERE, FLAGS, flag_text
from auditor.measures.readings import READINGS
from auditor.measures.readings.behind import quantities_behind, words_in
from auditor.measures.sheet import form_lines, quantity_rows
from auditor.measures.vocabulary import Engine, load_vocabulary
from auditor.model import Example, Options
from auditor.outputs.text import reading_words
from auditor.pipeline import read_subject, run_audit

Section = tuple[str, Sequence[str]]
"""A heading (may be empty) and its paragraphs; a paragraph that starts with a blank is kept as it is."""

EXIT_CODES: Sequence[tuple[str, str, str]] = (
    ("0", "a report was made; gate: every gated premise holds", "nobody"),
    ("1", "gate, compare --fail-on, nightly --fail-on: broken, or worse than its baseline", "service owner"),
    ("2", "usage or configuration: unknown option or name, bad YAML, a file that is not there", "caller"),
    ("3", "undecided: something remote failed, no traffic, too little evidence, low coverage", "platform owner"),
    ("4", "internal error, or an output, a hand-over or the history could not be written", "us"),
    ("130", "interrupted (143: terminated)", "nobody"),
)  # fmt: skip
PRECEDENCE_TEXT = (
    "Where several apply: 2 before 4 before 1 before 3 before 0. The output format never changes the code."
)

QUANTILES: Mapping[str, str] = {"p50": "the median", "p90": "the 90th percentile", "p99": "the 99th percentile"}
QUANTILE_TEXT = (
    "Known no better than the bucket of the histogram in which it lies: low and high are that bucket's edges, and the "
    "value between them is interpolated. interval is where it lies with 95 % certainty, by how many were observed."
)
_QUANTILE = re.compile(r"(.+?)[. ](p50|p90|p99)", re.IGNORECASE)

STATES: Mapping[str, str] = {
    "measured": "There is a value, for the whole window.",
    "partial": "There is a value, of part of the window: the engine restarted in it, or too little of it is covered.",
    "bounded": "There is no single value; low and high are hard limits. Either may be missing.",
    "no_traffic": "A ratio over nothing: no request, token or step of that kind in the window. A count of zero is a "
    "value, a ratio over zero is not.",
    "not_exported": "This engine or release has no such series; the reason says what would bring it.",
    "absent": "The series should be on the page and is not.",
    "invalid": "The figure contradicts another one on the page, so it is not shown as a number.",
    "failed": "The page or the query behind it failed.",
}
VERDICTS: Mapping[str, str] = {
    "holds": "The premise holds: the whole interval (or both limits) lies on the right side of the threshold, with at "
    "least --min-requests events behind it. A screen shows YES.",
    "broken": "The premise does not hold: the whole interval lies on the wrong side, or a fact says so, which needs no "
    "number of requests. A screen shows NO.",
    "undecided": "This window does not tell; the verdict says what would. A screen shows ?.",
    "not_applicable": "The question has no meaning here. A screen shows -.",
    "error": "A fault of ours in this audit; the others stand. A screen shows ERR.",
}


def known_names() -> tuple[str, ...]:
    """Everything that can be explained."""
    names = [*load_audits(), *load_levers(), *READINGS, *FLAGS, *ELSEWHERE, "exit-codes", *STATES, *VERDICTS, *MEANINGS]
    names += [engine.name for engine in load_vocabulary().engines]
    return tuple(dict.fromkeys(names))


def right_name(name: str) -> str:
    """The name as it is known: case does not count, and hyphens, underscores and blanks are taken for each other."""
    found = {_bare(known): known for known in known_names()}.get(_bare(name))
    quantile = _QUANTILE.fullmatch(name.strip())
    if found is not None or quantile is None:
        return found or name
    return f"{right_name(quantile[1])} {quantile[2].lower()}"


def is_known(name: str) -> bool:
    reading, _, quantile = name.partition(" ")
    has_quantiles = reading in READINGS and READINGS[reading].distribution
    return name in known_names() or (quantile in QUANTILES and has_quantiles)


def _bare(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())


def explain(name: str, *, width: int = 100) -> str:
    """The text for a known name; a word that means two things (a flag and a state) gets both.

    Raises:
        KeyError: nothing of that name.
    """
    sections = list(_sections(name))
    if not sections:
        raise KeyError(name)
    return "\n\n".join(_render(section, width) for section in sections) + "\n"


def _render(section: Section, width: int) -> str:
    heading, paragraphs = section
    lines = [textwrap.fill(heading, width, break_on_hyphens=False)] if heading else []
    for text in paragraphs:
        if text.startswith(" "):
            indent = len(text) - len(text.lstrip())
            lines.append(textwrap.fill(text.strip(), width, initial_indent=" " * indent,
                                       subsequent_indent=" " * (indent + 4), break_on_hyphens=False))  # fmt: skip
        else:
            lines.append(textwrap.fill(text, width, break_on_hyphens=False))
    return "\n".join(lines)


def _sections(name: str) -> Iterator[Section]:
    reading, _, quantile = name.partition(" ")
    if quantile in QUANTILES and reading in READINGS:
        yield f"{name}: {QUANTILES[quantile]} of {reading}", [QUANTILE_TEXT]
        yield from _sections(reading)
        return
    if name == "exit-codes":
        yield "EXIT CODES", [f"  {code:<4} {meaning} -> {who}" for code, meaning, who in EXIT_CODES]
        yield "", [PRECEDENCE_TEXT]
    if name in load_audits():
        yield from _audit(name, load_audits()[name])
    if name in load_levers():
        yield from _lever(name)
    if name in READINGS:
        yield from _reading(name)
    if name in FLAGS or name in ELSEWHERE:
        yield from _flag(name)
    if name in STATES:
        yield f"{name}: the state of a reading", [STATES[name]]
    if name in VERDICTS:
        yield f"{name}: a verdict", [VERDICTS[name]]
    for kind, text in MEANINGS.get(name, ()):
        yield f"{name}: {kind}", [text]
    for engine in load_vocabulary().engines:
        if engine.name == name:
            yield from _engine(engine)


def _paragraphs(docstring: str | None) -> list[str]:
    text = inspect.cleandoc(docstring or "")
    return [" ".join(p.split()) for p in text.split("\n\n") if p.strip()]


# --------------------------------------------------------------------------- audits and levers


def _audit(name: str, module: Audit) -> Iterator[Section]:
    title, *rest = _paragraphs(module.__doc__)
    yield f"{name}: an audit. {title}", []
    for paragraph in rest:
        yield "", [paragraph]
    yield "READINGS", [f"  {n}: {READINGS[n].headline}" for n in module.NEEDS]
    quantities = [q for n in module.NEEDS for q in quantities_behind(n)]
    yield from _series(list(dict.fromkeys(quantities)))
    for example in module.EXAMPLES:
        readings = read_subject(example_subject(example, Options()), Options())
        verdict = run_audit(name, readings, Options())
        yield (
            f"EXAMPLE: {verdict.verdict}",
            [
                f"  {example.text}",
                *_given(example, example.quantities),
                f"  {verdict.question} {verdict.summary}",
                f"  expected {verdict.expected}; found {verdict.found}",
            ],
        )


def _lever(name: str) -> Iterator[Section]:
    module = sys.modules[load_levers()[name].__module__]
    title, *rest = _paragraphs(module.__doc__)
    yield f"{name}: a lever. {title}", []
    for paragraph in rest:
        yield "", [paragraph]
    yield "", ["A lever's ceiling is the most it can gain in request service time, never a promise."]


# --------------------------------------------------------------------------- readings and flags


def _reading(name: str) -> Iterator[Section]:
    declared = READINGS[name]
    kind = "a distribution" if declared.distribution else "a reading"
    better = f"; better is {declared.better}" if declared.better else ""
    yield f"{name}: {kind} ({declared.unit}{better})", _paragraphs(declared.text)
    shared = _paragraphs(declared.theme_text)[1:]
    if shared:
        yield "", shared
    used = [audit for audit, module in load_audits().items() if name in module.NEEDS]
    if used:
        yield "", [f"Judged by: {', '.join(used)}. A metrics server's query for it: auditor queries {name}"]
    behind = quantities_behind(name)
    yield from _series(behind)
    notes = [f"  {e.title}: {e.notes[name]}" for e in load_vocabulary().engines if name in e.notes]
    if notes:
        yield "BEWARE", notes
    for example in _examples(preferred=used):
        reading = example_subject(example, Options()).read(name)
        if reading.has_value or reading.state == "bounded":
            given = {q: v for q, v in example.quantities.items() if q in behind} or example.quantities
            result = f"  {name} = {reading_words(reading.to_json())}"
            yield "EXAMPLE", [f"  {example.text}", *_given(example, given), result]
            return


def _flag(name: str) -> Iterator[Section]:
    yield f"{name}: a flag", [" ".join(flag_text(name).split())]
    carried = [audit for audit, module in load_audits().items() if name in words_in(module.audit)]
    if carried:
        yield "", [f"Shown beside: {', '.join(carried)}"]
    for example in _examples(preferred=carried):
        readings = read_subject(example_subject(example, Options()), Options())
        if name in readings.flags and name != "aborts_not_exported":
            result = f"  {name}: {readings.facts[name]}"
            yield "EXAMPLE", [f"  {example.text}", *_given(example, example.quantities), result]
            return


def _examples(*, preferred: Sequence[str]) -> Iterator[Example]:
    audits = load_audits()
    for audit in (*preferred, *(a for a in audits if a not in preferred)):
        yield from audits[audit].EXAMPLES


def _given(example: Example, quantities: Mapping[str, Any]) -> list[str]:
    """The figures of an example, one quantity a line."""
    length = "length unknown" if example.seconds is None else f"{example.seconds:g} s"
    lines = [f"    window: {example.kind}, {length}"]
    lines += [f"    {name}: {_figures(value)}" for name, value in quantities.items()]
    return lines + [f"    {name} = {value} (given)" for name, value in example.settings.items()]


def _figures(value: Any) -> str:
    if isinstance(value, Mapping) and "buckets" in value:
        filled = ", ".join(f"{n:g} up to {edge:g}" for edge, n in value["buckets"].items() if n)
        return f"sum {value['sum']:,g}, count {value['count']:,g} ({filled})"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {v:,g}" if isinstance(v, int | float) else f"{key} {v}" for key, v in value.items())
    if isinstance(value, tuple):
        return " -> ".join(f"{v:g}" for v in value)
    return f"{value:,g}"


# --------------------------------------------------------------------------- engines


def _engine(engine: Engine) -> Iterator[Section]:
    runs = "alone: seated streams stand still" if engine.prefill_runs == "alone" else "in the same steps as decode"
    yield f"{engine.name}: an engine, {engine.title} {engine.releases}. It runs prefill {runs}.", []
    yield "NAMES ON A PAGE", [f"  {line}" for line in form_lines(engine)]
    lines: list[str] = []
    for row in quantity_rows(engine):
        lines.append(f"  {row.name}: {row.series}: {row.counts}")
        lines += [f"      caveat: {text}" for text in row.caveats]
        lines += [f"      where it is missing: {row.missing}"] if row.missing else []
    yield "QUANTITIES AND THEIR SERIES", lines
    for heading, table in (
        ("WHAT IT DOES NOT EXPORT", engine.holes),
        ("BEWARE", engine.notes),
        ("NOT COMPARED WITH OTHER ENGINES", engine.differs),
    ):
        if table:
            yield heading, [f"  {name}: {text}" for name, text in table.items()]


# --------------------------------------------------------------------------- series behind a reading


def _series(quantities: Sequence[str]) -> Iterator[Section]:
    """What stands on the pages of each engine, and what its figures count."""
    for engine in load_vocabulary().engines:
        lines = [line for name in quantities if name in engine.quantities for line in _declared(engine, name)]
        lines += [f"  none for {name}: {engine.holes[name]}" for name in quantities if name in engine.holes]
        if lines:
            yield f"SERIES ({engine.title})", lines


def _declared(engine: Engine, name: str) -> Iterator[str]:
    q = engine.quantities[name]
    where = "".join(f" {key}={'|'.join(values)}" for key, values in q.where.items())
    split = f" by {q.split}" if q.split else ""
    older = f" (older: {', '.join(q.series[1:])})" if len(q.series) > 1 else ""
    yield f"  {q.series[0]}{where}{split}{older}: {q.kind}, {q.counts}"
    for caveat in q.caveats:
        yield f"      caveat: {caveat}"
