"""``auditor nightly`` and ``auditor history`` as a user or cron runs them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from auditor.history import open_store
from auditor.history.nights import load_runs
from auditor.history.series import TRAFFIC
from tests.history.documents import night, report, subject

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fixtures" / "demo"
PAGES = ("--before", str(DEMO / "before.prom"), str(DEMO / "after.prom"), "--seconds", "175.1")
AT = "2026-11-29T03:00:00Z"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def nightly(tmp_path: Path) -> Run:
    """Run ``auditor nightly`` with a store and a folder of its own."""

    def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "auditor", "nightly", *arguments]
        command += ["--store", more.pop("store", "audits.db"), "--out", more.pop("out", "out")]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, **more)

    return run


def history(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "auditor", "history", *arguments, "--store", "audits.db"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


class Receiver(HTTPServer):
    """A server that keeps what is posted to it."""

    def __init__(self, status: int) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.status = status
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(self.server.status)
        self.end_headers()

    do_PUT = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Callable[[int], Receiver]]:
    servers: list[Receiver] = []

    def make(status: int) -> Receiver:
        server = Receiver(status)
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def test_one_night_from_pages(nightly: Run, tmp_path: Path) -> None:
    done = nightly(*PAGES, "--at", AT)
    assert done.returncode == 0, done.stderr
    assert "NIGHTS  night of 2026-11-29 03:00 UTC beside 0 nights before" in done.stdout
    assert "this is the first night in the store" in done.stdout
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    stems = ("2026-11-29T030000Z", "latest")
    assert names == [f"{stem}.{end}" for stem in stems for end in ("html", "json", "md", "png")]
    document = json.loads((tmp_path / "out" / "latest.json").read_text())
    assert (document["kind"], document["exit_code"]) == ("audit", 0)
    assert document["window"]["end"] == AT
    assert document["window"]["start"] == "2026-11-29T02:57:04.900Z"
    assert document["nights"]["run"] == 1
    assert (tmp_path / "out" / "latest.png").read_bytes().startswith(b"\x89PNG")
    listed = history(tmp_path, "list")
    header, row = listed.stdout.splitlines()
    assert header.split()[:2] == ["run", "window"]
    assert row.split()[:3] == ["1", "2026-11-29", "03:00"]


def test_saved_pages_need_their_time(nightly: Run, tmp_path: Path) -> None:
    done = nightly(*PAGES)
    assert done.returncode == 2
    assert "give --at T" in done.stderr
    assert not (tmp_path / "audits.db").exists()


def test_a_window_that_knows_its_end_takes_no_other(nightly: Run, tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text("[1795000000, 1795000175]")
    series = ("--series", str(DEMO / "before.prom"), str(DEMO / "after.prom"), "--times", str(times))
    assert nightly(*series, "--at", AT).returncode == 2
    done = nightly(*series)
    assert done.returncode == 0, done.stderr
    with open_store(str(tmp_path / "audits.db")) as store:
        assert [r.end for r in load_runs(store)] == [1795000175.0]


def test_a_server_that_was_down_is_a_night_with_code_3(nightly: Run, tmp_path: Path) -> None:
    done = nightly("http://127.0.0.1:9", "--window", "1s")
    assert done.returncode == 3, done.stderr
    assert "No engine was measured" in done.stdout
    with open_store(str(tmp_path / "audits.db")) as store:
        (run,) = load_runs(store)
        assert (run.subjects, run.exit_code) == (0, 3)
        assert store.query("SELECT text FROM target JOIN word ON word.id = address") == [
            ("http://127.0.0.1:9/metrics",)
        ]


def test_fail_on_broken(nightly: Run) -> None:
    done = nightly(*PAGES, "--at", AT, "--fail-on", "broken")
    assert done.returncode == 1


def fill(path: Path, *, factor: float) -> None:
    """Eight nights before the demo's whose readings are those of the demo, times ``factor`` for the gaps."""
    done = subprocess.run(
        [sys.executable, "-m", "auditor", "audit", *PAGES, "--as", "json"], capture_output=True, text=True, check=True
    )
    document = json.loads(done.stdout)
    gaps = document["subjects"][0]["readings"]["itl_seconds"]
    for key in ("value", "low", "high"):
        gaps[key] *= factor
    end = 1795921200.0  # 2026-11-29T03:00:00Z
    with open_store(str(path), create=True) as store:
        for i in range(8):
            store.append(document, end=end - (8 - i) * 86400, ran=end)


def test_fail_on_regression(nightly: Run, tmp_path: Path) -> None:
    """Gaps were a quarter of tonight's on all nights before."""
    fill(tmp_path / "audits.db", factor=0.25)
    done = nightly(*PAGES, "--at", AT, "--fail-on", "regression")
    assert done.returncode == 1, done.stderr
    assert "NO itl_seconds" in done.stdout
    document = json.loads((tmp_path / "out" / "latest.json").read_text())
    assert document["exit_code"] == 1
    (night_of_demo,) = document["nights"]["subjects"]
    assert [c["reading"] for c in night_of_demo["changes"] if c["verdict"] == "worse"] == ["itl_seconds"]


