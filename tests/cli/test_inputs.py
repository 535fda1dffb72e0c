"""Every way in which evidence comes in, with the same right values whichever way it came."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.captures.support import raw_page, total
from tests.cli.support import FIXTURES, NEW, A, B, C, Ended, auditor, in_turn, process, serve

SERIES = NEW / "l-series"


def page(folder: Path, name: str) -> bytes:
    return (folder / f"{name}.prom").read_bytes()


def life(folder: Path, name: str = "vllm:prompt_tokens_total") -> float:
    """A counter since the server's start, straight from the page."""
    return total(raw_page(folder / "after.prom"), name)


def check_a(found: Ended) -> None:
    """Capture a: 80 requests, 60 of them cut off by length, 1,863 prompt tokens."""
    assert found.code == 0, found.err
    assert found.value("finished_requests") == 80
    assert found.value("prompt_tokens") == 1863
    assert found.value("length_share") == pytest.approx(0.75)


def test_one_scrape_of_a_server() -> None:
    with serve(in_turn(page(A, "after"))) as server:
        found = auditor("audit", server.url("").removeprefix("http://"), "--as", "json")
        assert server.asked == {"/metrics": 1}
    assert found.json["window"]["kind"] == "lifetime"
    assert "lifetime_only" in found.subject["flags"]
    assert found.value("prompt_tokens") == life(A)
    assert found.json["targets"][0]["address"] == server.url()


def test_two_scrapes_with_progress_on_stderr() -> None:
    with serve(in_turn(page(A, "before"), page(A, "after"))) as server:
        found = auditor("audit", server.url(), "--window", "50ms", "--as", "json")
        assert server.asked == {"/metrics": 2}
    check_a(found)
    assert found.json["window"]["kind"] == "scrapes"
    assert found.json["window"]["seconds"] == pytest.approx(0.05, abs=0.3)
    assert "first scrape done" in found.err
    assert "scrape done" not in found.out


def test_two_saved_pages() -> None:
    found = auditor("audit", "--before", A / "before.prom", A / "after.prom", "--seconds", "7.5052", "--as", "json")
    check_a(found)
    assert found.json["window"]["seconds"] == 7.5052
    assert found.value("prompt_tokens_per_wall_second") == pytest.approx(1863 / 7.5052)
    assert found.json["window"]["source"] == "before.prom -> after.prom"


def test_a_file_and_standard_input_say_the_same() -> None:
    named = auditor("audit", A / "after.prom", "--as", "json")
    piped = process("audit", "-", "--as", "json", stdin=page(A, "after"))
    assert named.code == piped.returncode == 0
    other = json.loads(piped.stdout)
    assert other["subjects"][0]["readings"] == named.subject["readings"]
    assert other["targets"][0]["address"] == "standard input"


def test_a_series_with_every() -> None:
    pages = sorted(SERIES.glob("0[0-2]?.prom.gz"))
    found = auditor("audit", "--series", *pages, "--every", "2s", "--as", "json")
    assert found.code == 0
    assert found.json["window"]["seconds"] == 2 * (len(pages) - 1)
    assert len(found.json["course"]["times"]) == len(pages) - 1
    # The distance of the pages was given, the day was not.
    assert set(found.json["course"]["times"]) == {None}
    assert found.json["window"]["start"] is None


def test_recorded_times_of_a_series(tmp_path: Path) -> None:
    pages = sorted(SERIES.glob("*.prom.gz"))
    found = auditor("audit", "--series", *pages, "--times", SERIES / "timestamps.json", "--as", "json")
    assert found.code == 0
    assert found.value("finished_requests") == 258
    assert found.json["course"]["times"][0] == "2026-11-29T14:46:48.686Z"
    assert found.json["window"]["start"] == "2026-11-29T14:46:46.672Z"
    plain = tmp_path / "times.json"
    plain.write_text(json.dumps([t["at"] for t in json.loads((SERIES / "timestamps.json").read_text())]))
    again = auditor("audit", "--series", *pages, "--times", plain, "--as", "json")
    assert again.out == found.out


