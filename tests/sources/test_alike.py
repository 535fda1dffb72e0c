"""A reader that has seen a page reads the next one exactly as ``parse_page`` does, whatever became of it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Page
from auditor.sources import alike
from auditor.sources.alike import PageReader
from auditor.sources.bodies import PageError
from auditor.sources.exposition import parse_page

FIXTURES = Path(__file__).parents[2] / "fixtures"
WANTED = load_vocabulary().wanted
SMALL = (
    b"# HELP vllm:hits_total Hits.\n"
    b"# TYPE vllm:hits_total counter\n"
    b'vllm:hits_total{engine="0",model_name="m"} 5.0\n'
    b'vllm:hits_total{engine="1",model_name="m"} 6.0\n'
    b"# TYPE python_gc counter\n"
    b'python_gc{generation="0"} 1.0\n'
    b'python_gc{generation="1"} 2.0\n'
    b"process_start_time_seconds 1.79596212e+09\n"
)
Read = tuple[object, ...]


def outcome(page: Page) -> Read:
    samples = [(s.name, s.labels, repr(s.value)) for s in page.samples]  # NaN is not equal to itself
    return samples, dict(page.kinds), dict(page.helps), page.samples_read, page.names_read


def by_parser(body: bytes, content_type: str | None = None) -> Read | str:
    try:
        return outcome(parse_page(body, content_type=content_type, wanted=WANTED))
    except PageError as error:
        return f"{error.kind}: {error}"


def by_reader(reader: PageReader, body: bytes, content_type: str | None = None) -> Read | str:
    try:
        return outcome(reader.read(body, content_type=content_type))
    except PageError as error:
        return f"{error.kind}: {error}"


def pages() -> list[Path]:
    named = (p for p in FIXTURES.rglob("*") if p.name.endswith((".prom", ".prom.gz")) or "openmetrics" in p.name)
    return sorted(p for p in named if p.is_file())


def body_of(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


@pytest.mark.parametrize("folder", sorted({p.parent for p in pages()}), ids=lambda p: str(p.relative_to(FIXTURES)))
def test_recorded_pages_are_read_as_the_parser_reads_them(folder: Path) -> None:
    reader = PageReader(WANTED)
    for path in [p for p in pages() if p.parent == folder][:12]:
        body = body_of(path)
        for again in (body, body, body.replace(b" 0.0\n", b" 7.25\n")):
            assert by_reader(reader, again) == by_parser(again), path


CHANGES = {
    "another number": (b" 5.0\n", b" 8.5\n"),
    "NaN": (b" 5.0\n", b" NaN\n"),
    "infinity": (b" 5.0\n", b" +Inf\n"),
    "Python's infinity, which no format knows": (b" 5.0\n", b" infinity\n"),
    "Python's underscores, which no format knows": (b" 5.0\n", b" 1_0\n"),
    "no number": (b" 5.0\n", b" \n"),
    "two numbers: the second is a timestamp": (b" 5.0\n", b" 5.0 1795962123000\n"),
    "a sign alone": (b" 5.0\n", b" -\n"),
    "two points": (b" 5.0\n", b" 1.2.3\n"),
    "too large for a float": (b" 5.0\n", b" 1e999\n"),
    "Windows line ends": (b"\n", b"\r\n"),
    "another description": (b"counter\nvllm", b"gauge\nvllm"),
    "no known kind": (b"counter\nvllm", b"thing\nvllm"),
    "another help": (b"Hits.", b"Misses."),
    "a series more": (b"# TYPE python", b'vllm:hits_total{engine="2",model_name="m"} 1.0\n# TYPE python'),
    "a series twice": (b'engine="1"', b'engine="0"'),
    "another label": (b'engine="1"', b'engine="3"'),
    "the first line of an unwanted name is no number": (b" 1.0\n", b" one\n"),
    "a later line of an unwanted name is no number": (b" 2.0\n", b" two\n"),
    "cut inside the last number": (b"1.79596212e+09\n", b"1.795"),
    "a space after the last newline": (b"e+09\n", b"e+09\n "),
    "an escape": (b'"m"} 6', b'"m\\\\n"} 6'),
    "a blank line": (b"# TYPE python", b"\n# TYPE python"),
    "complete": (b"e+09\n", b"e+09\n# EOF\n"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("content_type", [None, "application/openmetrics-text; version=1.0.0"])
def test_a_changed_page_is_read_or_refused_as_the_parser_does(change: str, content_type: str | None) -> None:
    old, new = CHANGES[change]
    assert old in SMALL
    changed = SMALL.replace(old, new)
    for first, then in ((SMALL, changed), (changed, SMALL), (changed, changed)):
        reader = PageReader(WANTED)
        by_reader(reader, first, content_type)
        assert by_reader(reader, then, content_type) == by_parser(then, content_type)


@settings(max_examples=1000, deadline=None)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, len(SMALL) - 1), st.sampled_from([b"", b" ", b"\n", b"#", b'"', b"{", b"9", b"e", b"}"])
        ),
        max_size=4,
    )
)
def test_fuzzed_pages_are_read_or_refused_as_the_parser_does(edits: list[tuple[int, bytes]]) -> None:
    reader = PageReader(WANTED)
    reader.read(SMALL)
    body = SMALL
    for at, text in edits:
        body = body[:at] + text + body[at + 1 :]
        assert by_reader(reader, body) == by_parser(body)


def test_like_pages_are_parsed_once_and_share_their_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(body: bytes, **options: object) -> Page:
        calls.append(body)
        return parse_page(body, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(alike, "parse_page", counted)
    reader = PageReader(WANTED)
    read = [reader.read(SMALL.replace(b" 5.0\n", f" {n}\n".encode())) for n in range(5)]
    assert len(calls) == 1
    assert [page.values[0] for page in read] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert {page.shape for page in read} == {read[0].shape}
