"""The doctor: what it says of every recorded vLLM page, of odd ones, of addresses, and how it ends."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from auditor.entry import run
from auditor.measures.doctor import Diagnosis, balancer_remarks, diagnose
from auditor.measures.targets import build_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Options, Window
from auditor.pipeline import build_subjects
from auditor.sources.exposition import parse_page

FIXTURES = Path(__file__).parents[1] / "fixtures"
PAGES = sorted(
    str(p.relative_to(FIXTURES))
    for p in [
        *(FIXTURES / "vllm").rglob("*.prom"),
        *(FIXTURES / "vllm" / "0.32.0" / "l-series").glob("0[07]0.prom.gz"),
        *(FIXTURES / "ray").rglob("*.prom"),
        *(p for p in (FIXTURES / "public").glob("*.prom") if "vllm" in p.name),
    ]
)

# What recorded pages lack of what every release has; all other pages lack nothing. Excerpts were cut by whoever
# posted them, and the AIBrix page breaks off inside a histogram. The Ray page was driven with a few series only.
_TIMES = [
    "time_to_first_token_seconds",
    "e2e_request_latency_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
]
MISSING = {
    "public/aibrix-docs-vllm-v0-qwen2.5-coder.prom": [f"vllm:{n}" for n in _TIMES],
    "public/datadog-ray-vllm-2.32-excerpt.prom": [
        f"ray_vllm:{n}"
        for n in ("num_preemptions_total", "request_success_total", "num_requests_waiting", *_TIMES)
    ],
    "public/vllm-0.10.0-glm45-issue617-excerpt.prom": [
        f"vllm:{n}"
        for n in ("prompt_tokens_total", "generation_tokens_total", "num_preemptions_total", "request_success_total",
                  "num_requests_running", "num_requests_waiting", *_TIMES)
    ],
    "ray/2.60.0/driven/after.prom": ["ray_vllm_num_requests_running", "ray_vllm_num_requests_waiting"],
}  # fmt: skip
# Names under the engine's prefix that our declarations do not cover. None is known today; a new release brings some.
UNKNOWN: dict[str, list[str]] = {}


def examine(body: bytes, name: str = "page.prom") -> Diagnosis:
    vocabulary = load_vocabulary()
    page = parse_page(body, wanted=vocabulary.wanted)
    target = build_target(name, [(None, page)], vocabulary, saved=True)
    window = Window(kind="lifetime", start=None, end=None, seconds=None, targets=(target,))
    return diagnose(target, page, vocabulary, build_subjects(window, Options(), vocabulary=vocabulary))


def body_of(name: str) -> bytes:
    data = (FIXTURES / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


def test_there_are_pages() -> None:
    assert len(PAGES) > 60


@pytest.mark.parametrize("name", PAGES)
def test_recorded_pages_hold_what_is_expected_of_them(name: str) -> None:
    found = examine(body_of(name), name)
    assert found.recognised
    assert found.engine == "vllm"
    assert sorted(found.missing) == sorted(MISSING.get(name, []))
    assert list(found.unknown) == UNKNOWN.get(name, [])
    assert found.models


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("vllm/0.32.0/a-decode-heavy/after.prom", "0.32", None),
        # 0.11 has the newer name of the KV gauge and the older one of the gaps.
        ("vllm/0.11.0/a-decode-heavy/after.prom", "0.10", "0.15"),
        ("public/aibrix-docs-vllm-v0-qwen2.5-coder.prom", None, "0.10"),
        ("public/datadog-ray-vllm-2.32-excerpt.prom", None, "0.10"),
    ],
)
def test_release_is_guessed_from_series(name: str, least: str | None, most: str | None) -> None:
    release = examine(body_of(name)).release
    assert (release.least, release.most) == (least, most)


def test_old_names_and_form() -> None:
    found = examine(body_of("vllm/0.11.0/a-decode-heavy/after.prom"))
    assert found.form == "vllm:"
    assert found.old_names == ("vllm:time_per_output_token_seconds",)
    ray = examine(body_of("ray/2.60.0/driven/after.prom"))
    assert ray.form == "ray_vllm_"
    assert any("rebuilt" in remark for remark in ray.remarks)


def test_engines_and_shared_pages_are_seen() -> None:
    found = examine(body_of("vllm/0.32.0/g-data-parallel-2/after.prom"))
    assert found.ranks == ("0", "1")
    assert found.multiprocess
    assert not examine(body_of("vllm/0.32.0/a-decode-heavy/after.prom")).multiprocess


def test_what_cannot_be_read_says_what_would_bring_it() -> None:
    found = {c.reading: c for c in examine(body_of("vllm/0.32.0/a-decode-heavy/after.prom")).capabilities}
    assert found["prefill_share"].can
    assert found["prefill_share"].reason is None
    assert not found["tokens_per_draft_step"].can
    assert "speculative config" in (found["tokens_per_draft_step"].reason or "")
    assert not found["achieved_tflops_per_gpu"].can
    assert "--enable-mfu-metrics" in (found["achieved_tflops_per_gpu"].reason or "")
    # Only the window's length is missing: two scrapes have it.
    assert found["prompt_tokens_per_wall_second"].can
    assert "two scrapes" in (found["prompt_tokens_per_wall_second"].reason or "")
    switched_on = {c.reading: c for c in examine(body_of("vllm/0.32.0/n-mfu/after.prom")).capabilities}
    assert switched_on["achieved_tflops_per_gpu"].can


def test_an_idle_page_can_give_what_waits_for_traffic() -> None:
    found = {c.reading: c for c in examine(body_of("vllm/0.32.0/e-idle/after.prom")).capabilities}
    assert found["prefill_share"].can
    assert "once there is traffic" in (found["prefill_share"].reason or "")


def test_unknown_and_missing_series_are_named() -> None:
    body = body_of("vllm/0.32.0/a-decode-heavy/after.prom").decode()
    lines = [line for line in body.splitlines() if "vllm:num_requests_waiting{" not in line]
    lines += ["# TYPE vllm:brand_new_total counter", 'vllm:brand_new_total{model_name="tiny"} 3', "node_load1 0.5"]
    found = examine("\n".join([*lines, ""]).encode())
    assert found.unknown == ("vllm:brand_new_total",)
    assert found.missing == ("vllm:num_requests_waiting",)


def test_settings_that_are_on_no_page_name_their_option() -> None:
    found = examine(body_of("vllm/0.32.0/a-decode-heavy/after.prom"))
    assert found.settings_missing["budget"] == "--budget N"
    assert found.settings["block_size"] == {"value": 128.0, "source": "page"}
    assert "block_size" not in found.settings_missing


# --------------------------------------------------------------------------- names and addresses


@pytest.mark.parametrize(
    ("addresses", "balancer"),
    [
        ([], False),
        (["10.0.0.1"], False),
        (["127.0.0.1", "::1"], False),
        (["127.0.0.1", "127.0.0.2"], False),
        (["10.0.0.1", "2001:db8::1"], False),
        (["10.0.0.1", "10.0.0.2"], True),
        (["2001:db8::1", "2001:db8::2", "10.0.0.1"], True),
    ],
)
def test_a_name_with_several_addresses_is_a_balancer(addresses: list[str], balancer: bool) -> None:
    remarks = balancer_remarks(addresses)
    assert bool(remarks) is balancer
    if balancer:
        assert "resolves to 2 addresses" in remarks[0]
        assert "--expand-dns" in remarks[0]


@pytest.fixture
def server() -> Iterator[int]:
    """A server on a free port that shows the idle page."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = body_of("vllm/0.32.0/e-idle/after.prom")
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = HTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield httpd.server_port
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def visit(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["doctor", *arguments, "--as", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_live_server(server: int, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = visit(capsys, f"http://127.0.0.1:{server}")
    assert code == document["exit_code"] == 0
    assert document["kind"] == "doctor"
    (target,) = document["targets"]
    assert target["state"] == "recognised"
    assert target["address"].endswith("/metrics")
    assert target["addresses"] == ["127.0.0.1"]


def test_a_balancer_is_said_and_taken_apart(
    server: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import auditor.http

    monkeypatch.setattr(auditor.http, "resolve_addresses", lambda host, port, **_: ["10.9.9.1", "10.9.9.2"])
    _, document = visit(capsys, f"http://127.0.0.1:{server}")
    assert "a balancer" in document["targets"][0]["remarks"][0]
    monkeypatch.setattr(auditor.http, "resolve_addresses", lambda host, port, **_: ["127.0.0.1", "127.0.0.2"])
    code, document = visit(capsys, f"http://localhost:{server}", "--expand-dns", "--timeout", "5s")
    assert code == 0
    assert [t["address"] for t in document["targets"]] == [
        f"http://127.0.0.1:{server}/metrics", f"http://127.0.0.2:{server}/metrics",
    ]  # fmt: skip
    assert [t["state"] for t in document["targets"]] == ["recognised", "failed"]


# --------------------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("public/production-stack-router-issue318-excerpt.prom", "scrape the workers"),
        ("cases/25-reachable-without-engine-metrics/input.prom", "not one of a known engine"),
    ],
)
def test_no_engine_ends_with_three(name: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = visit(capsys, str(FIXTURES / name))
    assert code == document["exit_code"] == 3
    assert document["targets"][0]["state"] == "not_an_engine"
    assert reason in document["targets"][0]["reason"]


def test_one_engine_of_two_ends_with_zero_and_names_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.prom"
    empty.write_text("", encoding="utf-8")
    code, document = visit(capsys, str(empty), str(FIXTURES / "vllm/0.32.0/e-idle/after.prom"))
    assert code == 0
    assert [t["state"] for t in document["targets"]] == ["failed", "recognised"]
    assert document["targets"][0]["reason"]


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    page = str(FIXTURES / "vllm/0.32.0/e-idle/after.prom")
    assert run(["doctor"]) == 2
    assert run(["doctor", "no-such.prom"]) == 2
    assert run(["doctor", page, "--as", "html"]) == 2
    assert "terminal or json" in capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 200])
def test_terminal(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    page = str(FIXTURES / "vllm/0.11.0/a-decode-heavy/after.prom")
    assert run(["doctor", page, "--width", str(width)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("OK")
    assert "about 0.10 to 0.15" in " ".join(out.split())
    assert "--boot-log" in out
    assert max(len(line) for line in out.splitlines()) <= width
