"""``auditor audit engine.log``: what rolling figures can say, and everything they must not say."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli_boots.running import CONSTRUCTED, FIXTURES, LOGS, auditor, case

SERIES = LOGS / "vllm-0.32.0" / "l-series.log"
MAY_HAVE_VALUES = {
    "prompt_tokens_per_wall_second", "generation_tokens_per_wall_second", "reported_generation_rate",
    "running_requests", "waiting_requests", "kv_usage", "kv_usage_max", "kv_usage_peak",
    "max_model_len", "kv_max_concurrency", "block_size_tokens",
}  # fmt: skip


def subject_of(*arguments: object, code: int = 0, stdin: bytes = b"") -> dict[str, Any]:
    found = auditor("audit", *arguments, "--as", "json", stdin=stdin)
    assert found.code == code, found.err
    [subject] = found.json["subjects"]
    return dict(subject)


def vllm_line(
    at: str, prompt: float, generation: float, running: int, waiting: int, kv: float, engine: str = "000"
) -> str:
    return (
        f"INFO 11-29 {at} [loggers.py:271] Engine {engine}: Avg prompt throughput: {prompt} tokens/s, Avg generation "
        f"throughput: {generation} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
        f"GPU KV cache usage: {kv}%, Prefix cache hit rate: 0.0%"
    )


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "engine.log"
    path.write_text("\n".join(lines) + "\n")
    return path


# ------------------------------------------------------------------------------ public cases


def test_one_line_is_read_and_its_hit_rate_is_not_used() -> None:
    subject = subject_of(case("04") / "input.log")
    readings = subject["readings"]
    assert readings["prompt_tokens_per_wall_second"]["value"] == 6102.8
    assert readings["generation_tokens_per_wall_second"]["value"] == 1221.7
    assert readings["running_requests"]["value"] == 259
    assert readings["waiting_requests"]["value"] == 535
    assert readings["kv_usage"]["value"] == pytest.approx(0.823)
    assert readings["prefix_hit_share"]["value"] is None
    assert readings["lookup_hit_share"]["value"] is None
    assert {"log_only", "rolling_hit_rate"} <= set(subject["flags"])
    [log] = subject["facts"]["log"]
    assert log["hit_rate"] == pytest.approx(0.322)
    assert log["hit_rate_usable"] is False
    words = subject["facts"]["rolling_hit_rate"]
    assert "32.2 %, over recent requests and not over this window: not used" in words
    assert "prompt_tokens_by_source (local_cache_hit) or request_prefill_kv_computed_tokens" in words
    assert subject["audits"]["prefix-cache"]["verdict"] == "undecided"
    # 535 wait and preemptions are on no line: the pool is not cleared
    assert subject["levers"]["kv-memory"]["verdict"] == "undecided"
    assert subject["audits"]["kv-pool"]["verdict"] == "undecided"


def test_preemptions_of_the_page_spoil_the_hit_rate_of_the_log() -> None:
    folder = case("04")
    found = auditor("audit", "--before", folder / "input.t0.prom", folder / "input.t1.prom",
                    "--boot-log", folder / "input.log", "--as", "json")  # fmt: skip
    [subject] = found.json["subjects"]
    words = subject["facts"]["rolling_hit_rate"]
    assert "preemptions>0: 412 requests were preempted" in words
    assert "this is not reuse in the workload" in words
    assert "or a window without preemptions" in words
    assert "log_only" not in subject["flags"]


def test_stale_gauges_describe_no_load() -> None:
    subject = subject_of(case("12") / "input.log", code=3)
    assert {"gauges_stale", "no_traffic"} <= set(subject["flags"])
    assert "for 20 s (3 lines) no token moved" in subject["facts"]["gauges_stale"]
    assert "or the engine is stuck" in subject["facts"]["gauges_stale"]
    for name in ("kv_usage", "kv_usage_peak", "running_requests", "waiting_requests"):
        reading = subject["readings"][name]
        assert (reading["state"], reading["value"]) == ("invalid", None), name
        assert "mean" not in reading
    assert "kv_bound" not in subject["flags"]
    assert {a["verdict"] for a in subject["audits"].values()} <= {"undecided", "not_applicable"}
    for lever in subject["levers"].values():
        assert "90" not in lever["summary"]
    assert subject["readings"]["generation_tokens_per_wall_second"]["value"] == 0


def test_a_gate_on_stale_gauges_is_undecided(tmp_path: Path) -> None:
    premises = tmp_path / "premises.yaml"
    premises.write_text("premises:\n  - belief: engine alive\n  - belief: kv not the limit\n")
    found = auditor("gate", case("12") / "input.log", "--premises", premises, "--as", "json")
    assert found.code == 3
    assert {p["verdict"] for p in found.json["gate"]["premises"]} == {"undecided"}


def _says_prefill_first(subject: dict[str, Any]) -> None:
    assert "prefill_first_scheduling" in subject["flags"]
    audit = subject["audits"]["engine-liveness"]
    assert audit["verdict"] == "broken"
    assert "this is scheduling. The KV pool, the queue and the hit rate are not the lever" in audit["summary"]


def test_prefill_first_starvation_from_counts() -> None:
    subject = subject_of(case("09") / "input.json")
    _says_prefill_first(subject)
    [log] = subject["facts"]["log"]
    assert log["decode"]["decode_batch_share"] == pytest.approx([36 / 2899, 38 / 2901])  # 1.24 .. 1.31 %
    assert log["decode"]["decode_interval_seconds"] == pytest.approx([900 / 38, 900 / 36])  # 23.7 .. 25.0 s
    words = subject["facts"]["prefill_first_scheduling"]
    assert "2,863 prefill and 36 to 38 decode batches in 900 s: decode is 1.2 to 1.3 % of batches" in words
    assert "Mixed chunking is reported to have no effect together with speculative decoding" in words


def test_prefill_first_starvation_from_a_log(tmp_path: Path) -> None:
    lines = ["[2026-07-01 08:00:00] server_args=ServerArgs(model_path='m', chunked_prefill_size=8192, "
             "decode_log_interval=1, speculative_algorithm='EAGLE', speculative_num_draft_tokens=5)"]  # fmt: skip
    decode_at = {round(i * 900 / 37) for i in range(1, 37)} | {900}
    prefill = 0
    for second in range(901):
        stamp = f"[2026-07-01 08:{second // 60:02d}:{second % 60:02d} TP0]"
        for _ in range(4 if second < 161 else 3):
            if prefill < 2863:
                prefill += 1
                lines.append(f"{stamp} Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, "
                             "token usage: 0.20, #running-req: 250, #queue-req: 3")  # fmt: skip
        if second in decode_at:
            lines.append(f"{stamp} Decode batch. #running-req: 250, #token: 9000, token usage: 0.20, accept len: 2.50, "
                         "gen throughput (token/s): 25.00, #queue-req: 3")  # fmt: skip
    assert (prefill, len(decode_at)) == (2863, 37)
    subject = subject_of(written(tmp_path, *lines))
    _says_prefill_first(subject)
    assert subject["labels"] == {"engine": "sglang", "model": "m"}
    [log] = subject["facts"]["log"]
    assert log["batches"]["decode_batches"] == [37, 37]
    assert log["decode"]["decode_batch_share"] == pytest.approx([37 / 2900, 37 / 2900])
    assert log["decode"]["decode_interval_seconds"] == pytest.approx([900 / 37, 900 / 37])
    assert "speculative decoding" in subject["facts"]["prefill_first_scheduling"]
    # 2,863 batches of 8,192 tokens in 900 s
    assert subject["readings"]["prompt_tokens_per_wall_second"]["value"] == pytest.approx(2863 * 8192 / 900)


def test_batch_counts_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    path.write_text('{"prefill_batches": "many", "decode_batches": 3, "window_s": 900}')
    found = auditor("audit", path)
    assert found.code == 2
    assert "batch counts need prefill_batches" in found.err


def test_block_floor_of_a_hybrid_model_comes_from_its_boot_log() -> None:
    folder = case("03")
    found = auditor("audit", "--before", folder / "input.t0.prom", folder / "input.t1.prom",
                    "--boot-log", folder / "input.log", "--as", "json")  # fmt: skip
    [subject] = found.json["subjects"]
    assert subject["settings"]["block_size"] == {"value": 528, "source": "boot log line 1"}
    assert subject["readings"]["below_block_share"]["low"] == pytest.approx(1 / 3, abs=1e-4)
    assert subject["readings"]["prefix_hit_share"]["value"] == pytest.approx(1056 / 4022, abs=1e-4)


# ------------------------------------------------------------------------------ a recorded log


def test_recorded_log_against_its_own_lines() -> None:
    text = SERIES.read_text()
    numbers = [
        tuple(map(float, found))
        for found in re.findall(
            r"prompt throughput: ([\d.]+).*?generation throughput: ([\d.]+).*?Running: (\d+).*?Waiting: (\d+)"
            r".*?usage: ([\d.]+)%",
            text,
        )
    ]
    assert len(numbers) == 17
    subject = subject_of(SERIES)
    readings = subject["readings"]

    def column(index: int) -> list[float]:
        return [row[index] for row in numbers]

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    assert readings["prompt_tokens_per_wall_second"]["value"] == pytest.approx(mean(column(0)))
    assert readings["generation_tokens_per_wall_second"]["value"] == pytest.approx(mean(column(1)))
    for name, index, scale in (("running_requests", 2, 1), ("waiting_requests", 3, 1), ("kv_usage", 4, 100)):
        values = [v / scale for v in column(index)]
        reading = readings[name]
        assert (reading["value"], reading["max"]) == (pytest.approx(values[-1]), pytest.approx(max(values))), name
        assert reading["mean"] == pytest.approx(mean(values)), name
    course = subject["course"]
    assert course["readings"]["running_requests"] == column(2)[1:]
    assert course["readings"]["generation_tokens_per_wall_second"] == column(1)[1:]
    assert subject["settings"]["budget"]["value"] == 2048
    assert subject["settings"]["seats"]["source"].startswith("boot log line")
    assert subject["audits"]["engine-liveness"]["verdict"] == "holds"


@pytest.mark.parametrize(
    "path",
    [SERIES, LOGS / "vllm-0.11.0" / "p-preemption.log", CONSTRUCTED / "sglang-0.4.6.log",
     CONSTRUCTED / "sglang-0.5.23.log", CONSTRUCTED / "vllm-0.6.6-v0.log", CONSTRUCTED / "vllm-0.19.1-hybrid.log",
     LOGS / "cases" / "04.log"],
    ids=lambda path: path.name,
)  # fmt: skip
def test_nothing_pretends_to_be_a_counter(path: Path) -> None:
    subject = subject_of(path)
    values = {name for name, r in subject["readings"].items() if r["value"] is not None}
    assert values <= MAY_HAVE_VALUES
    for name in ("prefill_share", "length_share", "prefix_hit_share", "finished_requests", "ttft_seconds",
                 "prompt_tokens", "generation_tokens", "preemptions", "steps"):  # fmt: skip
        reading = subject["readings"][name]
        assert reading["value"] is None
        assert (reading["state"], reading["reason"]) == ("not_exported", "a log does not carry it; scrape /metrics"), (
            name
        )
    for name in ("time-split", "prefix-cache", "length-truncation", "preemption", "step-fill"):
        assert subject["audits"][name]["verdict"] in ("undecided", "not_applicable"), name
    assert "rolling averages over about ten seconds, not counters" in subject["facts"]["log_only"]


# ------------------------------------------------------------------------------ made logs


def test_a_stale_tail_is_in_no_figure(tmp_path: Path) -> None:
    live = [
        vllm_line(f"10:00:{10 * i:02d}", 100.0, 50.0, r, 0, kv)
        for i, (r, kv) in enumerate([(4, 10.0), (6, 20.0), (8, 30.0)])
    ]
    dead = [vllm_line(f"10:01:{10 * i:02d}", 0.0, 0.0, 50, 9, 99.0) for i in range(5)]
    subject = subject_of(written(tmp_path, *live, *dead))
    usage, running = subject["readings"]["kv_usage"], subject["readings"]["running_requests"]
    assert (usage["value"], usage["mean"], usage["max"]) == pytest.approx((0.30, 0.20, 0.30))
    assert (running["value"], running["mean"], running["max"]) == (8, 6, 8)
    assert subject["readings"]["waiting_requests"]["max"] == 0
    assert "kv_bound" not in subject["flags"]
    assert "5 lines with stale gauges are left out" in subject["facts"]["log_only"]
    # 3 lines of 10 s at 50 tok/s; the log covers 100 s and the 10 s before its first line
    assert subject["readings"]["generation_tokens_per_wall_second"]["value"] == pytest.approx(3 * 10 * 50 / 110)


def test_a_full_pool_with_a_queue_binds(tmp_path: Path) -> None:
    lines = [vllm_line(f"10:00:{10 * i:02d}", 100.0, 50.0, 8, 5, 98.0 + i / 10) for i in range(4)]
    subject = subject_of(written(tmp_path, *lines))
    assert subject["facts"]["kv_bound"] == "KV use 98% with 5 waiting"
    assert subject["audits"]["kv-pool"]["verdict"] == "broken"


def test_an_idle_log_has_no_verdict(tmp_path: Path) -> None:
    lines = [vllm_line(f"10:00:{10 * i:02d}", 0.0, 0.0, 0, 0, 0.0) for i in range(4)]
    subject = subject_of(written(tmp_path, *lines), code=3)
    assert subject["facts"]["no_traffic"] == "no token moved in any line of the log"
    assert "gauges_stale" not in subject["flags"]
    for name in ("finished_requests", "prompt_tokens", "preemptions"):
        assert subject["readings"][name]["value"] is None, name  # an idle log is no page whose counters stand at 0


def test_two_data_parallel_engines_stay_apart_and_add_up(tmp_path: Path) -> None:
    lines = []
    for i in range(3):
        lines.append(vllm_line(f"10:00:{10 * i:02d}", 100.0, 50.0, 3, 1, 20.0, engine="000"))
        lines.append(vllm_line(f"10:00:{10 * i:02d}", 300.0, 70.0, 5, 2, 40.0, engine="001"))
    subject = subject_of(written(tmp_path, *lines))
    readings = subject["readings"]
    assert [p["labels"]["rank"] for p in subject["parts"]] == ["0", "1"]
    assert (readings["running_requests"]["value"], readings["waiting_requests"]["value"]) == (8, 3)
    assert readings["generation_tokens_per_wall_second"]["value"] == pytest.approx(120)
    assert readings["kv_usage_max"]["value"] == pytest.approx(0.4)
    by_rank = auditor("audit", tmp_path / "engine.log", "--by", "rank", "--as", "json").json
    assert [s["readings"]["running_requests"]["value"] for s in by_rank["subjects"]] == [3, 5]


def test_a_restart_inside_makes_readings_partial(tmp_path: Path) -> None:
    boot = (
        "INFO 11-29 10:00:25 [utils.py:233] non-default args: {'model': 'm', 'max_num_batched_tokens': 4096}",
        "INFO 11-29 10:00:26 [kv_cache_utils.py:1100] GPU KV cache size: 100,000 tokens",
        "INFO 11-29 10:00:27 [core.py:200] init engine (profile, create kv cache, warmup model) took 1.00 seconds",
    )
    before = [vllm_line(f"10:00:{10 * i:02d}", 100.0, 50.0, 3, 0, 20.0) for i in range(2)]
    after = [vllm_line(f"10:00:{10 * i:02d}", 100.0, 50.0, 3, 0, 20.0) for i in range(4, 6)]
    subject = subject_of(written(tmp_path, *before, *boot, *after))
    assert "counter_reset" in subject["flags"]
    assert subject["readings"]["running_requests"]["state"] == "partial"
    assert subject["settings"]["budget"] == {"value": 4096, "source": "boot log line 3"}


# ------------------------------------------------------------------------------ ways in and out


def test_a_saved_window_of_a_log_gives_the_same_bytes(tmp_path: Path) -> None:
    window = tmp_path / "window.json"
    for path in (SERIES, CONSTRUCTED / "sglang-0.4.6.log"):
        assert auditor("collect", path, "-o", window).code == 0
        direct = auditor("audit", path, "--as", "json")
        again = auditor("audit", window, "--as", "json")
        assert again.out == direct.out


def test_a_piece_of_a_log_does_not_speak_for_the_whole(tmp_path: Path) -> None:
    busy = [vllm_line(f"10:{i:02d}:00", 100.0, 50.0, 4, 0, 20.0) for i in range(6)]
    idle = [vllm_line(f"10:{i:02d}:00", 0.0, 0.0, 0, 0, 0.0) for i in range(6, 12)]
    log = written(tmp_path, *busy, *idle)
    assert auditor("collect", log, "--split", "5m", "-o", tmp_path / "w.json").code == 0
    first = subject_of(tmp_path / "w-01.json")
    assert first["readings"]["running_requests"]["max"] == 4
    assert "12 lines" not in first["facts"]["log_only"]
    assert "a piece of a longer log" in first["facts"]["log_only"]
    last = subject_of(tmp_path / "w-02.json", code=3)
    assert "no_traffic" in last["flags"]


def test_options_reach_a_saved_window(tmp_path: Path) -> None:
    window = tmp_path / "window.json"
    assert auditor("collect", SERIES, "-o", window).code == 0
    subject = subject_of(window, "--seats", 7)
    assert subject["settings"]["seats"] == {"value": 7, "source": "flag"}


def test_wrapped_logs_say_the_same(tmp_path: Path) -> None:
    plain = SERIES.read_bytes()
    expected = subject_of(SERIES)["readings"]
    docker = b"\n".join(
        json.dumps(
            {"log": line.decode() + "\n", "stream": "stderr", "time": f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}Z"}
        ).encode()
        for i, line in enumerate(plain.splitlines())
    )
    for name, data in (("log.gz", gzip.compress(plain)), ("docker.json", docker)):
        path = tmp_path / name
        path.write_bytes(data)
        readings = subject_of(path)["readings"]
        for reading in ("running_requests", "kv_usage", "waiting_requests"):
            assert readings[reading]["value"] == expected[reading]["value"], name
    assert subject_of("-", stdin=plain)["readings"] == expected


def test_a_page_is_never_taken_for_a_log(tmp_path: Path) -> None:
    page = (FIXTURES / "demo" / "after.prom").read_text()
    bare = tmp_path / "bare.prom"
    bare.write_text("".join(line + "\n" for line in page.splitlines() if not line.startswith("#")))
    for path in (FIXTURES / "demo" / "after.prom", bare):
        assert "log_only" not in subject_of(path)["flags"]
    assert "log_only" not in subject_of("-", stdin=page.encode())["flags"]


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"", ""), (b"hello\nworld\n", ""), (b"<html><body>502</body></html>", ""), (b"[1, 2]", ""), (b"{}", "")],
)
def test_neither_page_nor_log(tmp_path: Path, body: bytes, words: str) -> None:
    path = tmp_path / "odd"
    path.write_bytes(body)
    for arguments, stdin in (((path,), b""), (("-",), body)):
        found = auditor("audit", *arguments, "--as", "json", stdin=stdin)
        assert found.code == 3
        assert found.json["subjects"] == []
        assert found.json["targets"][0]["state"] in ("failed", "not_an_engine")


def test_a_boot_log_without_running_lines_is_pointed_at_boots() -> None:
    found = auditor("audit", LOGS / "vllm-0.32.0" / "auto-boot-1.log")
    assert found.code == 3
    assert "auditor boots auto-boot-1.log reads it" in found.words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SERIES, FIXTURES / "demo" / "after.prom"), "is an engine's log and"),
        ((SERIES, "--window", "60s"), "a log has its own length"),
        (("/no/such.log",), "/no/such.log"),
    ],
)
def test_callers_mistakes(arguments: tuple[object, ...], words: str) -> None:
    found = auditor("audit", *arguments)
    assert found.code == 2
    assert words in found.err


def test_two_logs_are_a_fleet() -> None:
    found = auditor("audit", SERIES, LOGS / "vllm-0.11.0" / "p-preemption.log", "--by", "target", "--as", "json")
    assert found.code == 0
    assert len(found.json["subjects"]) == 2


def test_a_screen_says_once_what_a_log_cannot_answer() -> None:
    found = auditor("audit", SERIES)
    assert found.code == 0
    assert max(map(len, found.text.splitlines())) <= 80
    assert found.words.count("other questions a log does not carry it; scrape /metrics") == 1
    assert "YES Does the engine make tokens?" in found.words
    assert "a page of /metrics answers what a log cannot" in found.words
