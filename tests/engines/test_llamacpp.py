"""llama.cpp's server: recorded loads against what their client saw, and its traps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from auditor.collect import Inputs, collect
from tests.engines.pages import FIXTURES, audit_capture, audit_pages, client_truth, value, verdicts

RECORDED = FIXTURES / "llamacpp" / "11434"


@pytest.mark.parametrize("name", ["mixed", "overload", "prefix-hit"])
def test_tokens_are_what_the_client_saw(name: str) -> None:
    """The page counts computed and cached prompt tokens apart: the prompt is their sum."""
    truth = client_truth(RECORDED / name)
    subject = audit_capture(RECORDED / name, seconds=truth["wall_s"])
    assert value(subject, "prompt_tokens") == truth["prompt_tokens"]
    assert value(subject, "computed_prompt_tokens") == truth["sum_timings_prompt_n"]
    assert value(subject, "cached_prompt_tokens") == truth["cached_tokens"]
    assert value(subject, "generation_tokens") == truth["completion_tokens"]
    assert value(subject, "prefix_hit_share") == pytest.approx(truth["cached_tokens"] / truth["prompt_tokens"])


@pytest.mark.parametrize("name", ["mixed", "overload", "prefix-hit"])
def test_times_are_what_each_clock_allows(name: str) -> None:
    """Answers are timed per slot, prompts once for all: so decode is a sum, and prefill has a lower limit only."""
    truth = client_truth(RECORDED / name)
    subject = audit_capture(RECORDED / name, seconds=truth["wall_s"])
    # Six significant digits on the page.
    assert value(subject, "decode_seconds") == pytest.approx(truth["sum_predicted_ms"] / 1000, abs=0.002)
    prefill = subject.readings["prefill_seconds"]
    assert (prefill.state, prefill.high) == ("bounded", None)
    assert prefill.low is not None
    assert 0 < prefill.low <= truth["sum_prompt_ms"] / 1000
    share = subject.readings["prefill_share"]
    true_share = truth["sum_prompt_ms"] / (truth["sum_prompt_ms"] + truth["sum_predicted_ms"])
    assert share.low is not None
    assert share.high is not None
    assert share.low <= true_share <= share.high
    assert verdicts(subject)["time-split"] == "undecided"


def test_answers_are_added_over_slots() -> None:
    """112.9 request-seconds in a wall time of 30.2 s: said, and no share of the wall."""
    subject = audit_capture(RECORDED / "mixed", seconds=30.163)
    assert value(subject, "decode_seconds") == pytest.approx(112.939)
    assert "added over slots" in " ".join(subject.readings["decode_seconds"].caveats)


@pytest.mark.parametrize(("name", "requests"), [("mixed", 12), ("overload", 16), ("prefix-hit", 8)])
def test_tokens_of_a_call_lie_in_their_range(name: str, requests: int) -> None:
    """The first token of each request comes with its prompt, and requests are not counted: 798 + 306 - 12 of 83."""
    truth = client_truth(RECORDED / name)
    reading = audit_capture(RECORDED / name).readings["tokens_per_step"]
    assert reading.count is not None
    assert reading.low is not None
    assert reading.high is not None
    ran = truth["sum_timings_prompt_n"] + truth["completion_tokens"] - requests
    assert reading.low <= ran / reading.count <= reading.high


def test_what_has_no_series_says_what_has_it() -> None:
    subject = audit_capture(RECORDED / "mixed", seconds=30.163)
    for name in ("finished_requests", "ttft_seconds", "length_share", "queue_seconds", "mean_decode_seconds"):
        reading = subject.readings[name]
        assert reading.state == "not_exported", name
        assert "llama.cpp exports no" in str(reading.reason) or "llama.cpp counts no" in str(reading.reason), name
    assert "proxy" in (subject.readings["finished_requests"].reason or "")


def test_too_long_prompts_are_no_traffic() -> None:
    subject = audit_capture(RECORDED / "too-long")
    assert "no_traffic" in subject.flags
    assert value(subject, "prompt_tokens") == 0


def test_a_second_scrape_resets_two_gauges_and_no_reading() -> None:
    """The gauges fall to 0 between these pages while nothing ran; the counters stand still."""
    folder = RECORDED / "mixed"
    first, second = folder / "after.prom", folder / "after-second-scrape.prom"
    assert "predicted_tokens_seconds 0\n" in second.read_text(encoding="utf-8")
    (subject,) = audit_pages(second, before=first, seconds=1).subjects
    assert "no_traffic" in subject.flags
    assert "counter_reset" not in subject.flags
    (life,) = audit_pages(first).subjects
    (again,) = audit_pages(second).subjects
    assert {k: r.value for k, r in life.readings.items()} == {k: r.value for k, r in again.readings.items()}


def test_a_high_water_mark_typed_counter_is_not_counted() -> None:
    """n_tokens_max rises from 97 to a longer context: no tokens of anybody."""
    subject = audit_capture(RECORDED / "prefix-hit")
    assert value(subject, "prompt_tokens") == 1847


@pytest.fixture
def server() -> Iterator[str]:
    body = (RECORDED / "mixed" / "after.prom").read_bytes()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_port}/metrics"
    http.shutdown()
    http.server_close()


def test_our_own_scrape_is_said_to_disturb(server: str) -> None:
    window = collect(Inputs(targets=(server,)))
    assert window.targets[0].state == "measured"
    assert any("our scrape disturbs what your Prometheus stores" in text for text in window.warnings)
    saved = collect(Inputs(targets=(str(RECORDED / "mixed" / "after.prom"),)))
    assert saved.warnings == ()


def test_calls_have_no_kind() -> None:
    subject = audit_capture(RECORDED / "mixed", seconds=30.163)
    for name in ("decode_pass_share", "seconds_per_decode_pass", "prefill_tokens_per_pass", "decode_tokens_per_pass"):
        assert subject.readings[name].state == "not_exported", name
    assert value(subject, "steps") == 83
