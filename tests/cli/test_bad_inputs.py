"""Bad input gets a clear sentence, the contract's code, and loses nothing else."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from tests.cli.support import FIXTURES, NEW, TEXT, A, B, C, auditor, free_port, in_turn, serve
from tests.hostile_server import HostileServer

AFTER = (A / "after.prom").read_bytes()
RESTART = NEW / "f-restart"


def reason(found: object) -> str:
    (target,) = found.json["targets"]  # type: ignore[attr-defined]
    return str(target["reason"])


# --------------------------------------------------------------------------- remote


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/status/401", "401"),
        ("/status/403", "403"),
        ("/status/404", "404"),
        ("/status/500", "500"),
        ("/status/503", "503"),
        ("/html", "HTML"),
        ("/empty", "empty"),
        ("/drop", ""),
        ("/reset", ""),
        ("/garbage", ""),
        ("/cut-length", ""),
        ("/cut-gzip", ""),
        ("/not-gzip", ""),
        ("/redirect-loop", "redirect"),
        ("/redirect-nowhere", ""),
    ],
)
def test_an_answer_that_is_no_page(path: str, words: str) -> None:
    with HostileServer(page=AFTER) as server:
        found = auditor("audit", server.url(path), "--as", "json", "--timeout", "5s")
    assert found.code == 3
    assert found.json["subjects"] == []
    assert found.json["targets"][0]["state"] == "failed"
    assert words in reason(found)
    assert len(reason(found)) > 15
    assert "Traceback" not in found.err


def test_refused_and_unknown_names() -> None:
    refused = auditor("audit", f"http://127.0.0.1:{free_port()}", "--as", "json")
    assert refused.code == 3
    assert "refused" in reason(refused).lower()
    unknown = auditor("audit", "http://no-such-host.invalid:8000", "--as", "json", "--timeout", "5s")
    assert unknown.code == 3
    assert "no-such-host.invalid" in reason(unknown) + unknown.json["targets"][0]["address"]


@pytest.mark.parametrize("path", ["/silent", "/dribble-headers", "/dribble-body", "/dribble-chunks"])
def test_the_deadline_ends_what_never_ends(path: str) -> None:
    with HostileServer(page=AFTER) as server:
        began = time.monotonic()
        found = auditor("audit", server.url(path), "--as", "json", "--timeout", "300ms")
        took = time.monotonic() - began
    assert found.code == 3
    assert took < 3
    assert "0.3" in reason(found)


@pytest.mark.parametrize("path", ["/endless", "/bomb", "/huge-length"])
def test_the_cap_ends_what_is_too_large(path: str) -> None:
    with HostileServer(page=AFTER) as server:
        found = auditor("audit", server.url(path), "--as", "json", "--max-body", "100000", "--timeout", "10s")
    assert found.code == 3
    assert "large" in reason(found) or "more than" in reason(found), reason(found)


def test_another_engine_or_none() -> None:
    page = b"# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total 5\n"
    with serve(lambda path, before: (200, page, TEXT)) as server:
        found = auditor("audit", server.url(), "--as", "json")
    assert found.code == 3
    assert found.json["targets"][0]["state"] == "not_an_engine"
    assert found.json["targets"][0]["flags"] == ["no_engine_metrics"]
    assert "1 series" in reason(found)


def test_a_routers_copy() -> None:
    found = auditor("audit", FIXTURES / "public" / "production-stack-router-issue318-excerpt.prom", "--as", "json")
    assert found.code == 3
    assert found.json["targets"][0]["state"] == "not_an_engine"
    assert "scrape the workers" in reason(found)


def test_an_idle_engine() -> None:
    idle = NEW / "e-idle"
    with serve(in_turn((idle / "before.prom").read_bytes(), (idle / "after.prom").read_bytes())) as server:
        found = auditor("audit", server.url(), "--window", "20ms", "--as", "json")
    assert found.code == 3
    assert "no_traffic" in found.subject["flags"]
    assert found.value("finished_requests") == 0
    assert found.value("prefill_share") is None


def test_a_restart_between_the_scrapes() -> None:
    with serve(in_turn((RESTART / "before.prom").read_bytes(), (RESTART / "after.prom").read_bytes())) as server:
        found = auditor("audit", server.url(), "--window", "20ms", "--as", "json")
    assert found.code == 0
    assert found.json["window"]["restarts"] == 1
    assert "counter_reset" in found.subject["flags"]
    assert found.value("finished_requests") == 20


def test_two_processes_behind_one_address() -> None:
    """The second scrape reaches another replica, which began earlier: no restart goes back in time."""
    with serve(in_turn((RESTART / "after.prom").read_bytes(), (RESTART / "before.prom").read_bytes())) as server:
        found = auditor("audit", server.url(), "--window", "20ms", "--as", "json")
    assert found.code == 3
    assert found.json["targets"][0]["state"] == "not_one_process"
    assert "replicas" in reason(found)


def test_a_model_that_changed_during_the_window() -> None:
    other = AFTER.replace(b'model_name="tiny"', b'model_name="other"')
    with serve(in_turn((A / "before.prom").read_bytes(), other)) as server:
        found = auditor("audit", server.url(), "--window", "20ms", "--as", "json")
    assert found.code == 3
    assert "other" in reason(found)


@pytest.mark.parametrize(("bodies", "status"), [((AFTER, b"gone"), (200, 503)), ((AFTER, b""), (200, 200))])
def test_an_engine_that_dies_during_the_window(bodies: tuple[bytes, ...], status: tuple[int, ...]) -> None:
    with serve(in_turn(*bodies, status=status)) as server:
        found = auditor("audit", server.url(), "--window", "20ms", "--as", "json")
    assert found.code == 3
    assert "not at the end" in reason(found)
    assert found.json["subjects"] == []


def test_one_bad_target_of_ten() -> None:
    """Nine are audited, the tenth is named with its reason, and the code stays 0."""
    with serve(in_turn(AFTER)) as good:
        urls = [good.url(f"/{i}/metrics") for i in range(10, 19)]
        bad = f"http://127.0.0.1:{free_port()}/metrics"
        found = auditor("audit", *urls[:4], bad, *urls[4:], "--as", "json")
        shown = auditor("audit", *urls[:4], bad, *urls[4:])
    assert found.code == 0, found.err
    states = {t["address"]: t["state"] for t in found.json["targets"]}
    assert list(states.values()).count("measured") == 9
    assert states[bad] == "failed"
    alone = auditor("audit", A / "after.prom", "--as", "json")
    assert found.value("prompt_tokens") == 9 * alone.value("prompt_tokens")
    assert found.json["window"]["coverage"] == 0.9
    assert found.subject["readings"]["prompt_tokens"]["state"] == "measured"
    assert bad in shown.out + shown.err


def test_coverage_below_the_least_makes_readings_partial() -> None:
    bad = [f"http://127.0.0.1:{free_port()}/metrics" for _ in range(2)]
    found = auditor("audit", A / "after.prom", *bad, "--as", "json")
    assert found.code == 0
    assert found.subject["readings"]["prompt_tokens"]["state"] == "partial"


# --------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"<html>sign in</html>", "HTML"),
        (b"# only a comment\n", "no sample"),
        (AFTER[:-400] + b"7", "cut off"),
        (gzip.compress(AFTER)[:-50], "gzip"),
        (b"\x00\x01\x02 not a page\n", "Line 1"),
        (b'{"metrics": []}', "JSON"),
        (b'{"schema": 1, "kind": "window", "window": ', "JSON"),
    ],
)
def test_a_file_that_exists_and_is_no_page(tmp_path: Path, body: bytes, words: str) -> None:
    path = tmp_path / "page.prom"
    path.write_bytes(body)
    found = auditor("audit", path, "--as", "json")
    assert found.code == 3, found.err
    assert words in reason(found)


def test_a_page_cut_inside_a_number_is_not_a_smaller_number(tmp_path: Path) -> None:
    at = AFTER.index(b"vllm:prompt_tokens_total{")
    cut = tmp_path / "cut.prom"
    cut.write_bytes(AFTER[: AFTER.index(b"\n", at) - 4])
    assert cut.read_bytes().splitlines()[-1].startswith(b"vllm:prompt_tokens_total{")
    found = auditor("audit", "--before", A / "before.prom", cut, "--as", "json")
    assert found.code == 3
    assert "cut off" in reason(found)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("no-such-file.prom",), "no such file"),
        ((FIXTURES,), "folder"),
        (("--before", "no-such.prom", A / "after.prom"), "no such file"),
        (("--before", A / "after.prom", A / "before.prom"), "wrong order"),
        (
            ("--before", A / "before.prom", FIXTURES / "sglang" / "0.5.23" / "mixed" / "after.prom"),
            "not two pages of one server",
        ),
        ((A / "before.prom", A / "after.prom"), "did you mean --before?"),
        (("--series", A / "before.prom"), "at least two pages"),
        (("--window", "60s", A / "after.prom"), "--window takes two scrapes"),
        (("--before", A / "before.prom", A / "after.prom", B / "after.prom"), "exactly one later page"),
        (("--before", A / "before.prom", A / "after.prom", "--series"), "different inputs"),
        (("--before", A / "before.prom", "http://127.0.0.1:1"), "--window"),
        (("-", "-"), "once only"),
        ((), "no target"),
        (("--every", "2s", A / "after.prom"), "--series"),
        (("--before", A / "before.prom", A / "after.prom", "--window", "5s"), "--seconds"),
        (("--claim", "prefil_rate=1", A / "after.prom"), "did you mean prefill_rate"),
        (("--slo", "ttft=1", A / "after.prom"), "did you mean"),
        (("--threshold", "9000", "--context", "8000", A / "after.prom"), "above --context"),
        (("--as", "jsn", A / "after.prom"), "json"),
        (("--window", "soon", "http://127.0.0.1:1"), "length of time"),
        (("--no-such-option",), "No such option"),
        (("--header", "secret-without-colon", A / "after.prom"), "NAME:VALUE"),
        (("--times", A / "workload.json", "--series", A / "before.prom", A / "after.prom"), "JSON list"),
        (("--slo", "ttft_seconds=-1", A / "after.prom"), "below 0"),
        (("--claim", "prefill_rate=1e999", A / "after.prom"), "too large"),
        (("--min-coverage", "nan", A / "after.prom"), "no number that could be meant"),
        (("--budget", "inf", A / "after.prom"), "no number that could be meant"),
    ],
    ids=str,
)
def test_the_callers_mistakes(argv: tuple[object, ...], words: str) -> None:
    found = auditor("audit", *argv)
    assert found.code == 2, found.err
    assert words in found.err
    assert found.out == ""
    assert "Traceback" not in found.err


def test_a_name_too_long_to_be_a_file() -> None:
    found = auditor("audit", "x" * 5000)
    assert found.code == 2
    assert "name too long" in found.err


def test_times_must_fit_the_pages(tmp_path: Path) -> None:
    pages = (A / "before.prom", A / "after.prom")
    for text, words in (
        ("[1, 2, 3]", "3 times for 2 pages"),
        ("[2, 1]", "do not rise"),
        ("[1, NaN]", "JSON list"),
        ('"12"', "JSON list"),
        ("[1, null]", "JSON list"),
    ):
        times = tmp_path / "times.json"
        times.write_text(text)
        found = auditor("audit", "--series", *pages, "--times", times)
        assert found.code == 2, text
        assert words in found.err


def test_a_saved_report_is_no_window(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    auditor("audit", A / "after.prom", "--output", f"json={report}")
    found = auditor("audit", report)
    assert found.code == 2
    assert "auditor render" in found.err


HEAD = '"schema": 1, "kind": "window", "window": {"kind": "lifetime", "start": null, "end": null, "seconds": null}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"schema": 99, "kind": "window"}', "newer release"),
        ('{"schema": "x", "kind": "window"}', "no saved window"),
        ('{"schema": 1, "kind": "window", "window": {}, "targets": []}', "no saved window"),
        (
            f'{{{HEAD}, "targets": [{{"address": "a", "state": "measured", "engine": "nosuch", "times": [null],'
            ' "series": []}]}',
            "nosuch",
        ),
        (
            f'{{{HEAD}, "targets": [{{"address": "a", "state": "measured", "engine": "vllm", "times": [null],'
            ' "series": [{"name": "x", "labels": {}, "values": [1, 2]}]}]}',
            "one value a page",
        ),
    ],
)
def test_a_damaged_window(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "window.json"
    path.write_text(text)
    found = auditor("audit", path)
    assert found.code == 3, found.err
    assert words in found.err


def test_secrets_stay_out_of_everything(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hunter2-token\n")
    with HostileServer(page=AFTER) as server:
        url = server.url("/status/401", user="user:hunter2-password")
        found = auditor(
            "audit", url, "--token-file", token, "--header", "X-Scope-OrgID: hunter2-tenant", "--as", "json"
        )
    assert found.code == 3
    for secret in ("hunter2-token", "hunter2-password", "hunter2-tenant"):
        assert secret not in found.out + found.err


def test_line_ends_byte_order_mark_and_a_wrong_content_type(tmp_path: Path) -> None:
    odd = tmp_path / "odd.prom"
    odd.write_bytes(b"\xef\xbb\xbf" + AFTER.replace(b"\n", b"\r\n"))
    plain, found = auditor("audit", A / "after.prom", "--as", "json"), auditor("audit", odd, "--as", "json")
    assert found.code == 0
    assert found.subject["readings"] == plain.subject["readings"]
    with serve(lambda path, before: (200, AFTER, "text/html")) as server:
        assert auditor("audit", server.url(), "--as", "json").subject["readings"] == plain.subject["readings"]


def test_labels_that_are_markup_terminal_codes_or_very_long(tmp_path: Path) -> None:
    for name in (b"[bold red]x[/]", b"\x1b[31mred\x1b[0m", b"m" * 10_000, "模型".encode(), b'a\\nb\\"c'):
        page = tmp_path / "page.prom"
        page.write_bytes(AFTER.replace(b'model_name="tiny"', b'model_name="' + name + b'"'))
        found = auditor("audit", page)
        assert found.code == 0, found.err
        assert "\x1b" not in found.out
        assert max(map(len, found.out.splitlines())) <= 200
        assert auditor("audit", page, "--as", "json").subject["readings"]["prompt_tokens"]["state"] == "measured"


def test_a_hundred_thousand_unknown_families(tmp_path: Path) -> None:
    page = tmp_path / "big.prom"
    page.write_bytes(AFTER + b"".join(b"other_%d 1\n" % i for i in range(100_000)))
    began = time.monotonic()
    found = auditor("audit", page, "--as", "json")
    assert found.code == 0
    assert time.monotonic() - began < 10
    assert found.subject["readings"] == auditor("audit", A / "after.prom", "--as", "json").subject["readings"]


def test_c_is_untouched_by_its_neighbours() -> None:
    """A page with twice the same series and different values is refused; the others of the fleet are read."""
    line = next(x for x in (C / "after.prom").read_bytes().splitlines() if x.startswith(b"vllm:prompt_tokens_total{"))
    twice = (C / "after.prom").read_bytes() + line.rpartition(b" ")[0] + b" 1\n"
    with serve(lambda path, before: (200, twice if path == "/twice" else AFTER, TEXT)) as server:
        found = auditor("audit", server.url("/twice"), server.url(), "--as", "json")
    assert [t["state"] for t in found.json["targets"]] == ["failed", "measured"]
    assert "twice" in found.json["targets"][0]["reason"]
    assert found.value("prompt_tokens") == auditor("audit", A / "after.prom", "--as", "json").value("prompt_tokens")
