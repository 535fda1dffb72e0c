"""The declarations themselves: every word is known, nothing is named twice, and the recorded pages hold no stranger."""

from __future__ import annotations

import pytest

from auditor.measures.readings import READINGS
from auditor.measures.vocabulary import Engine, load_vocabulary, unknown_names
from auditor.sources.exposition import parse_page
from auditor.sources.files import read_file
from tests.engines.engines_page import PAGE, engines_page
from tests.engines.pages import FIXTURES

ENGINES = load_vocabulary().engines
PAGES = sorted((FIXTURES / "sglang").rglob("*.prom")) + sorted((FIXTURES / "llamacpp").rglob("*.prom"))
# Holes that are told of where a reading asks for them by another word than a quantity's name.
NO_QUANTITY = {"finish_reasons", "kv_max_concurrency"}
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.name)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: "/".join(p.parts[-4:]))
def test_every_series_of_a_recorded_page_is_known(path) -> None:  # type: ignore[no-untyped-def]
    vocabulary = load_vocabulary()
    page = parse_page(read_file(str(path)), wanted=vocabulary.wanted)
    found = vocabulary.recognise(page.names_read)
    assert found is not None
    engine, form = found
    assert unknown_names(engine, form.prefix, page.names_read) == []


@each_engine
def test_tables_name_what_exists(engine: Engine) -> None:
    """A typo in a table would silently say nothing."""
    every = {name for e in ENGINES for name in e.quantities}
    assert not set(engine.holes) & set(engine.quantities)
    assert set(engine.holes) - every <= NO_QUANTITY
    assert set(engine.notes) <= set(READINGS)
    assert set(engine.differs) <= set(READINGS)
    for names in engine.traits.get("pair", {}).values():
        assert set(names) <= set(engine.quantities)
    for q in engine.quantities.values():
        assert set(q.zero_beside) <= set(engine.quantities), q.name
        assert not q.split_names or q.split, q.name


@each_engine
def test_a_pair_takes_each_quantity_from_one_node(engine: Engine) -> None:
    lists = [set(names) for names in engine.traits.get("pair", {}).values()]
    assert sum(map(len, lists)) == len(set().union(*lists))


@each_engine
def test_series_start_with_the_engines_own_prefix(engine: Engine) -> None:
    for q in engine.quantities.values():
        assert all(name.startswith(engine.prefix) for name in q.series), q.name


def test_a_split_word_is_the_first_that_fits() -> None:
    """``forward_draft_extend`` is decode work of speculation though it ends in extend."""
    seconds = load_vocabulary().engine("sglang").quantities["engine_seconds"]
    words = {"extend": "prefill", "forward_prefill": "prefill", "forward_draft_extend": "decode", "mixed": "mixed"}
    words |= {"target_verify": "decode", "decode": "decode", "idle": "idle"}
    assert {value: seconds.split_word(value) for value in words} == words


def test_the_engines_page_is_what_the_pages_give() -> None:
    made = engines_page()[PAGE]
    assert (FIXTURES.parent / PAGE).read_text(encoding="utf-8") == made
    table, holes = made.split("## SGLang")[1].split("### Holes", 1)
    rows = {line.split(" | ")[0]: line for line in table.splitlines() if line.startswith("| ")}
    assert rows["| decode_seconds"].startswith("| decode_seconds | refused | range | range | range |")
    assert rows["| prefill_seconds"].startswith("| prefill_seconds | - | - | yes | yes |")
    (timer,) = [line for line in holes.splitlines() if line.startswith("| frozen_time_share |")]
    assert "SGLANG_ENABLE_METRICS_DEVICE_TIMER=1" in timer
