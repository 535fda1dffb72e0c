"""``auditor collect``: where a window goes, and cutting one into repeats."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from auditor.cli import inputs as command_inputs
from tests.cli.support import NEW, ROOT, A, auditor, free_port

SERIES = NEW / "l-series"
PAGES = sorted(SERIES.glob("0*.prom.gz"))
TIMES = SERIES / "timestamps.json"


def length(path: Path) -> float:
    return float(json.loads(path.read_bytes())["window"]["seconds"])


def test_a_name_that_ends_in_gz_gets_gzip(tmp_path: Path) -> None:
    plain, packed, again = tmp_path / "w.json", tmp_path / "w.json.gz", tmp_path / "again.json.gz"
    for path in (plain, packed, again):
        assert auditor("collect", A / "after.prom", "-o", path).code == 0
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()
    assert auditor("audit", packed, "--as", "json").out == auditor("audit", plain, "--as", "json").out


def test_reports_and_exports_named_gz_too(tmp_path: Path) -> None:
    report = tmp_path / "report.json.gz"
    shown = auditor("audit", A / "after.prom", "--as", "json", "--output", f"json={report}")
    assert gzip.decompress(report.read_bytes()).decode() == shown.out


def test_packed_pieces_are_numbered_before_both_endings(tmp_path: Path) -> None:
    done = auditor("collect", "--series", *PAGES, "--times", TIMES, "--split", "60s", "-o", tmp_path / "w.json.gz")
    assert done.code == 0, done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["w-01.json.gz", "w-02.json.gz", "w-03.json.gz"]
    lengths = [float(json.loads(gzip.decompress(p.read_bytes()))["window"]["seconds"]) for p in tmp_path.iterdir()]
    assert sum(lengths) == pytest.approx(173.615, abs=0.01)


def test_pieces_shorter_than_the_distance_of_the_pages(tmp_path: Path) -> None:
    where = ("collect", "--series", *PAGES[:9], "--every", "2s", "-o", tmp_path / "w.json")
    short = auditor(*where, "--split", "1s")
    assert short.code == 2
    assert "--split 1s" in short.err
    assert "2 s here" in short.err
    assert list(tmp_path.iterdir()) == []
    assert auditor(*where, "--split", "2s").code == 0
    assert [length(p) for p in sorted(tmp_path.iterdir())] == [2.0] * 8


def test_a_page_that_could_not_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.prom"
    broken.write_text("<html>sign in</html>")
    pages = [PAGES[0], broken, PAGES[2]]
    found = auditor("collect", "--series", *pages, "--every", "2s", "--split", "2s", "-o", tmp_path / "w.json")
    assert found.code == 3
    assert "broken.prom: " in found.err
    assert "HTML" in found.err
    assert not list(tmp_path.glob("w*"))


def test_a_series_without_times_says_what_is_missing(tmp_path: Path) -> None:
    found = auditor("collect", "--series", *PAGES[:5], "--split", "4s", "-o", tmp_path / "w.json")
    assert found.code == 2
    assert "--every" in found.err


@pytest.mark.parametrize(
    "where",
    [("--before", A / "before.prom", A / "after.prom"), (f"http://127.0.0.1:{free_port()}", "--window", "9h")],
    ids=["two pages", "live"],
)
def test_what_has_no_course_is_refused_before_anybody_waits(where: tuple[object, ...], tmp_path: Path) -> None:
    found = auditor("collect", *where, "--split", "10s", "-o", tmp_path / "w.json")
    assert found.code == 2
    assert "has no course" in found.err


@pytest.mark.parametrize("source", [f"- <{TIMES}", f"<(cat {TIMES})"], ids=["standard input", "pipe"])
def test_times_that_can_be_read_once_only(source: str, tmp_path: Path) -> None:
    pages = " ".join(str(p) for p in PAGES)
    line = f"{sys.executable} -m auditor collect --series {pages} --split 60s -o {tmp_path}/w.json --times {source}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) == 3
    assert sum(length(p) for p in tmp_path.iterdir()) == pytest.approx(173.615, abs=0.01)


def test_insecure_is_said_once(tmp_path: Path) -> None:
    where = ("--series", *PAGES[:9], "--every", "2s", "--insecure")
    found = auditor("collect", *where, "--split", "8s", "-o", tmp_path / "w.json")
    assert found.code == 0
    assert found.err.count("certificates are not verified") == 1


# --------------------------------------------------------------------------- what is imported while a server is asked


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    class Recorded(threading.Thread):
        def start(self) -> None:
            names.append("started")

    monkeypatch.setattr(command_inputs, "Thread", Recorded)
    return names


def test_nothing_is_imported_for_inputs_that_are_refused(started: list[str]) -> None:
    refused = auditor("audit", "--prometheus", "http://127.0.0.1:1", "--window", "1h", "--match", "{} or {}")
    unreachable = auditor("audit", "--prometheus", f"http://127.0.0.1:{free_port()}", "--window", "1h")
    assert (refused.code, unreachable.code) == (2, 3)
    assert started == []


def test_imports_begin_with_the_first_word_and_once(started: list[str]) -> None:
    say = command_inputs._Meanwhile()
    assert started == []
    say("vLLM: 2 targets")
    say("77 queries")
    assert started == ["started"]


def test_a_system_without_threads_and_a_broken_module_cost_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_more(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    command_inputs._Meanwhile()("a word")
    assert "a word" in capsys.readouterr().err

    def broken(name: str) -> None:
        raise ValueError(f"{name} is damaged")

    monkeypatch.setattr(command_inputs, "import_module", broken)
    command_inputs._import_meanwhile()
