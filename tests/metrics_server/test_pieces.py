"""A past window in pieces: what is refused beforehand, and engines that are not there all the time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.http import Transport
from auditor.measures.vocabulary import Vocabulary
from auditor.model import UsageError
from auditor.ranges import RangeRequest, collect_pieces
from tests.cli.support import Ended, auditor
from tests.metrics_server.conftest import Gather, readings_of
from tests.metrics_server.samples import END, Replica
from tests.metrics_server.scripted import Asked, Reply, Script, error, scripted
from tests.metrics_server.servers import Store, prometheus

START = END - 7200.0
LATE = END - 3585.0
"""The second engine is there from here on."""


# --------------------------------------------------------------------------- what is refused


def test_pieces_of_too_few_scrapes_are_refused_before_one_is_asked_for(vocabulary: Vocabulary) -> None:
    with scripted(Script()) as script:
        request = RangeRequest(script.url, 3600.0, END)
        with pytest.raises(UsageError) as raised:
            next(collect_pieces(request, 120, vocabulary, transport=Transport()))
        assert "pieces of 30 s" in str(raised.value)
        assert "every 15 s" in str(raised.value)
        assert "--split 60s" in str(raised.value)
        assert not any("[30s]" in a.query for a in script.asked)
        piece = next(collect_pieces(request, 60, vocabulary, transport=Transport()))
    assert piece.seconds == 60
    assert (piece.start, piece.end) == (END - 3600, END - 3540)
    assert readings_of(piece)["finished_requests"]["value"] == 100


def test_a_window_too_large_to_look_at_as_a_whole_is_asked_for_in_pieces(vocabulary: Vocabulary) -> None:
    def limited(asked: Asked) -> Reply | None:
        # The names are told by a metrics server whatever the range; samples of a whole hour are not.
        whole = "[3600s]" in asked.query or "[1800s]" in asked.query or "[900s]" in asked.query
        too_much = whole and "count_over_time" in asked.query and "by (model_name, job, instance)" in asked.query
        return error(422, "execution", "query processing would load too many samples") if too_much else None

    with scripted(Script([limited])) as script:
        request = RangeRequest(script.url, 3600.0, END)
        piece = next(collect_pieces(request, 30, vocabulary, transport=Transport()))
    assert piece.targets[0].state == "measured"


def test_more_than_a_thousand_pieces_are_refused_and_nothing_is_asked(tmp_path: Path) -> None:
    with scripted(Script()) as script:
        where = ("--prometheus", script.url, "--window", "90d", "--end", END)
        found = auditor("collect", *where, "--split", "15m", "-o", tmp_path / "w.json")
        assert script.asked == []
    assert found.code == 2
    assert "8640 pieces" in found.err
    assert "at most 1000" in found.err


def test_what_it_will_cost_is_said_before_the_first_piece(vocabulary: Vocabulary) -> None:
    said: list[str] = []
    with scripted(Script()) as script:
        request = RangeRequest(script.url, 36_000.0, END)
        next(collect_pieces(request, 600, vocabulary, transport=Transport(), say=said.append))
    # 600 pieces of 70 queries, 40 a second.
    assert said[0] == "600 pieces: about 42,000 queries, 18 minutes or more"
    assert said[1].startswith("piece 1 of 600: ")


# --------------------------------------------------------------------------- engines that come and go


def add_sglang(store: Store, start: float, end: float) -> None:
    """An SGLang that answers 2 requests of 50 prompt tokens each scrape."""
    labels = {"model_name": "other", "instance": "b:30000", "job": "sglang"}
    times = [start + 15.0 * i for i in range(int((end - start) / 15) + 1)]
    for name, each in (("prompt_tokens_total", 100), ("generation_tokens_total", 40), ("num_requests_total", 2)):
        store.add(f"sglang:{name}", labels, [(at, 1000.0 + each * i) for i, at in enumerate(times)])
    store.add("sglang:num_running_reqs", labels, [(at, 1.0) for at in times])
    store.add("up", {"instance": "b:30000", "job": "sglang"}, [(at, 1.0) for at in times])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    store = Store()
    Replica("a:8000", started=START - 9000).run(store, START - 60, END)
    add_sglang(store, LATE, END)
    with prometheus(store) as address:
        yield address


def pieces(url: str, folder: Path, window: str, split: str) -> tuple[Ended, list[dict[str, object]]]:
    where = ("--prometheus", url, "--window", window, "--end", END)
    done = auditor("collect", *where, "--split", split, "-o", folder / "w.json")
    return done, [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.iterdir())]


@pytest.mark.live
def test_an_engine_that_is_away_in_a_piece_is_named_there(url: str, tmp_path: Path) -> None:
    done, found = pieces(url, tmp_path, "2h", "30m")
    assert done.code == 0, done.err
    assert len(found) == 4
    absent = f"{url} (sglang:)"
    for number, piece in enumerate(found):
        states = {t["address"]: t["state"] for t in piece["targets"]}  # type: ignore[attr-defined]
        warnings = [w for w in piece["window"]["warnings"] if absent in w]  # type: ignore[index]
        # The address of what is pooled does not depend on who else was there.
        assert states[f"{url} (vllm:)"] == "measured"
        assert states[absent] == ("failed" if number < 2 else "measured")
        assert len(warnings) == (1 if number < 2 else 0)
    assert "not one sample lies in this window" in done.err
    report = auditor("audit", tmp_path / "w-01.json", "--as", "json")
    assert report.code == 0, report.err
    # 120 scrapes of 3 requests.
    assert report.value("finished_requests") == pytest.approx(360, rel=0.02)
    assert report.subject["readings"]["finished_requests"]["state"] == "measured"


@pytest.mark.live
def test_nobody_is_there_and_each_is_named(url: str, tmp_path: Path) -> None:
    done, found = pieces(url, tmp_path, "6h", "2h")
    assert done.code == 0, done.err
    assert [(t["address"], t["state"]) for t in found[0]["targets"]] == [  # type: ignore[attr-defined]
        (f"{url} (sglang:)", "failed"),
        (f"{url} (vllm:)", "failed"),
    ]
    assert found[0]["window"]["coverage"] == 0  # type: ignore[index]
    assert auditor("audit", tmp_path / "w-01.json").code == 3


@pytest.mark.live
@pytest.mark.parametrize("exact", [False, True])
def test_an_engine_without_a_sample_costs_the_others_nothing(url: str, gather: Gather, exact: bool) -> None:
    window = gather(url, 1800.0, END - 4200, exact=exact)
    states = {t.address: t.state for t in window.targets}
    assert states[f"{url} (sglang:)"] == "failed"
    assert any("sglang:" in w and "not one sample" in w for w in window.warnings)
    assert readings_of(window)["finished_requests"]["value"] == pytest.approx(360, rel=0.02)
    assert window.coverage == pytest.approx(1.0, abs=0.02)


@pytest.mark.live
def test_raw_samples_are_cut_by_each_targets_own_times(url: str, tmp_path: Path) -> None:
    where = ("--prometheus", url, "--window", "2h", "--end", END, "--exact")
    done = auditor("collect", *where, "--split", "30m", "-o", tmp_path / "w.json")
    assert done.code == 0, done.err
    tokens = []
    for path in sorted(tmp_path.iterdir()):
        report = auditor("audit", path, "--as", "json")
        found = {s["labels"]["engine"]: s["readings"]["prompt_tokens"]["value"] for s in report.json["subjects"]}
        tokens.append((found.get("vllm"), found.get("sglang")))
    # 120 scrapes of 300 tokens, and of 100 tokens: 119 in the third piece, since the first one only begins it.
    assert [t for t, _ in tokens] == [36_000] * 4
    assert [t for _, t in tokens] == [None, None, 11_900, 12_000]
