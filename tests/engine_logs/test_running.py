"""Running lines: what they say, and what may not be concluded from them."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import pytest

from auditor.engine_logs import readings_from_log, scan_log
from auditor.engine_logs.figures import read_record
from auditor.engine_logs.lines import LogLine
from auditor.engine_logs.summing import MOST_RECORDS

LOGS = Path(__file__).parents[2] / "fixtures" / "boot_logs"


def stats(second: int, prompt: float, generation: float, running: int, waiting: int, usage: float) -> str:
    return (
        f"INFO 11-29 14:{second // 60:02d}:{second % 60:02d} [loggers.py:127] Engine 000: Avg prompt throughput: "
        f"{prompt} tokens/s, Avg generation throughput: {generation} tokens/s, Running: {running} reqs, Waiting: "
        f"{waiting} reqs, GPU KV cache usage: {usage}%, Prefix cache hit rate: 5.0%"
    )


def write(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "running.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_case_04_line_and_its_hit_rate() -> None:
    figures = readings_from_log(LOGS / "cases" / "04.log")
    [record] = figures.records
    assert (record.prompt_tok_s, record.generation_tok_s) == (6102.8, 1221.7)
    assert (record.running, record.waiting, record.kv_usage, record.hit_rate) == (259, 535, 0.823, 0.322)
    usable, reason = figures.hit_rate_is_usable(preemptions=412)
    assert not usable
    assert reason.startswith("preemptions>0: 412 ")
    assert "prompt_tokens_by_source" in reason
    usable, reason = figures.hit_rate_is_usable()
    assert not usable
    assert "rolling over recent requests" in reason


def test_case_12_frozen_gauges_describe_no_load() -> None:
    figures = readings_from_log(LOGS / "cases" / "12.log")
    [fact] = figures.facts
    assert (fact.flag, fact.lines, fact.seconds, fact.first_line) == ("gauges_stale", 3, 20.0, 1)
    rolling = figures.engines["000"]
    assert (rolling.prompt_tokens, rolling.generation_tokens) == (0.0, 0.0)  # counted, and zero
    assert (rolling.live_lines, rolling.stale_lines) == (0, 3)
    assert rolling.kv_usage_mean is None
    assert rolling.kv_usage_max is None
    assert rolling.waiting_max is None
    assert rolling.hit_rate is None


def test_two_equal_silent_lines_are_not_yet_stale(tmp_path: Path) -> None:
    figures = readings_from_log(
        write(
            tmp_path, stats(0, 0.0, 0.0, 6, 5, 90.0), stats(10, 0.0, 0.0, 6, 5, 90.0), stats(20, 8.0, 2.0, 3, 2, 30.0)
        )
    )
    assert figures.facts == ()
    rolling = figures.engines["000"]
    assert rolling.live_lines == 3
    assert rolling.kv_usage_mean == pytest.approx(0.70)  # (90 + 90 + 30) / 3
    assert rolling.running_mean == 5


def test_stale_lines_leave_the_averages_and_idle_ones_do_not(tmp_path: Path) -> None:
    lines = [stats(0, 100.0, 50.0, 4, 2, 40.0)]
    lines += [stats(10 * i, 0.0, 0.0, 9, 9, 90.0) for i in range(1, 5)]
    lines += [stats(50, 200.0, 70.0, 2, 0, 20.0), stats(60, 0.0, 0.0, 0, 0, 0.0)]
    figures = readings_from_log(write(tmp_path, *lines))
    rolling = figures.engines["000"]
    assert [(f.lines, f.seconds, f.first_line) for f in figures.facts] == [(4, 30.0, 2)]
    assert (rolling.lines, rolling.live_lines, rolling.stale_lines) == (7, 3, 4)
    assert rolling.kv_usage_mean == pytest.approx(0.2)  # (40 + 20 + 0) / 3
    assert (rolling.kv_usage_max, rolling.running_max, rolling.waiting_max) == (0.4, 4, 2)
    assert rolling.seconds == 60
    assert rolling.prompt_tokens == pytest.approx(3000)  # (100 + 200) x 10 s
    assert rolling.prompt_tok_s == pytest.approx(300 / 7)


def test_moving_gauges_with_zero_rates_are_not_called_stale(tmp_path: Path) -> None:
    lines = [stats(10 * i, 0.0, 0.0, 5, 3, 50.0 + i) for i in range(6)]
    assert readings_from_log(write(tmp_path, *lines)).facts == ()


def test_recorded_preemption_log() -> None:
    figures = readings_from_log(LOGS / "vllm-0.11.0" / "p-preemption.log")
    rolling = figures.engines["000"]
    assert (rolling.lines, rolling.seconds, rolling.interval_seconds) == (8, 70.0, 10.0)
    # 557.1 + 270 + 270 + 90 + 270 + 629.9 + 269.9 + 0 = 2,356.9 tokens/s, ten seconds each
    assert rolling.prompt_tokens == pytest.approx(23569)
    assert rolling.kv_usage_max == 1.0
    assert rolling.hit_rate == 0.343
    assert figures.preemptions is None  # this release does not print them


def test_v0_lines_with_their_separate_hit_rate() -> None:
    figures = readings_from_log(LOGS / "constructed" / "vllm-0.6.6-v0.log")
    rolling = figures.engines[""]
    assert (rolling.lines, rolling.running_max, rolling.waiting_max) == (2, 3, 2)
    assert rolling.kv_usage_mean == pytest.approx(0.66)  # (91.5 + 40.5) / 2, the GPU's, not the host's
    assert rolling.hit_rate == pytest.approx(0.15)
    assert figures.preemptions == 51  # cumulative, not added up
    assert "51 requests" in figures.hit_rate_is_usable()[1]


def test_preemptions_printed_in_the_line() -> None:
    figures = readings_from_log(LOGS / "constructed" / "vllm-0.19.1-hybrid.log")
    assert figures.preemptions == 4
    assert figures.engines["000"].hit_rate == 0.263  # not the external one behind it


def test_sglang_batches() -> None:
    figures = readings_from_log(LOGS / "constructed" / "sglang-0.4.6.log")
    batches = figures.batches
    assert batches is not None
    assert (batches.prefill_batches, batches.decode_lines, batches.decode_interval) == (2, 2, 40)
    # two lines at every 40th batch: from 41 (batch 40k and the next) to 119 batches
    assert batches.decode_batches == (41, 119)
    assert (batches.new_tokens, batches.cached_tokens, batches.hit_share) == (8000, 2000, 0.2)
    assert batches.generation_tok_s == pytest.approx(100.0)  # (98.4 + 101.6) / 2
    assert (batches.running_max, batches.waiting_max, batches.kv_usage_max) == (7, 3, 1.0)
    assert batches.seconds == 30
    assert figures.preemptions == 2
    assert figures.records[2].accept_length == 2.51


def test_sglang_interval_from_the_arguments_and_hybrid_usage() -> None:
    batches = readings_from_log(LOGS / "constructed" / "sglang-0.5.23.log").batches
    assert batches is not None
    assert batches.decode_interval == 10
    assert batches.decode_batches == (1, 19)
    assert batches.kv_usage_max == 0.25  # the fuller of the two pools


def test_no_decode_line_leaves_a_range_not_a_zero(tmp_path: Path) -> None:
    line = "[2025-05-20 08:01:00 TP0] Prefill batch. #new-seq: 1, #new-token: 9, #cached-token: 1, token usage: 0.02, "
    batches = readings_from_log(write(tmp_path, line + "#running-req: 4, #queue-req: 1")).batches
    assert batches is not None
    assert batches.decode_batches == (0, 39)
    assert batches.generation_tok_s is None


def test_engines_stay_apart_and_aggregates_are_named(tmp_path: Path) -> None:
    one = stats(0, 10.0, 1.0, 1, 0, 10.0)
    lines = [one, one.replace("Engine 000", "Engine 001"), one.replace("Engine 000", "2 Engines Aggregated")]
    assert set(readings_from_log(write(tmp_path, *lines)).engines) == {"000", "001", "2 Engines Aggregated"}


def test_not_a_number_is_no_value() -> None:
    line = LogLine(
        1, "Engine 000: Avg prompt throughput: nan tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs"
    )
    record = read_record(line)
    assert record is not None
    assert record.prompt_tok_s is None
    assert record.generation_tok_s == 2.0


def test_a_new_year_does_not_run_backwards(tmp_path: Path) -> None:
    line = stats(0, 10.0, 1.0, 1, 0, 10.0)
    path = write(
        tmp_path, line.replace("11-29 14:00:00", "12-31 23:59:55"), line.replace("11-29 14:00:00", "01-01 00:00:05")
    )
    assert readings_from_log(path).engines["000"].seconds == 10


@pytest.mark.parametrize("path", sorted(LOGS.rglob("*.log")), ids=lambda p: p.stem)
def test_json_is_plain(path: Path) -> None:
    json.dumps(readings_from_log(path).to_json(), allow_nan=False)


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """40,000 running lines take about what 5,000 take; no record list, gap list or fact list grows on."""

    def peak(count: int) -> int:
        path = tmp_path / f"{count}.log"
        with path.open("w") as file:
            for i in range(count):
                file.write(stats(i % 3600, float(i % 7), 1.0, 3, 1, 10.0) + "\n")
        tracemalloc.start()
        figures = scan_log(path).figures
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert figures.lines == count
        assert len(figures.records) <= MOST_RECORDS
        assert figures.engines["000"].lines == count
        return used

    assert peak(40_000) < 1.5 * peak(5_000)


def test_thinning_loses_no_engine_that_takes_turns() -> None:
    """Two engines that print in turn: halving all records would keep only one of them."""
    line = (
        "INFO 11-29 10:00:00 [loggers.py:271] Engine {engine:03d}: Avg prompt throughput: 1.0 tokens/s, Avg generation "
        "throughput: 1.0 tokens/s, Running: {engine} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n"
    )
    body = "".join(line.format(engine=i % 2 + 1) for i in range(20_000))
    figures = scan_log("x.log", stream=io.BytesIO(body.encode())).figures
    kept = [record.engine for record in figures.records]
    assert len(kept) <= 4096 + 2
    assert abs(kept.count("001") - kept.count("002")) <= 1
    assert kept.count("001") > 1000
    assert {record.line for record in figures.records} >= {19_999, 20_000}  # a window ends where the log does
