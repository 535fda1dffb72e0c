"""The store keeps whole runs: what goes in comes out, and what fails leaves it as it was."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.history.nights import load_runs
from auditor.history.rows import STATES, VERDICTS
from auditor.history.schema import APPLICATION_ID, LATEST, MIGRATIONS
from auditor.history.store import Store, open_store
from auditor.history.views import find_run, show_run
from auditor.model import OutputError, UsageError
from tests.history.documents import CHAT, FIRST, night, report, subject

V1 = Path(__file__).parents[2] / "fixtures" / "nights" / "store-layout-1.db"


def new_store(path: Path) -> Store:
    return open_store(str(path), create=True)


def test_one_row_a_reading_and_verdict(tmp_path: Path) -> None:
    document = report(
        subject(
            {
                "ttft_seconds": {"value": 0.5, "low": 0.4, "high": 0.6, "count": 12.0},
                "prefix_hit_share": {"state": "invalid", "reason": "look-ups are inflated", "unit": "ratio"},
                "full_step_share": {"state": "bounded", "low": 0.1, "high": None, "unit": "ratio"},
            },
            verdicts={"time-split": "broken", "queueing": "holds"},
            flags=["cold_start"],
        )
    )
    with new_store(tmp_path / "a.db") as store:
        run = store.append(document, end=FIRST, ran=FIRST + 60)
        assert store.query("SELECT count(*) FROM reading") == [(4,)]
        assert store.query("SELECT count(*) FROM verdict") == [(2,)]
        shown = show_run(store, find_run(store, str(run)))
    (kept,) = shown["subjects"]
    assert kept["labels"] == CHAT
    assert kept["flags"] == ["cold_start"]
    ttft = kept["readings"]["ttft_seconds"]
    assert (ttft["value"], ttft["low"], ttft["high"], ttft["count"], ttft["state"]) == (0.5, 0.4, 0.6, 12, "measured")
    hit = kept["readings"]["prefix_hit_share"]
    assert (hit["state"], hit["value"], hit["reason"]) == ("invalid", None, "look-ups are inflated")
    full = kept["readings"]["full_step_share"]
    assert (full["state"], full["value"], full["low"], full["high"]) == ("bounded", None, 0.1, None)
    assert kept["audits"]["time-split"] == {"verdict": "broken", "severity": "info", "found": "1 of 2"}


def test_quantiles_of_a_distribution_are_rows_of_their_own(tmp_path: Path) -> None:
    places = {"p50": {"value": 0.2, "low": 0.1, "high": 0.25}, "p99": {"value": None, "low": 80.0, "high": None}}
    with new_store(tmp_path / "a.db") as store:
        store.append(report(subject({"ttft_seconds": {"value": 0.5, **places}})), end=FIRST, ran=FIRST)
        rows = store.query(
            "SELECT name, state, value, low, high FROM series JOIN reading ON series = series.id "
            "WHERE name LIKE '%.p%' ORDER BY name"
        )
    assert rows == [
        ("ttft_seconds.p50", STATES.index("measured"), 0.2, 0.1, 0.25),
        ("ttft_seconds.p99", STATES.index("bounded"), None, 80.0, None),
    ]


def test_stored_words_keep_their_numbers() -> None:
    """States and verdicts are kept by position: an inserted word would turn old nights into something else."""
    assert STATES[:8] == ("measured", "partial", "bounded", "no_traffic", "not_exported", "absent", "invalid", "failed")
    assert VERDICTS[:5] == ("holds", "broken", "undecided", "not_applicable", "error")


def test_a_run_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    good, bad = subject({"ttft_seconds": 0.5}), subject({"ttft_seconds": 0.5}, labels={"engine": "vllm", "model": "b"})
    bad["audits"]["time-split"]["verdict"] = "no such word"
    with new_store(tmp_path / "a.db") as store:
        with pytest.raises(ValueError, match="not in tuple"):
            store.append(report(good, bad), end=FIRST, ran=FIRST)
        for table in ("run", "reading", "verdict", "presence", "series", "subject", "word"):
            assert store.query(f"SELECT count(*) FROM {table}") == [(0,)], table
        store.append(report(good), end=FIRST, ran=FIRST)
        assert len(load_runs(store)) == 1


def test_an_older_layout_is_migrated_and_its_nights_kept(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(V1.read_bytes())
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()
    with open_store(str(path)) as store:
        assert store.version == LATEST
        assert [r.end for r in load_runs(store)] == [night(0), night(1), night(2)]
        kept = store.query("SELECT value FROM reading JOIN series ON series = series.id WHERE name = 'ttft_seconds'")
        assert kept == [(0.5,), (0.51,), (0.52,)]
        assert store.query("SELECT count(*) FROM fact") == [(0,)]
        store.append(report(subject({"ttft_seconds": 0.5}, config={"a": "1"})), end=night(3), ran=night(3))
        assert store.query("SELECT count(*) FROM fact") != [(0,)]


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.history import schema

    path = tmp_path / "old.db"
    path.write_bytes(V1.read_bytes())
    monkeypatch.setattr(schema, "MIGRATIONS", (MIGRATIONS[0], (*MIGRATIONS[1], "CREATE TABLE run (x)")))
    with pytest.raises(OutputError, match="could not be used"):
        open_store(str(path))
    assert path.read_bytes() == V1.read_bytes()


def test_a_store_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    new_store(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {LATEST + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(OutputError, match="newer release"):
        open_store(str(path), create=True)
    assert path.read_bytes() == before


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE run (id)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(OutputError, match="something else"):
        open_store(str(path), create=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"this is no database, and it is long enough to look at", b"SQLite format 3\0" + b"x" * 200]
)
def test_a_bad_file_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.db"
    path.write_bytes(content)
    with pytest.raises(OutputError, match=r"bad\.db: the history"):
        open_store(str(path), create=True)
    assert path.read_bytes() == content


def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with new_store(path) as store:
        for i in range(40):
            store.append(report(subject({f"r{j}": 0.1 * j for j in range(40)})), end=night(i), ran=night(i))
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with pytest.raises(OutputError, match="damaged"), open_store(str(path)) as store:
        store.query("SELECT * FROM reading")


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "audits.db").mkdir()
    with pytest.raises(OutputError, match=r"audits\.db: the history cannot be opened"):
        open_store(str(tmp_path / "audits.db"), create=True)


def test_no_folder_for_it(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be opened"):
        open_store(str(tmp_path / "none" / "audits.db"), create=True)


def test_a_store_that_is_not_there_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no history here"):
        open_store(str(tmp_path / "audits.db"))
    assert not (tmp_path / "audits.db").exists()


def test_a_name_that_looks_like_a_uri_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_store(Path("file:a?mode=memory")).close()
    assert (tmp_path / "file:a?mode=memory").is_file()


def test_prune_forgets_old_runs_and_gives_space_back(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with new_store(path) as store:
        for i in range(60):
            store.append(report(subject({f"r{j}": 0.1 * j for j in range(50)})), end=night(i), ran=night(i))
        size = path.stat().st_size
        assert store.prune(night(50)) == 50
        assert [r.end for r in load_runs(store)] == [night(i) for i in range(50, 60)]
        assert store.query("SELECT count(*) FROM reading") == [(10 * 51,)]
        assert store.query("SELECT count(*) FROM verdict") == [(10,)]
        # Words, subjects and series that nothing speaks of any more go too.
        store.prune(night(1000))
        for table in ("word", "subject", "series", "presence", "fact"):
            assert store.query(f"SELECT count(*) FROM {table}") == [(0,)], table
    assert path.stat().st_size < size * 0.6


def test_two_processes_may_make_the_store_at_once(tmp_path: Path) -> None:
    """Twelve processes begin with no file at all; every night is kept, none twice."""
    path = tmp_path / "a.db"
    script = (
        "import sys; from auditor.history import open_store; from tests.history.documents import *\n"
        "n = int(sys.argv[2])\n"
        "with open_store(sys.argv[1], create=True) as s:\n"
        "    s.append(report(subject({f'r{j}': float(n) for j in range(60)})), end=night(n), ran=night(n))\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(path), str(n)], cwd=Path(__file__).parents[2])
        for n in range(12)
    ]
    assert [r.wait(120) for r in runs] == [0] * 12
    with open_store(str(path)) as store:
        assert [r.end for r in load_runs(store)] == [night(n) for n in range(12)]
        assert store.query("SELECT count(*) FROM reading") == [(12 * 61,)]
        assert store.query("PRAGMA integrity_check") == [("ok",)]


def test_a_store_in_use_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    new_store(path).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(OutputError, match="in use by another run"):
        open_store(str(path), wait_seconds=0.1)
    holder.execute("ROLLBACK")
    holder.close()
    open_store(str(path)).close()


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    new_store(path).close()
    assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION_ID
