"""Makes docs/engines.md: what the recorded pages of each release give, from which series, and the holes.

A mark is what the auditor really read off the release's pages under ``fixtures/``, not what a declaration promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from auditor.measures.readings import READINGS
from auditor.measures.sheet import form_lines, quantity_rows, series_words
from auditor.measures.vocabulary import Engine, load_vocabulary
from auditor.model import Reading
from tests.engines.pages import FIXTURES, audit_pages

PAGE = "docs/engines.md"
# Release -> folders with recorded loads, or a single page; whole pages only, so that a missing series says something.
RECORDED: Mapping[str, Mapping[str, Sequence[str]]] = {
    "vllm": {
        "0.11.0": tuple(f"vllm/0.11.0/{n}" for n in ("a-decode-heavy", "c-shared-prefix", "p-preemption")),
        "0.32.0": tuple(
            f"vllm/0.32.0/{n}" for n in ("a-decode-heavy", "c-shared-prefix", "h-spec-ngram", "n-mfu", "p-preemption")
        ),
    },
    "sglang": {
        "0.4.0 to 0.4.4": ("public/sglang-docs-2025-03.prom",),
        "0.4.6": ("sglang/0.4.6.post5/driven-collector",),
        "0.5.6": ("sglang/0.5.6/driven-collector",),
        "0.5.23": tuple(f"sglang/0.5.23/{n}" for n in ("mixed", "overload-queue", "prefix-hit", "retracted")),
    },
    "llamacpp": {"11434": tuple(f"llamacpp/11434/{n}" for n in ("mixed", "prefix-hit"))},
}
SECONDS = 60.0
"""Stands in for the length of the recordings, so that rates have something to divide by."""
MARKS = {"measured": "yes", "partial": "yes", "bounded": "range", "no_traffic": "idle", "invalid": "refused"}
ORDER = ("measured", "partial", "bounded", "no_traffic", "invalid", "absent", "not_exported", "failed")
HEAD = """# Engines

Made by `python -m tests.generated` from `queries/*.toml` and the recorded pages under `fixtures/`: what the auditor
really read off the pages of each release. `auditor explain vllm` (sglang, llamacpp) prints the declarations,
`auditor doctor URL` says the same of one page.

| mark | meaning |
|---|---|
| yes | a value |
| range | limits that hold, no value |
| idle | the series is there; the recorded load did not move it |
| refused | the page contradicts itself for this reading |
| - | no series; the holes say why, and what would bring it |
"""


def engines_page() -> Mapping[str, str]:
    """The file and its text."""
    blocks = [HEAD]
    for engine in load_vocabulary().engines:
        blocks.append(_engine(engine))
    blocks.append(_refusals())
    return {PAGE: "\n".join(block.rstrip() + "\n" for block in blocks)}


def _engine(engine: Engine) -> str:
    found = {release: _best_readings(paths) for release, paths in RECORDED.get(engine.name, {}).items()}
    return "\n".join([
        f"## {engine.title}", "",
        f"Releases: {engine.releases}. Names on a page:", "",
        *(f"- {_code(line)}" for line in form_lines(engine)), "",
        *_reading_table(engine, found),
        *_holes(engine, found),
        *_quantity_table(engine),
    ])  # fmt: skip


def _code(line: str) -> str:
    prefix, _, note = line.partition("... ")
    return f"`{prefix}`: {note}"


def _best_readings(paths: Sequence[str]) -> dict[str, Reading]:
    best: dict[str, Reading] = {}
    for path in paths:
        for reading in _readings(FIXTURES / path):
            old = best.get(reading.name)
            if old is None or ORDER.index(reading.state) < ORDER.index(old.state):
                best[reading.name] = reading
    return best


def _readings(path: Path) -> Iterator[Reading]:
    after, before = (path, path) if path.is_file() else (path / "after.prom", path / "before.prom")
    pair = before if before.exists() and before != after else None
    for subject in audit_pages(after, before=pair, seconds=SECONDS).subjects:
        yield from subject.readings.values()


def _reading_table(engine: Engine, found: Mapping[str, Mapping[str, Reading]]) -> Iterator[str]:
    yield "### Readings by release"
    yield ""
    if not found:
        yield "No page is recorded yet."
        yield ""
        return
    yield f"| reading | {' | '.join(found)} | series | beware |"
    yield f"|---|{'---|' * len(found)}---|---|"
    for name in READINGS:
        marks = [MARKS.get(readings[name].state, "-") for readings in found.values()]
        if set(marks) == {"-"}:
            continue
        newest = next(r[name] for r in reversed(list(found.values())) if r[name].state in MARKS)
        declared = [engine.quantities[q] for q in newest.sources if q in engine.quantities]
        series = "<br>".join(_series(series_words(q)) for q in declared)
        beware = engine.notes.get(name) or engine.differs.get(name) or ""
        yield f"| {name} | {' | '.join(marks)} | {series or 'a setting'} | {_cell(beware)} |"
    yield ""


def _holes(engine: Engine, found: Mapping[str, Mapping[str, Reading]]) -> Iterator[str]:
    if not found:
        return
    newest_release, newest = list(found.items())[-1]
    yield f"### Holes in {newest_release}"
    yield ""
    yield "| reading | why, and what would bring it |"
    yield "|---|---|"
    for name in READINGS:
        if newest[name].state not in MARKS:
            yield f"| {name} | {_cell(newest[name].reason or newest[name].state)} |"
    yield ""


def _quantity_table(engine: Engine) -> Iterator[str]:
    yield "### Series"
    yield ""
    yield "| quantity | series | one count is | beware | where it is missing |"
    yield "|---|---|---|---|---|"
    for row in quantity_rows(engine):
        cells = (row.counts, "; ".join(row.caveats), row.missing)
        yield f"| {row.name} | {_series(row.series)} | {' | '.join(_cell(c) for c in cells)} |"
    yield ""


def _refusals() -> str:
    lines = ["## Known and not audited", "", "| producer | names | answer |", "|---|---|---|"]
    lines += [f"| {r.title} | `{r.prefix}` | {_cell(r.reason)} |" for r in load_vocabulary().refusals]
    return "\n".join(lines)


def _series(words: str) -> str:
    # A bar would end the cell, also inside code.
    return f"`{words.replace('|', ' or ')}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