def test_a_saved_window_gives_the_same_bytes(tmp_path: Path) -> None:
    saved = tmp_path / "window.json"
    pair = ("--before", A / "before.prom", A / "after.prom", "--seconds", "7.5")
    live = auditor("audit", *pair, "--as", "json", "--budget", "2048")
    assert auditor("collect", *pair, "--budget", "2048", "-o", saved).code == 0
    again = auditor("audit", saved, "--as", "json")
    assert again.out == live.out
    # And through a pipe.
    collected = auditor("collect", *pair, "--budget", "2048")
    assert collected.out == saved.read_text()
    piped = process("audit", "-", "--as", "json", stdin=collected.out.encode())
    assert piped.stdout.decode() == live.out
    # Packed, too.
    packed = tmp_path / "window.json.gz"
    packed.write_bytes(gzip.compress(saved.read_bytes()))
    assert auditor("audit", packed, "--as", "json").out == live.out


def test_a_saved_window_of_live_scrapes_and_of_a_series(tmp_path: Path) -> None:
    saved = tmp_path / "w.json"
    with serve(in_turn(page(A, "before"), page(A, "after"))) as server:
        assert auditor("collect", server.url(), "--window", "20ms", "-o", saved).code == 0
    check_a(auditor("audit", saved, "--as", "json"))
    pages = sorted(SERIES.glob("00?.prom.gz"))
    direct = auditor("audit", "--series", *pages, "--every", "2s", "--as", "json")
    auditor("collect", "--series", *pages, "--every", "2s", "-o", saved)
    assert auditor("audit", saved, "--as", "json").out == direct.out


def test_a_fleet_of_pages_and_servers() -> None:
    with serve(in_turn(page(B, "after"))) as server:
        found = auditor("audit", A / "after.prom", server.url(), C / "after.prom", "--as", "json")
    alone = [auditor("audit", f / "after.prom", "--as", "json").value("prompt_tokens") for f in (A, B, C)]
    assert found.value("prompt_tokens") == sum(alone)
    assert [t["state"] for t in found.json["targets"]] == ["measured"] * 3
    skew = [auditor("audit", f / "after.prom", "--as", "json").value("finished_requests") for f in (A, B, C)]
    assert found.value("engine_skew") == pytest.approx(max(skew) / (sum(skew) / 3))


@pytest.mark.parametrize("by", ["model", "rank", "target", "all"])
def test_subjects(by: str) -> None:
    pages = (A / "after.prom", NEW / "g-data-parallel-2" / "after.prom")
    found = auditor("audit", *pages, "--by", by, "--as", "json")
    labels = [s["labels"] for s in found.json["subjects"]]
    tokens = [s["readings"]["prompt_tokens"]["value"] for s in found.json["subjects"]]
    assert sum(tokens) == life(A) + life(NEW / "g-data-parallel-2")
    assert len(labels) == {"model": 1, "rank": 3, "target": 2, "all": 1}[by]
    assert ("model" in labels[0]) == (by in ("model", "rank"))
    assert ("rank" in labels[0]) == (by == "rank")
    if by == "rank":
        assert sorted(s["rank"] for s in labels) == ["0", "0", "1"]