def test_a_quiet_night_is_no_regression(nightly: Run, tmp_path: Path) -> None:
    fill(tmp_path / "audits.db", factor=1.0)
    done = nightly(*PAGES, "--at", AT, "--fail-on", "regression")
    assert done.returncode == 0, done.stderr
    assert "as before" in done.stdout


@pytest.mark.parametrize("store", ["folder", "bad.db", "none/audits.db"])
def test_a_store_that_cannot_be_used_costs_the_history_and_not_the_report(
    nightly: Run, tmp_path: Path, store: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.db").write_bytes(b"not a database at all, and long enough")
    done = nightly(*PAGES, "--at", AT, store=store)
    assert done.returncode == 4
    assert f"{store}: the history" in done.stderr
    assert "this night was NOT kept" in done.stdout
    assert json.loads((tmp_path / "out" / "latest.json").read_text())["exit_code"] == 4
    assert (tmp_path / "bad.db").read_bytes() == b"not a database at all, and long enough"


def test_a_folder_that_cannot_be_written_costs_the_report_and_not_the_night(nightly: Run, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file in the way")
    done = nightly(*PAGES, "--at", AT)
    assert done.returncode == 4
    assert "could not be written" in done.stderr
    with open_store(str(tmp_path / "audits.db")) as store:
        assert len(load_runs(store)) == 1


def test_textfile(nightly: Run, tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    done = nightly(*PAGES, "--at", AT, "--textfile", "auditor.prom")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "auditor.prom"
    families = {f.name: f for f in text_string_to_metric_families(path.read_text())}
    values = {s.labels["reading"]: s.value for s in families["premise_auditor_reading"].samples}
    assert values["finished_requests"] == 260
    assert path.stat().st_mode & 0o444 == 0o444
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_a_textfile_that_the_collector_would_pass_over_is_refused_at_once(nightly: Run, tmp_path: Path) -> None:
    done = nightly(*PAGES, "--at", AT, "--textfile", "auditor.txt")
    assert done.returncode == 2
    assert not (tmp_path / "audits.db").exists()


def test_webhook(nightly: Run, tmp_path: Path, receiver: Callable[[int], Receiver]) -> None:
    server = receiver(200)
    (tmp_path / "hook").write_text(f"{server.url}/services/secret-part\n")
    (tmp_path / "token").write_text("engine-token")
    (tmp_path / "other").write_text("chat-token")
    done = nightly(
        *PAGES, "--at", AT, "--webhook-file", "hook", "--token-file", "token", "--handover-token-file", "other"
    )
    assert done.returncode == 0, done.stderr
    ((path, headers, body),) = server.got
    assert path == "/services/secret-part"
    assert headers["content-type"] == "application/json"
    assert headers["authorization"] == "Bearer chat-token"
    document = json.loads(body)
    assert document["text"].startswith("Premise auditor, night of 2026-11-29T03:00:00Z: 1 subject;")
    assert document["subjects"][0]["audits"]["length-truncation"] == "broken"
    assert document["report"]["kind"] == "audit"


def test_the_engines_credentials_are_not_handed_on(
    nightly: Run, tmp_path: Path, receiver: Callable[[int], Receiver]
) -> None:
    server = receiver(200)
    (tmp_path / "token").write_text("engine-token")
    done = nightly(
        *PAGES, "--at", AT, "--webhook", server.url, "--token-file", "token", "--header", "X-Scope-OrgID: llm"
    )
    assert done.returncode == 0, done.stderr
    ((_, headers, _),) = server.got
    assert "authorization" not in headers
    assert "x-scope-orgid" not in headers


def test_a_hand_over_that_fails_is_said_and_the_night_is_kept(
    nightly: Run, tmp_path: Path, receiver: Callable[[int], Receiver]
) -> None:
    server = receiver(500)
    done = nightly(
        *PAGES, "--at", AT, "--webhook", f"{server.url}/services/secret-part", "--pushgateway", "http://127.0.0.1:9",
        "--textfile", "none/auditor.prom",
    )  # fmt: skip
    assert done.returncode == 4
    for word in ("webhook", "Pushgateway", "textfile"):
        assert word in done.stderr
    assert "secret-part" not in done.stderr + done.stdout
    assert len(server.got) == 1
    with open_store(str(tmp_path / "audits.db")) as store:
        (run,) = load_runs(store)
        assert run.exit_code == 0
    assert json.loads((tmp_path / "out" / "latest.json").read_text())["exit_code"] == 0


def test_two_jobs_at_once_keep_two_nights(tmp_path: Path) -> None:
    jobs = [
        subprocess.Popen(
            [
                sys.executable, "-m", "auditor", "nightly", *PAGES, "--at", f"2026-11-2{i}T03:00:00Z", "--store",
                "audits.db", "--out", f"out{i}",
            ],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for i in range(3)
    ]  # fmt: skip
    assert [j.wait(180) for j in jobs] == [0, 0, 0]
    with open_store(str(tmp_path / "audits.db")) as store:
        assert len(load_runs(store)) == 3
        assert store.query("SELECT count(DISTINCT run) FROM reading") == [(3,)]


def kept(folder: Path, labels: dict[str, Any] | None = None) -> None:
    with open_store(str(folder / "audits.db"), create=True) as store:
        for i in range(10):
            one = subject({"ttft_seconds": 0.5 + 0.01 * (i % 3)}, labels=labels or {"engine": "vllm", "model": "chat"})
            store.append(report(one), end=night(i), ran=night(i))


def test_history_trend(tmp_path: Path) -> None:
    kept(tmp_path)
    done = history(tmp_path, "trend", "ttft_seconds", "--as", "json")
    assert done.returncode == 0, done.stderr
    (trend,) = json.loads(done.stdout)["trends"]
    assert [n["value"] for n in trend["nights"]] == [0.5, 0.51, 0.52, 0.5, 0.51, 0.52, 0.5, 0.51, 0.52, 0.5]
    assert [n["baseline"] for n in trend["nights"]] == [None] * 7 + [0.51, 0.51, 0.51]
    assert trend["nights"][6]["reason"] == "not enough history: 6 of 7 comparable nights"
    last = trend["nights"][-1]
    assert last["band"][0] < 0.5 < last["band"][1]
    assert last["verdict"] == "same"


def test_history_show_by_day(tmp_path: Path) -> None:
    kept(tmp_path)
    done = history(tmp_path, "show", "2026-03-04", "--as", "json")
    assert json.loads(done.stdout)["run"]["run"] == 4
    assert history(tmp_path, "show", "2026-03").returncode == 2
    assert history(tmp_path, "show", "2031").returncode == 2


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t=", " ="])
def test_export_is_safe_against_formulas(tmp_path: Path, first: str) -> None:
    """A model's name comes from a page: in a spreadsheet it must stay text."""
    evil = f'{first}HYPERLINK("http://evil","x")'
    with open_store(str(tmp_path / "audits.db"), create=True) as store:
        one = subject({"ttft_seconds": {"state": "failed", "reason": evil}, "hidden_wait_share": -0.25})
        store.append(report(one), end=night(0), ran=night(0))
    done = history(tmp_path, "export")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    by_name = {r["name"]: r for r in rows}
    assert by_name["ttft_seconds"]["text"] == f"'{evil}"
    assert by_name["hidden_wait_share"]["value"] == "-0.25"
    assert by_name[TRAFFIC]["value"] == "1000.0"
    for row in rows:
        for key, cell in row.items():
            assert key == "value" or cell.lstrip()[:1] not in ("=", "+", "-", "@"), cell


def test_prune(tmp_path: Path) -> None:
    kept(tmp_path)
    assert history(tmp_path, "prune").returncode == 2
    dry = history(tmp_path, "prune", "--before", "2026-03-05T00:00:00Z", "--dry-run")
    assert "4 runs would be forgotten, 6 would be left" in dry.stderr
    done = history(tmp_path, "prune", "--before", "2026-03-05T00:00:00Z")
    assert done.returncode == 0
    assert "4 runs forgotten, 6 are left" in done.stderr
    assert len(history(tmp_path, "list").stdout.splitlines()) == 7


def test_a_history_that_is_not_there(tmp_path: Path) -> None:
    for command in (["list"], ["show"], ["trend", "ttft_seconds"], ["export"], ["prune", "--keep", "1d"]):
        assert history(tmp_path, *command).returncode == 2, command
    assert not (tmp_path / "audits.db").exists()


def test_an_unknown_reading_gets_the_nearest_name(tmp_path: Path) -> None:
    kept(tmp_path)
    done = history(tmp_path, "trend", "ttft_second")
    assert done.returncode == 2
    assert "did you mean ttft_seconds?" in done.stderr


def test_latest_is_the_newest_night_and_not_the_last_run(nightly: Run, tmp_path: Path) -> None:
    nightly(*PAGES, "--at", "2026-11-30T03:00:00Z")
    backfill = nightly(*PAGES, "--at", "2026-11-27T03:00:00Z")
    assert backfill.returncode == 0, backfill.stderr
    latest = json.loads((tmp_path / "out" / "latest.json").read_text())
    assert latest["window"]["end"] == "2026-11-30T03:00:00Z"
    assert (tmp_path / "out" / "2026-11-27T030000Z.json").exists()


def test_a_saved_window_without_an_end_is_not_of_now(nightly: Run, tmp_path: Path) -> None:
    """The fixture's dead night is a saved window of servers that did not answer: nobody knows when."""
    dead = ROOT / "fixtures" / "nights" / "month" / "night-09.json.gz"
    done = nightly(str(dead))
    assert done.returncode == 2
    assert "--at" in done.stderr
    assert nightly(str(dead), "--at", AT).returncode == 3
