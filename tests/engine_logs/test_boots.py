"""Boots of recorded logs, and of logs built to confuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.engine_logs import Boot, read_boots, scan_log, settings_in_force

LOGS = Path(__file__).parents[2] / "fixtures" / "boot_logs"
RECORDED, CONSTRUCTED = LOGS / "vllm-0.32.0", LOGS / "constructed"


def only(path: Path) -> Boot:
    [boot] = read_boots(path)
    return boot


def values(boot: Boot) -> dict[str, object]:
    return {name: setting.value for name, setting in boot.settings.items()}


# What stands in these logs was read by eye.
@pytest.mark.parametrize(
    ("name", "pool", "gib", "concurrency"),
    [
        ("auto-boot-1", 2135680, 4.07, 130.35),
        ("auto-boot-2", 2135808, 4.07, 130.36),
        ("auto-boot-3", 2135808, 4.07, 130.36),
        ("j-256-r1", 524288, 1.0, 32.0),
        ("p-preemption", 5120, 1.0, 1.25),
    ],
)
def test_recorded_pools(name: str, pool: int, gib: float, concurrency: float) -> None:
    boot = only(RECORDED / f"{name}.log")
    assert (boot.state, boot.engine, boot.version) == ("started", "vllm", "0.32.0")
    assert (boot.kv_pool_tokens, boot.kv_gib, boot.max_concurrency) == (pool, gib, concurrency)
    assert not boot.pools_disagree


def test_pool_from_concurrency_is_concurrency_times_context() -> None:
    boot = only(RECORDED / "auto-boot-1.log")
    assert boot.pool_from_concurrency == 2135654  # 130.35 x 16,384 = 2,135,654.4
    assert boot.total_gib == 23.54
    assert not boot.by_hand


def test_pool_set_by_hand_is_said() -> None:
    boot = only(RECORDED / "p-preemption.log")
    assert boot.by_hand
    assert boot.block_size_tokens == 128  # 5,120 tokens in 40 blocks
    assert any("40 blocks (memory allows 4,096)" in w for w in boot.warnings)


def test_settings_with_their_lines() -> None:
    settings = settings_in_force(RECORDED / "j-256-r1.log")
    assert settings["budget"].value == 256
    assert settings["prefix_caching"].value is True
    assert settings["seats"].value == 32
    assert settings["context"].value == 16384
    lines = (RECORDED / "j-256-r1.log").read_text().splitlines()
    number = int(settings["budget"].source.removeprefix("boot log line "))
    assert "max_num_batched_tokens=256" in lines[number - 1]


def test_a_budget_nobody_set_is_found_at_the_end_of_the_compile_ranges() -> None:
    setting = settings_in_force(RECORDED / "auto-boot-1.log")["budget"]
    assert setting.value == 2048
    assert "compile range" in setting.source


def test_prefix_caching_off_and_draft_tokens() -> None:
    assert settings_in_force(RECORDED / "d-prefix-off.log")["prefix_caching"].value is False
    spec = settings_in_force(RECORDED / "h-spec-ngram.log")
    assert (spec["speculative_tokens"].value, spec["prefix_caching"].value) == (4, True)
    off = settings_in_force(RECORDED / "auto-boot-1.log")
    assert off["speculative_tokens"].value == 0


def test_the_warning_for_draft_slots_is_answered() -> None:
    [warning] = [w for w in only(RECORDED / "h-spec-ngram.log").warnings if "draft slots" in w]
    assert warning.startswith("line 14: ")
    assert "2,048" in warning
    assert "fewer draft tokens" in warning


def test_data_parallel_ranks_are_one_boot_with_a_pool_each() -> None:
    boot = only(RECORDED / "g-data-parallel-2.log")
    assert (boot.engines, boot.kv_pool_tokens, boot.max_concurrency) == (2, 524288, 32.0)
    assert any("together 1,048,576 tokens" in w for w in boot.warnings)
    assert any("2 API servers share one metrics page" in w for w in boot.warnings)


def test_vllm_0_11_with_colours_in_the_file() -> None:
    boot = only(LOGS / "vllm-0.11.0" / "p-preemption.log")
    assert (boot.version, boot.kv_pool_tokens, boot.block_size_tokens) == ("0.11.0.post2", 5120, 128)
    assert values(boot)["budget"] == 2048
    assert boot.settings["budget"].source == "boot log line 18"


# ------------------------------------------------------------------------------ refusals


def test_refusal_with_the_engines_estimate() -> None:
    boot = only(RECORDED / "fail-too-long.log")
    assert boot.state == "refused"
    assert boot.refusal is not None
    assert (boot.refusal.needed_gib, boot.refusal.available_gib) == (1.91, 1.0)
    assert boot.refusal.estimated_max_model_len == 524160
    assert boot.refusal.short_gib == 0.91
    assert "short by 0.91 GiB" in boot.refusal.explanation
    assert "not linear" not in boot.refusal.explanation  # 1,000,000 x 1.0 / 1.91 = 523,560: a straight line
    assert "product decision" in boot.refusal.explanation
    assert "no out-of-memory kill" in boot.refusal.explanation


def test_tiny_pool_refusal_is_within_the_digits_of_a_line() -> None:
    refusal = only(RECORDED / "fail-few-blocks.log").refusal
    assert refusal is not None
    assert (refusal.needed_gib, refusal.available_gib, refusal.estimated_max_model_len) == (0.03, 0.0, 896)
    assert "not linear" not in refusal.explanation


def test_context_beyond_the_model_is_no_question_of_memory() -> None:
    refusal = only(RECORDED / "fail-max-len-over-config.log").refusal
    assert refusal is not None
    assert (refusal.kind, refusal.context, refusal.needed_gib) == ("context_over_model", 1000000, None)
    assert "32,768" in refusal.explanation


def test_published_refusal_bends_away_from_the_straight_line() -> None:
    first, second = read_boots(CONSTRUCTED / "published-budget.log")
    assert (first.state, first.kv_pool_tokens, first.max_concurrency) == ("started", 1110255, 1.45)
    refusal = second.refusal
    assert second.state == "refused"
    assert refusal is not None
    assert (refusal.needed_gib, refusal.available_gib, refusal.short_gib) == (9.8, 6.9, 2.9)
    assert refusal.estimated_max_model_len == 35072
    # 768,000 x 6.9 / 9.8 = 540,735
    assert "35,072 tokens where a straight line would give 540,735" in refusal.explanation


def test_case_10_refusal_without_a_boot_line() -> None:
    boot = only(LOGS / "cases" / "10.log")
    assert boot.state == "refused"
    assert boot.refusal is not None
    assert (boot.refusal.context, boot.refusal.short_gib) == (1048576, 4.99)  # 9.8 - 4.81
    assert "a smaller step budget" in boot.refusal.explanation


def test_case_11_three_arms() -> None:
    boots = read_boots(LOGS / "cases" / "11.log")
    assert [b.state for b in boots] == ["started", "refused", "incomplete"]
    assert [b.kv_pool_tokens for b in boots] == [31232, 23648, None]  # 1,952 and 1,478 blocks of 16
    assert [b.max_concurrency for b in boots] == [1.56, 0.82, None]
    assert [b.max_model_len for b in boots] == [20000, 29000, 35000]
    assert boots[1].refusal is not None
    assert "short by 5,352 tokens" in boots[1].refusal.explanation  # 29,000 - 23,648
    assert boots[2].peak_gib == 15.05


def test_case_03_block_size_from_one_line() -> None:
    settings = settings_in_force(LOGS / "cases" / "03.log")
    assert settings["block_size"].value == 528
    assert settings["block_size"].source == "boot log line 1"
    assert only(LOGS / "cases" / "03.log").hybrid


# ------------------------------------------------------------------------------ formats from the engines' source


def test_v0_boot() -> None:
    boot = only(CONSTRUCTED / "vllm-0.6.6-v0.log")
    assert (boot.core, boot.version, boot.state) == ("V0", "0.6.6.post1", "started")
    assert (boot.kv_pool_tokens, boot.block_size_tokens) == (33504, 16)  # 2,094 x 16; 33,504 / 16,384 = 2.04
    assert (boot.total_gib, boot.utilization, boot.non_torch_gib, boot.kv_gib) == (23.58, 0.9, 0.35, 4.09)
    assert boot.peak_gib == pytest.approx(14.99 + 1.79)
    assert values(boot)["prefix_caching"] is True
    assert any("at least 51 so far" in w for w in boot.warnings)


def test_v1_refusal_that_lost_its_estimate() -> None:
    boot = only(CONSTRUCTED / "vllm-0.8.5-v1-refused.log")
    assert boot.refusal is not None
    assert (boot.refusal.short_gib, boot.refusal.estimated_max_model_len) == (12.19, None)
    assert boot.refusal.line == 7
    assert values(boot) == {
        "budget": 2048,
        "context": 131072,
        "engine_version": "0.8.5.post1",
        "gpu_memory_utilization": 0.9,
        "kv_cache_dtype": "auto",
        "prefix_caching": True,
        "speculative_tokens": 0,
        "threshold": 0,
    }


def test_pool_printed_once_per_worker_is_the_smallest() -> None:
    boot = only(CONSTRUCTED / "vllm-0.8.5-v1-tp2.log")
    assert (boot.kv_pool_tokens, boot.engines) == (141808, 1)
    # the drafter's own max_model_len does not pass for the model's
    assert values(boot)["context"] == 32768
    assert values(boot)["threshold"] == 1310
    assert any("1,310" in w and "4,096" in w for w in boot.warnings)


def test_hybrid_block_wins_over_the_asked_one_and_pools_disagree() -> None:
    boot = only(CONSTRUCTED / "vllm-0.19.1-hybrid.log")
    assert boot.settings["block_size"].value == 528
    assert boot.settings["block_size"].source == "boot log line 5"
    assert boot.hybrid
    assert boot.pools_disagree  # 43.25 x 8,192 = 354,304, printed 110,880
    assert any("354,304" in w and "disagree" in w for w in boot.warnings)


@pytest.mark.parametrize(
    ("name", "pool", "gib", "expected"),
    [
        (
            "sglang-0.3.6",
            412345,
            None,
            {"budget": 8192, "seats": 4097, "context": 131072, "prefix_caching": True},
        ),
        (
            "sglang-0.4.6",
            440000,
            40.28,
            {"budget": 8192, "seats": 2048, "speculative_tokens": 3, "block_size": 1},
        ),
        (
            "sglang-0.5.23",
            262144,
            12.5,
            {"budget": 16384, "seats": 48, "speculative_tokens": 0, "block_size": 64},
        ),
    ],
)
def test_sglang(name: str, pool: int, gib: float | None, expected: dict[str, object]) -> None:
    boot = only(CONSTRUCTED / f"{name}.log")
    assert (boot.engine, boot.state, boot.kv_pool_tokens, boot.kv_gib) == ("sglang", "started", pool, gib)
    assert expected.items() <= values(boot).items()
    assert "threshold" not in boot.settings  # SGLang has none


def test_sglang_refusal() -> None:
    boot = only(CONSTRUCTED / "sglang-0.5.9-refused.log")
    assert boot.state == "refused"
    assert boot.refusal is not None
    assert boot.refusal.kind == "no_room_for_kv"
    assert values(boot)["prefix_caching"] is False


@pytest.mark.parametrize("path", sorted(LOGS.rglob("*.log")), ids=lambda p: p.stem)
def test_json_is_plain_and_holds_no_secret(path: Path) -> None:
    for boot in read_boots(path):
        text = json.dumps(boot.to_json(), allow_nan=False) + str(boot.identity)
        assert "sk-not-for-a-report" not in text
        keys = {
            "file",
            "line",
            "engine",
            "version",
            "state",
            "settings",
            "kv_pool_tokens",
            "pool_from_concurrency",
        }
        keys |= {"kv_gib", "max_concurrency", "block_size_tokens", "max_model_len", "refusal", "warnings"}
        assert keys <= boot.to_json().keys()


# ------------------------------------------------------------------------------ hostile logs


def test_several_boots_in_one_file(tmp_path: Path) -> None:
    names = ["auto-boot-1", "fail-too-long", "auto-boot-2", "j-256-r1"]
    path = tmp_path / "all.log"
    path.write_text("".join((RECORDED / f"{n}.log").read_text().rstrip("\n") + "\n" for n in names))
    boots = read_boots(path)
    assert [b.state for b in boots] == ["started", "refused", "started", "started"]
    assert [b.kv_pool_tokens for b in boots] == [2135680, None, 2135808, 524288]
    assert settings_in_force(path)["budget"].value == 256  # the last boot wins
    starts = [i for i, text in enumerate(path.read_text().splitlines(), 1) if "version 0.32.0" in text]
    assert [b.line for b in boots] == starts


def test_two_pods_in_one_stream_stay_apart(tmp_path: Path) -> None:
    first = (RECORDED / "j-256-r1.log").read_text().splitlines()
    second = (RECORDED / "auto-boot-1.log").read_text().splitlines()
    mixed = []
    for i in range(max(len(first), len(second))):
        mixed += [f"[pod/a/server] {first[i]}"] if i < len(first) else []
        mixed += [f"[pod/b/server] {second[i]}"] if i < len(second) else []
    path = tmp_path / "stern.log"
    path.write_text("\n".join(mixed) + "\n")
    boots = read_boots(path)
    assert {(b.source, b.kv_pool_tokens, b.settings["budget"].value) for b in boots} == {
        ("a/server", 524288, 256),
        ("b/server", 2135680, 2048),
    }


@pytest.mark.parametrize("share", [0.05, 0.2, 0.35, 0.5, 0.9])
def test_a_cut_log_never_claims_more_than_it_shows(share: float, tmp_path: Path) -> None:
    text = (RECORDED / "auto-boot-1.log").read_text()
    whole = only(RECORDED / "auto-boot-1.log")
    path = tmp_path / "cut.log"
    path.write_text(text[: int(len(text) * share)])
    for boot in read_boots(path):
        assert boot.kv_pool_tokens in (None, 2135680)
        if boot.kv_pool_tokens is None:
            assert boot.state == "incomplete"
            assert any("cut off" in w for w in boot.warnings)
        for name, setting in boot.settings.items():
            assert setting.value == whole.settings[name].value


def test_every_possible_cut_of_a_refusal(tmp_path: Path) -> None:
    text = (CONSTRUCTED / "published-budget.log").read_text()
    path = tmp_path / "cut.log"
    for end in range(0, len(text), 7):
        path.write_text(text[:end])
        for boot in read_boots(path):
            assert boot.kv_pool_tokens in (None, 1110255)
            assert boot.settings.get("budget") is None or boot.settings["budget"].value in (8192, 16384)
            if boot.refusal and boot.refusal.kind == "kv_too_small":
                assert (boot.refusal.needed_gib, boot.refusal.available_gib) == (9.8, 6.9)
                assert boot.refusal.estimated_max_model_len in (None, 35072)


def test_running_lines_without_a_boot_make_no_boot() -> None:
    scan = scan_log(LOGS / "cases" / "12.log")
    assert scan.boots == ()
    assert not scan.is_empty


def test_a_refusal_only(tmp_path: Path) -> None:
    path = tmp_path / "refusal.log"
    path.write_text(
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.\n"
    )
    boot = only(path)
    assert (boot.state, boot.engine) == ("refused", "vllm")
    assert boot.refusal is not None
    assert boot.refusal.kind == "no_room_for_kv"


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        (
            "ValueError: Free memory on device cuda:0 (3.1/23.58 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 21.22 GiB). Decrease GPU memory utilization or reduce GPU memory used by others.",
            "memory_taken",
            "short by 18.12 GiB",  # 21.22 - 3.1
        ),
        (
            "ValueError: long_prefill_token_threshold (20000) cannot be greater than the max_model_len (16384).",
            "threshold_over_context",
            "20,000",
        ),
        (
            "ValueError: max_num_batched_tokens (128) must be greater than or equal to max_num_seqs (256).",
            "budget_below_seats",
            "256 seats",
        ),
        (
            "ValueError: max_num_batched_tokens (2048) is smaller than max_model_len (8192). This effectively limits",
            "budget_below_context",
            "one step must hold a whole prompt",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "out_of_memory",
            "not the clean",
        ),
        ("RuntimeError: Engine core initialization failed. See root cause above.", "unknown", "further up"),
    ],
)
def test_other_refusals(line: str, kind: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "refusal.log"
    path.write_text("INFO 01-01 00:00:00 [utils.py:1] non-default args: {'model': 'm'}\n" + line + "\n")
    boot = only(path)
    assert boot.state == "refused"
    assert boot.refusal is not None
    assert boot.refusal.kind == kind
    assert words in boot.refusal.explanation


def test_an_engine_that_dies_later_did_start(tmp_path: Path) -> None:
    path = tmp_path / "later.log"
    text = (RECORDED / "j-256-r1.log").read_text().rstrip("\n")
    path.write_text(text + "\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    boot = only(path)
    assert boot.state == "started"
    assert any("died" in w for w in boot.warnings)


def write(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "made.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_ranks_that_each_print_their_configuration_are_one_boot(tmp_path: Path) -> None:
    config = "INFO 01-01 00:00:01 [core.py:58] Initializing a V1 LLM engine (v0.9.2) with config: max_seq_len=4096"
    pool = "INFO 01-01 00:00:09 [kv_cache_utils.py:1] GPU KV cache size: {} tokens"
    zero, one = "(EngineCore_DP0 pid=1) ", "(EngineCore_DP1 pid=2) "
    lines = (zero + config, zero + pool.format("9,000"), one + config, one + pool.format("8,000"))
    boot = only(write(tmp_path, *lines))
    assert (boot.engines, boot.kv_pool_tokens) == (2, 8000)  # the tighter of the two
    assert any("together 17,000 tokens" in w for w in boot.warnings)
    again = read_boots(write(tmp_path, *lines, zero + config, zero + pool.format("7,000")))
    assert [b.kv_pool_tokens for b in again] == [8000, 7000]


def test_excerpt_with_less_than_one_request_is_a_refusal(tmp_path: Path) -> None:
    path = write(
        tmp_path, "# GPU blocks: 100, # CPU blocks: 9", "Maximum concurrency for 2000 tokens per request: 0.80x"
    )
    boot = only(path)
    assert (boot.state, boot.kv_pool_tokens) == ("refused", 1600)  # 100 blocks of 16: 1,600 / 2,000 = 0.80
    assert boot.refusal is not None
    assert boot.refusal.kind == "pool_below_context"


def test_the_later_of_two_equal_statements_wins(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "INFO 01-01 00:00:00 [utils.py:1] non-default args: {'model': 'm', 'max_model_len': 16384}",
        "INFO 01-01 00:00:01 [model.py:1] Using max model len 8192",
    )
    setting = settings_in_force(path)["context"]
    assert (setting.value, setting.source) == (8192, "boot log line 2")


def test_threshold_is_off_only_where_the_arguments_are_seen(tmp_path: Path) -> None:
    seen = write(tmp_path, "INFO 01-01 00:00:00 [utils.py:1] non-default args: {'model': 'm', 'max_model_len': 16384}")
    assert settings_in_force(seen)["threshold"].value == 0
    unseen = write(
        tmp_path, "INFO 01-01 00:00:01 [scheduler.py:1] Chunked prefill is enabled with max_num_batched_tokens=64."
    )
    assert "threshold" not in settings_in_force(unseen)
