"""Every way the program can end, as a process, and the code it ends with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fixtures" / "demo"
PAGES = ["--before", str(DEMO / "before.prom"), str(DEMO / "after.prom"), "--seconds", "175.1"]
HOLDS = "premises: [{belief: decode dominates}, {belief: engine alive}]\n"
BREAKS = "premises: [{reading: length_share, at_most: 10%}]\n"
UNDECIDED = "premises: [{reading: length_share, at_most: 10%, for: {model: nobody}}]\n"


def auditor(
    *args: str, env: Mapping[str, str] | None = None, code: str | None = None
) -> subprocess.CompletedProcess[str]:
    """The program as a process. ``code`` is Python that runs before it, in the same process."""
    start = f"{code or ''}\nfrom auditor.entry import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", start, *args],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, **(env or {})}, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def premises(tmp_path: Path) -> Path:
    return tmp_path / "premises.yaml"


@pytest.mark.parametrize(
    ("text", "code", "verdict"), [(HOLDS, 0, "pass"), (BREAKS, 1, "fail"), (UNDECIDED, 3, "undecided")]
)
@pytest.mark.parametrize("form", ["terminal", "json", "junit", "github", "markdown", "prometheus"])
def test_the_format_never_changes_the_code(premises: Path, text: str, code: int, verdict: str, form: str) -> None:
    premises.write_text(text)
    end = auditor("gate", *PAGES, "--premises", str(premises), "--as", form)
    assert end.returncode == code, end.stderr
    assert end.stderr.startswith(f"auditor: gate {verdict}: ")
    assert end.stdout
    assert "Traceback" not in end.stderr
    if form == "json":
        document = json.loads(end.stdout)
        assert (document["exit_code"], document["gate"]["verdict"]) == (code, verdict)


def test_several_outputs_in_one_run(premises: Path, tmp_path: Path) -> None:
    premises.write_text(BREAKS)
    forms = ("json", "junit", "github", "markdown", "prometheus", "terminal")
    asked = [x for f in forms for x in ("--output", f"{f}={tmp_path / f}.out")]
    assert auditor("gate", *PAGES, "--premises", str(premises), *asked).returncode == 1
    assert all((tmp_path / f"{f}.out").stat().st_size > 50 for f in forms)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("premises: [{reading: lenght_share, at_most: 1%}]", "premises.yaml:1:22: 'lenght_share' is no reading"),
        ("premises: [", "is no YAML"),
        ("", "has no premise"),
        ("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "aliases are not read"),
        ("[" * 5000, "deeper than"),
        ("premises: {" * 3000, "deeper than"),
    ],
)
def test_a_wrong_premises_file_is_the_callers(premises: Path, text: str, words: str) -> None:
    premises.write_text(text)
    # Before the window is gathered: the address would take its time.
    end = auditor("gate", "http://192.0.2.1:9", "--window", "60s", "--premises", str(premises))
    assert end.returncode == 2
    assert words in end.stderr
    assert end.stdout == ""


@pytest.mark.parametrize(
    "args",
    [
        ["gate", *PAGES],
        ["gate", *PAGES, "--premises", "missing.yaml"],
        ["gate", *PAGES, "--premises", "."],
        ["gate", "--premises", "{good}"],
        ["gate", *PAGES, "--premises", "{good}", "--as", "jnuit"],
        ["gate", *PAGES, "--premises", "{good}", "--output", "junit"],
        ["gate", *PAGES, "--premises", "{good}", "--baseline", "missing.json"],
        ["gate", *PAGES, "--premises", "{good}", "--store", "missing.db"],
        ["gate", *PAGES, "--premises", "{good}", "--min-coverage", "2"],
        ["gate", *PAGES, "--premises", "{good}", "--unknown"],
        ["gate", "missing.prom", "--premises", "{good}"],
        ["gtae"],
        [],
    ],
)
def test_usage(premises: Path, args: list[str]) -> None:
    premises.write_text(HOLDS)
    end = auditor(*[a.format(good=premises) for a in args])
    assert end.returncode == 2, end.stderr
    assert end.stderr
    assert "Traceback" not in end.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.prom", b""),
        ("page.html", b"<html><body>404</body></html>"),
        ("cut.prom", (DEMO / "after.prom").read_bytes()[:3000]),
        ("other.prom", b"# TYPE up gauge\nup 1\n"),
        ("noise.prom", bytes(range(256)) * 20),
    ],
)
def test_a_page_that_is_none_is_evidence_that_failed(premises: Path, tmp_path: Path, name: str, content: bytes) -> None:
    premises.write_text(HOLDS)
    (tmp_path / name).write_bytes(content)
    end = auditor("gate", "--before", str(DEMO / "before.prom"), str(tmp_path / name), "--premises", str(premises))
    assert end.returncode == 3, end.stderr


def test_one_page_is_a_lifetime(premises: Path) -> None:
    premises.write_text("premises: [{belief: decode dominates}]")
    assert auditor("gate", str(DEMO / "after.prom"), "--premises", str(premises)).returncode == 3
    assert auditor("gate", str(DEMO / "after.prom"), "--premises", str(premises), "--allow-lifetime").returncode == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "import auditor.pipeline\ndef f(*a, **k): raise ZeroDivisionError('x')\nauditor.pipeline.audit_window = f",
            "internal error",
        ),
        ("import sys\nsys.modules['auditor.audits.judging'] = None", "internal error"),
        ("import sys\nsys.modules['yaml'] = None", "internal error"),
        ("import sys\nsys.modules['click'] = None", "internal error"),
        (
            "import auditor.pipeline\ndef f(*a, **k): raise MemoryError\nauditor.pipeline.audit_window = f",
            "out of memory",
        ),
        (
            "import auditor.pipeline\ndef f(*a, **k): raise RecursionError('deep')\nauditor.pipeline.audit_window = f",
            "internal error",
        ),
    ],
)
def test_a_fault_of_ours_is_four(premises: Path, code: str, words: str) -> None:
    premises.write_text(HOLDS)
    end = auditor("gate", *PAGES, "--premises", str(premises), code=code)
    assert end.returncode == 4, end.stderr
    assert words in end.stderr
    assert "Traceback" not in end.stderr


def test_an_audit_in_error_is_four_and_the_others_are_still_there(premises: Path) -> None:
    premises.write_text("premises: [{audit: queueing}, {belief: engine alive}]")
    code = "import auditor.audits.queueing as q\ndef f(*a): raise ValueError('boom')\nq.audit = f"
    end = auditor("gate", *PAGES, "--premises", str(premises), "--as", "json", code=code)
    assert end.returncode == 4
    gate = json.loads(end.stdout)["gate"]
    assert {p["name"]: p["verdict"] for p in gate["premises"]} == {"queueing": "undecided", "engine alive": "holds"}
    assert "boom" in gate["premises"][1]["reason"]


@pytest.mark.parametrize("text", [HOLDS, BREAKS, UNDECIDED])
def test_an_output_that_cannot_be_written_is_four(premises: Path, tmp_path: Path, text: str) -> None:
    premises.write_text(text)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "missing" / "report.xml", Path("/dev/full")):
        end = auditor("gate", *PAGES, "--premises", str(premises), "--output", f"junit={path}")
        assert end.returncode == 4, (path, end.stderr)
    if os.path.exists("/dev/full"):
        shell = f"{sys.executable} -m auditor gate {' '.join(PAGES)} --premises {premises} > /dev/full"
        assert subprocess.run(["sh", "-c", shell], cwd=ROOT, capture_output=True, check=False).returncode == 4


@pytest.mark.parametrize(("text", "code"), [(HOLDS, 0), (BREAKS, 1), (UNDECIDED, 3)])
def test_a_closed_pipe_ends_with_the_code_already_earned(premises: Path, text: str, code: int) -> None:
    premises.write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "auditor", "gate", *PAGES, "--premises", str(premises), "--as", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == code
    assert b"Broken" not in said
    assert b"Traceback" not in said


class Slow(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = (DEMO / "before.prom").read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    running = HTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_while_it_waits_for_the_second_scrape(premises: Path, server: str, number: int, code: int) -> None:
    premises.write_text(HOLDS)
    process = subprocess.Popen(
        [sys.executable, "-m", "auditor", "gate", server, "--window", "60s", "--premises", str(premises)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stderr is not None
    assert "first scrape done" in process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(number)
    out, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in said


def test_an_idle_server_and_one_that_refuses(premises: Path, server: str) -> None:
    premises.write_text(HOLDS)
    idle = auditor("gate", server, "--window", "1s", "--premises", str(premises))
    assert (idle.returncode, "no counter moved" in idle.stderr) == (3, True)
    refused = auditor("gate", "http://127.0.0.1:1", "--window", "1s", "--premises", str(premises))
    assert refused.returncode == 3


def test_option_before_environment_before_file_before_default(premises: Path) -> None:
    def settings(text: str, *args: str, env: Mapping[str, str] | None = None) -> tuple[int, float]:
        premises.write_text(text + HOLDS)
        end = auditor("gate", *PAGES, "--premises", str(premises), "--as", "json", *args, env=env)
        gate = json.loads(end.stdout)["gate"]
        return gate["min_requests"], gate["min_coverage"]

    both = "min_requests: 40\nmin_coverage: 80%\n"
    env = {"AUDITOR_MIN_REQUESTS": "50", "AUDITOR_MIN_COVERAGE": "0.7"}
    assert settings("") == (30, 0.9)
    assert settings(both) == (40, 0.8)
    assert settings(both, env=env) == (50, 0.7)
    assert settings(both, "--min-requests", "60", env=env) == (60, 0.7)
    assert settings("min_requests: 40\n", "--min-coverage", "0.5") == (40, 0.5)


def test_the_file_itself_can_come_from_the_environment(premises: Path) -> None:
    premises.write_text(BREAKS)
    assert auditor("gate", *PAGES, env={"AUDITOR_PREMISES": str(premises)}).returncode == 1


def test_min_requests_of_the_file_reaches_the_audits(premises: Path) -> None:
    premises.write_text("min_requests: 1000\npremises: [{belief: decode dominates}, {audit: time-split}]")
    end = auditor("gate", *PAGES, "--premises", str(premises), "--as", "json")
    assert end.returncode == 3
    assert {p["verdict"] for p in json.loads(end.stdout)["gate"]["premises"]} == {"undecided"}


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, atexit\n"
        "heavy = ('pandas', 'numpy', 'requests', 'yaml', 'rich', 'junitparser', 'prometheus_client', 'pydantic')\n"
        "atexit.register(lambda: print([m for m in heavy if m in sys.modules], file=sys.stderr))"
    )
    end = auditor("gate", "--help", code=code)
    assert (end.returncode, end.stderr.strip()) == (0, "[]")