def test_lists_of_targets(tmp_path: Path) -> None:
    with serve(in_turn(page(A, "after"))) as one, serve(in_turn(page(B, "after"))) as two:
        lines, sd_json, sd_yaml = (tmp_path / n for n in ("t.txt", "t.json", "t.yml"))
        hosts = [f"127.0.0.1:{p.port}" for p in (one, two)]
        lines.write_text(f"# the fleet\n{hosts[0]}\n\n{hosts[1]}  # second\n{hosts[0]}\n")
        sd_json.write_text(json.dumps([{"targets": hosts, "labels": {"job": "vllm"}}]))
        sd_yaml.write_text(
            f"- targets: ['{hosts[0]}']\n- targets: ['{hosts[1]}']\n  labels: {{__metrics_path__: /metrics}}\n"
        )
        found = [auditor("audit", "--targets", f, "--as", "json") for f in (lines, sd_json, sd_yaml)]
    assert [f.code for f in found] == [0, 0, 0]
    assert len({json.dumps(f.subject["readings"]) for f in found}) == 1
    assert [t["address"] for t in found[0].json["targets"]] == [f"http://{h}/metrics" for h in hosts]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "names no target"),
        ("# nothing\n", "names no target"),
        ("[{", "neither one target a line nor file_sd"),
        ('[{"targets": "host:1"}]', "needs a list 'targets'"),
        ('[{"targets": ["h:1"], "labels": 3}]', "labels of a file_sd group"),
    ],
)
def test_wrong_lists_of_targets(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / ("targets.txt" if text.startswith("#") else "targets.json")
    path.write_text(text)
    found = auditor("audit", "--targets", path)
    assert found.code == 2
    assert words in found.err
    assert str(path) in found.err


def test_one_address_given_twice_is_asked_once() -> None:
    with serve(in_turn(page(A, "before"), page(A, "after"))) as server:
        found = auditor("audit", server.url(), server.url(), "--window", "20ms", "--as", "json")
        assert server.asked == {"/metrics": 2}
    check_a(found)


def test_environment_twins() -> None:
    pair = ("--before", A / "before.prom", A / "after.prom", "--as", "json")
    by_option = auditor("audit", *pair, "--seconds", "10", "--budget", "2048")
    by_environment = auditor("audit", *pair, env={"AUDITOR_SECONDS": "10", "AUDITOR_BUDGET": "2048"})
    assert by_environment.out == by_option.out
    assert by_option.subject["settings"]["budget"] == {"value": 2048.0, "source": "flag"}
    both = auditor("audit", *pair, "--budget", "4096", env={"AUDITOR_BUDGET": "2048"})
    assert both.subject["settings"]["budget"]["value"] == 4096.0


def test_a_claim() -> None:
    found = auditor(
        "audit",
        "--before",
        FIXTURES / "published" / "t0.prom",
        FIXTURES / "published" / "t1.prom",
        "--seconds",
        "3600",
        "--claim",
        "prefill_rate=1860",
        "--as",
        "json",
    )
    (claim,) = found.subject["claims"]
    assert claim["matches"] == ["prompt_tokens_per_wall_second"]
    assert claim["is_what_it_says"] is False


def test_demo_needs_nothing() -> None:
    found = auditor("demo", "--as", "json")
    assert found.code == 0
    assert found.value("finished_requests") == 260


def test_openmetrics_by_its_content_type() -> None:
    body = (FIXTURES / "cases" / "13-openmetrics-rust-frontend" / "input.openmetrics.txt").read_bytes()
    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    with serve(lambda path, before: (200, body, kind)) as server:
        found = auditor("audit", server.url(), "--as", "json")
    assert found.value("prompt_tokens") == 34_567_503
    with serve(lambda path, before: (200, body.removesuffix(b"# EOF\n"), kind)) as server:
        cut = auditor("audit", server.url(), "--as", "json")
    assert cut.code == 3
    assert "cut off" in cut.json["targets"][0]["reason"]


@pytest.mark.parametrize("window", [(), ("--window", "0.2s")], ids=["once", "twice"])
def test_one_server_under_two_names_is_said_to_count_twice(window: tuple[str, ...]) -> None:
    """127.0.0.1 and localhost: creation times are those of one process, so every request would be there twice."""
    with serve(in_turn(page(A, "after"))) as server, serve(in_turn(page(B, "after"))) as other:
        names = [server.url(), server.url().replace("127.0.0.1", "localhost")]
        apart = auditor("audit", names[0], other.url(), *window, "--as", "json")
        both = auditor("audit", *names, *window, "--as", "json")
    assert apart.json["window"]["warnings"] == []
    (said,) = both.json["window"]["warnings"]
    assert "share their creation times" in said
    assert all(name in said for name in names)


STRANGE = b"# TYPE vllm_routed counter\nvllm_routed_total 1\nvllm_routed_created 1.79596e+09\n"


@pytest.mark.parametrize(
    ("bodies", "window", "state"),
    [
        ((STRANGE,), (), "not_an_engine"),
        ((page(A, "before"),) * 2 + (page(A, "after").replace(b'"tiny"', b'"other"'),), ("--window", "0.2s"), "failed"),
    ],
    ids=["no engine", "another model at the end"],
)
def test_what_is_not_counted_cannot_count_twice(bodies: tuple[bytes, ...], window: tuple[str, ...], state: str) -> None:
    with serve(in_turn(*bodies)) as server:
        names = [server.url(), server.url().replace("127.0.0.1", "localhost")]
        found = auditor("audit", *names, *window, "--as", "json")
    assert [t["state"] for t in found.json["targets"]] == [state] * 2
    assert found.json["window"]["warnings"] == []
