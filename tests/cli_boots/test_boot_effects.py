"""What a boot log's boots cost reaches the report and the lever that would change it."""

from __future__ import annotations

from pathlib import Path

from tests.cli_boots.running import CONSTRUCTED, FIXTURES, auditor

DEMO = FIXTURES / "demo"


def _demo(log: Path) -> dict[str, object]:
    pages = ("--before", DEMO / "before.prom", DEMO / "after.prom", "--seconds", "175.1")
    found = auditor("audit", *pages, "--boot-log", log, "--as", "json")
    assert found.code == 0
    return dict(found.json["subjects"][0])


def _boots(pools: dict[int, int]) -> str:
    return "".join(
        f"INFO 11-29 08:00:00 [utils.py:233] non-default args: {{'model': 'm', 'max_model_len': 4096, "
        f"'max_num_batched_tokens': {budget}}}\n"
        f"INFO 11-29 08:00:10 [kv_cache_utils.py:1100] GPU KV cache size: {pool:,} tokens\n"
        "INFO 11-29 08:00:20 [core.py:200] init engine (profile, create kv cache, warmup model) took 1.00 seconds\n"
        for budget, pool in pools.items()
    )


def test_two_boots_tell_the_lever_its_price(tmp_path: Path) -> None:
    log = tmp_path / "boots.log"
    log.write_text(_boots({8192: 1_000_000, 16384: 710_000}))
    subject = _demo(log)
    [sentence] = subject["facts"]["boot_effects"]  # type: ignore[index]
    assert sentence.startswith("budget 8192 -> 16384 costs about 29 % of the pool in these two boots")  # 710 / 1,000
    assert "nothing was booted twice" in sentence
    levers = subject["levers"]
    assert sentence in levers["batched-tokens"]["costs"]  # type: ignore[index]
    assert sentence not in levers["seats"]["costs"]  # type: ignore[index]


def test_other_settings_are_not_quoted_by_the_budget_lever() -> None:
    subject = _demo(CONSTRUCTED / "published-context.log")
    effects = subject["facts"]["boot_effects"]  # type: ignore[index]
    assert any(text.startswith("context 768000 -> 256000 costs about") for text in effects)
    assert not any(text.startswith("context") for text in subject["levers"]["batched-tokens"]["costs"])  # type: ignore[index]


def test_one_boot_has_no_effect(tmp_path: Path) -> None:
    log = tmp_path / "boots.log"
    log.write_text(_boots({8192: 1_000_000}))
    assert "boot_effects" not in _demo(log)["facts"]  # type: ignore[operator]
