"""Differences of all series at once are the differences of each series, and what is remembered with keys is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.measures import lives
from auditor.measures.moves import Moves
from auditor.measures.reduce import reduce_target
from auditor.measures.targets import SeenServers, build_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Counter, Page, Part, Series, SeriesTable, TargetWindow
from auditor.sources.alike import PageReader
from auditor.sources.files import read_file

VOCABULARY = load_vocabulary()
VLLM = VOCABULARY.engine("vllm")
SERIES = Path(__file__).parents[2] / "fixtures" / "vllm" / "0.32.0" / "l-series"


def recorded(*numbers: int) -> list[Page]:
    reader = PageReader(VOCABULARY.wanted)
    return [reader.read(read_file(str(SERIES / f"{n:03}.prom.gz"))) for n in numbers]


def target_of(pages: list[Page], address: str = "a") -> TargetWindow:
    return build_target(address, [(2.0 * i, page) for i, page in enumerate(pages)], VOCABULARY, saved=False)


@pytest.mark.parametrize("numbers", [(3,), (3, 40), (3, 20, 40, 60, 76)])
def test_vector_differences_are_those_of_each_series(numbers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(recorded(*numbers))
    at_once = reduce_target(target, VLLM)
    assert Moves(target, VLLM, lives.find_lives(target, VLLM)).is_plain

    class OneByOne(Moves):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            self.is_plain = False

    monkeypatch.setattr("auditor.measures.reduce.Moves", OneByOne)
    assert reduce_target(target, VLLM) == at_once
    assert sum(len(part.quantities) for part in at_once) > 30


def page(text: str) -> Page:
    return PageReader(VOCABULARY.wanted).read(text.encode())


def prompt_tokens(parts: tuple[Part, ...]) -> Counter:
    (counter,) = [p.quantities["prompt_tokens"] for p in parts if "prompt_tokens" in p.quantities]
    assert isinstance(counter, Counter)
    return counter


def test_a_restart_of_one_engine_of_a_kind_says_nothing_of_the_next() -> None:
    """Three targets share their keys; 100 -> 160 rises by 60, 100 -> 40 restarted and rose by 40, 100 -> 100 stood."""
    reader = PageReader(VOCABULARY.wanted)
    text = (
        'vllm:prompt_tokens_total{{engine="0",model_name="m"}} {}\n'
        'vllm:generation_tokens_total{{engine="0",model_name="m"}} 1\n'
    )
    found = []
    for after in (160, 40, 100):
        pages = [reader.read(text.format(n).encode()) for n in (100, after)]
        target = target_of(pages)
        found.append((prompt_tokens(reduce_target(target, VLLM)).increase, lives.find_lives(target, VLLM).count))
    assert found == [(60.0, 0), (40.0, 1), (0.0, 0)]


def test_a_series_that_comes_later_starts_from_zero() -> None:
    first = page('vllm:prompt_tokens_total{engine="0",model_name="m"} 5\n')
    later = page(
        'vllm:prompt_tokens_total{engine="0",model_name="m"} 7\n'
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 3\n'
    )
    target = target_of([first, later])
    assert target.series == (
        Series("vllm:prompt_tokens_total", (("engine", "0"), ("model_name", "m")), (5.0, 7.0)),
        Series(
            "vllm:request_success_total",
            (("engine", "0"), ("finished_reason", "stop"), ("model_name", "m")),
            (None, 3.0),
        ),
    )
    (part,) = reduce_target(target, VLLM)
    finished = part.quantities["finished_requests"]
    assert isinstance(finished, Counter)
    assert (finished.increase, prompt_tokens((part,)).increase) == (3.0, 2.0)


def test_a_table_is_a_sequence_of_its_series() -> None:
    series = [Series("x", (), (1.0, None)), Series("y", (("a", "b"),), (2.0, 3.0))]
    table = SeriesTable.of(series)
    assert list(table) == series
    assert (len(table), table[1], table[-1], table[:1]) == (2, series[1], series[1], (series[0],))
    assert not table.is_complete
    assert table == tuple(series)
    assert not SeriesTable.of([])


def test_servers_are_told_apart_by_creation_time_else_by_start_time() -> None:
    start = "process_start_time_seconds 1795962123.5\n"
    created = (
        'vllm:prompt_tokens_created{{engine="0",model_name="m"}} {}\n'
        'vllm:prompt_tokens_total{{engine="0",model_name="m"}} 1\n'
    )
    seen = SeenServers()
    assert seen.is_new(page(created.format(1795962130.25) + start))
    assert seen.is_new(page(created.format(1795962131.5) + start))  # started in the same hundredth: two servers
    assert not seen.is_new(page(created.format(1795962130.25) + start))
    assert not seen.is_new(page(start))  # without a creation time the start time decides
    assert seen.is_new(page("process_start_time_seconds 1795962124.5\n"))
    assert not seen.is_new(page(created.format(1.0) + "process_start_time_seconds 1795962124.5\n"))
