"""The commands that take a metrics server: audit, collect, gate, queries, doctor."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.metrics_server.samples import END, Replica
from tests.metrics_server.scripted import Script, scripted
from tests.metrics_server.servers import Store, prometheus

START = END - 7200.0


def auditor(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "auditor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    store = Store()
    for i in range(2):
        Replica(f"a{i}:8000", started=START - 9000).run(store, START - 60, END)
    with prometheus(store) as address:
        yield address


@pytest.mark.live
def test_audit_collect_and_audit_again(url: str, tmp_path: Path) -> None:
    window = tmp_path / "window.json"
    where = ["--prometheus", url, "--window", "2h", "--end", str(END)]
    direct = auditor("audit", *where, "--as", "json")
    assert direct.returncode == 0, direct.stderr
    saved = auditor("collect", *where, "-o", str(window))
    assert saved.returncode == 0, saved.stderr
    again = auditor("audit", str(window), "--as", "json")
    assert again.returncode == 0, again.stderr
    first, second = json.loads(direct.stdout), json.loads(again.stdout)
    assert first == second
    readings = first["subjects"][0]["readings"]
    # 480 scrapes of 3 requests on two replicas.
    assert readings["finished_requests"]["value"] == pytest.approx(2880)
    assert first["window"]["kind"] == "range"
    assert len(first["subjects"][0]["parts"]) == 2
    assert "queries" in direct.stderr


@pytest.mark.live
def test_a_terminal_report_of_a_range(url: str) -> None:
    done = auditor("audit", "--prometheus", url, "--window", "1h", "--end", str(END), "--all")
    assert done.returncode == 0, done.stderr
    assert "Prometheus API 2." in done.stdout


@pytest.mark.live
def test_a_piece_of_a_range_is_that_range(url: str, tmp_path: Path) -> None:
    """Distributions, coverage and all: a piece says what an audit of its own time says."""
    where = ["--prometheus", url, "--window", "2h", "--end", str(END)]
    done = auditor("collect", *where, "-o", str(tmp_path / "window.json"), "--split", "30m")
    assert done.returncode == 0, done.stderr
    pieces = sorted(tmp_path.glob("window-*.json"))
    assert len(pieces) == 4
    cut = json.loads(auditor("audit", str(pieces[1]), "--as", "json").stdout)
    alone = auditor("audit", "--prometheus", url, "--window", "30m", "--end", str(END - 3600), "--as", "json")
    assert cut == json.loads(alone.stdout)
    readings = cut["subjects"][0]["readings"]
    # 120 scrapes of 3 requests on two replicas.
    assert readings["finished_requests"]["value"] == pytest.approx(720, rel=0.02)
    assert readings["ttft_seconds"]["p50"]["high"] is not None


@pytest.mark.live
def test_distributions_of_pieces_are_compared_with_their_own_noise(url: str, tmp_path: Path) -> None:
    where = ["--prometheus", url, "--window", "2h", "--end", str(END)]
    auditor("collect", *where, "-o", str(tmp_path / "w.json"), "--split", "30m")
    first, second = (",".join(str(tmp_path / f"w-0{i}.json") for i in pair) for pair in ((1, 2), (3, 4)))
    done = auditor("compare", "--arm", f"a={first}", "--arm", f"b={second}", "--as", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["reading"]: row for row in json.loads(done.stdout)["rows"]}
    assert (rows["ttft_seconds"]["verdict"], rows["ttft_seconds"]["noise"]) == ("same", "repeats")
    # The same requests over and over: both arms' quantiles lie in one bucket.
    assert rows["ttft_seconds p50"]["verdict"] == "blind"


@pytest.mark.live
def test_a_piece_without_samples_is_a_window_without_evidence(url: str, tmp_path: Path) -> None:
    where = ["--prometheus", url, "--window", "8h", "--end", str(END)]
    done = auditor("collect", *where, "-o", str(tmp_path / "w.json"), "--split", "2h")
    assert done.returncode == 0, done.stderr
    assert "not one sample lies in this window" in done.stderr
    codes = [auditor("audit", str(path), "--as", "json").returncode for path in sorted(tmp_path.glob("w-*.json"))]
    assert len(codes) == 4
    assert codes[0] == 3


@pytest.mark.live
def test_queries_of_a_server_are_what_it_is_asked(url: str) -> None:
    done = auditor("queries", "prefill_share", "--prometheus", url, "--window", "1h", "--end", str(END))
    assert done.returncode == 0, done.stderr
    assert "sum by (model_name, le) (increase(vllm:request_prefill_time_seconds_bucket[3600s]))" in done.stdout
    assert "prefix_cache" not in done.stdout


@pytest.mark.live
def test_the_doctor_looks_at_a_server(url: str) -> None:
    wide = f"{time.time() - END + 3600:.0f}s"
    done = auditor("doctor", "--prometheus", url, "--window", wide, "--as", "json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["targets"]
    assert (found["state"], found["engine"], found["form"]) == ("recognised", "vllm", "vllm:")
    assert found["models"] == ["tiny"]
    can = {c["reading"] for c in found["capabilities"] if c["can"]}
    assert {"prefill_share", "prefix_hit_share"} <= can
    assert "achieved_tflops_per_gpu" not in can
    assert any("2 targets" in r for r in found["remarks"])


def test_queries_without_a_server() -> None:
    done = auditor("queries")
    assert done.returncode == 0, done.stderr
    assert "[86400s]" in done.stdout
    assert done.stdout.count("\n# ") + 1 < 90
    few = auditor("queries", "generation_tokens_per_wall_second", "--window", "1h", "--match", '{ns="x"}')
    assert 'increase(vllm:generation_tokens_total{ns="x"}[3600s])' in few.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["queries", "prefil_share"], "did you mean prefill_share"),
        (["queries", "--engine", "vlm"], "did you mean vllm"),
        (["queries", "prefill_share", "--as", "rules"], "give neither readings"),
        (["queries", "--match", "x"], "--match wants one selector"),
        (["audit", "--prometheus", "http://127.0.0.1:1"], "needs --window"),
        (["audit", "--prometheus", "http://127.0.0.1:1", "--window", "1h", "http://a"], "finds its targets itself"),
        (["audit", "--prometheus", "http://127.0.0.1:1", "--window", "1h", "--match", "{} or {}"], "one selector"),
        (["audit", "--prometheus", "http://127.0.0.1:1?x=1", "--window", "1h"], "without a query"),
    ],
)
def test_mistakes_are_named(arguments: list[str], said: str) -> None:
    done = auditor(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_an_unreachable_server_is_undecided() -> None:
    done = auditor("audit", "--prometheus", "http://127.0.0.1:1", "--window", "1h")
    assert done.returncode == 3
    assert "connection refused" in done.stderr


def test_rules_and_dashboard_are_the_committed_ones() -> None:
    root = Path(__file__).parents[2] / "queries"
    assert auditor("queries", "--as", "rules").stdout == (root / "rules/vllm.yaml").read_text()
    dashboard = auditor("queries", "--as", "dashboard", "--engine", "sglang").stdout
    assert dashboard == (root / "dashboards/sglang.json").read_text()


def test_a_tenant_header_is_given_on_the_command_line() -> None:
    with scripted(Script()) as script:
        done = auditor(
            "audit", "--prometheus", script.url, "--window", "1h", "--end", str(END), "--as", "json",
            "--header", "X-Scope-OrgID: team-llm",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {a.headers.get("X-Scope-OrgID") for a in script.asked} == {"team-llm"}
    assert "team-llm" not in done.stdout + done.stderr


@pytest.mark.live
def test_the_gate_judges_a_range(url: str, tmp_path: Path) -> None:
    """The replicas answer every request to its end, so no answer is cut; a wrong bound on the same reading breaks."""
    where = ["--prometheus", url, "--window", "2h", "--end", str(END), "--as", "json"]
    for limit, code in (("at_most: 100%", 0), ("at_least: 101", 1)):
        reading = "length_share" if code == 0 else "preemptions"
        premises = tmp_path / "premises.yaml"
        premises.write_text(f"premises:\n  - reading: {reading}\n    {limit}\n", encoding="utf-8")
        done = auditor("gate", *where, "--premises", str(premises))
        assert done.returncode == code, done.stderr
        (premise,) = json.loads(done.stdout)["gate"]["premises"]
        assert premise["line"] == 2


@pytest.mark.live
def test_a_night_of_a_server_is_kept(url: str, tmp_path: Path) -> None:
    store, out = tmp_path / "audits.db", tmp_path / "out"
    where = ["--prometheus", url, "--window", "2h", "--end", str(END)]
    done = auditor("nightly", *where, "--store", str(store), "--out", str(out))
    assert done.returncode == 0, done.stderr
    report = json.loads((out / "latest.json").read_text(encoding="utf-8"))
    assert report["subjects"][0]["readings"]["finished_requests"]["value"] == pytest.approx(2880)
    assert len(report["subjects"][0]["course"]["times"]) > 2
    listed = auditor("history", "list", "--store", str(store))
    assert listed.returncode == 0
    assert "range" in listed.stdout
