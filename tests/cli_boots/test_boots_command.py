"""``auditor boots`` on published figures, recorded boots and damaged logs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli_boots.running import CONSTRUCTED, LOGS, auditor, case

BUDGET = CONSTRUCTED / "published-budget.log"
CONTEXT = CONSTRUCTED / "published-context.log"

# ------------------------------------------------------------------------------ the published arithmetic


def test_published_refusal_and_what_12288_would_leave() -> None:
    found = auditor("boots", BUDGET, "--predict", "budget=12288", "--as", "json")
    assert found.code == 0
    started, refused = found.json["boots"]
    assert (started["state"], started["kv_pool_tokens"], started["max_concurrency"]) == ("started", 1_110_255, 1.45)
    assert refused["state"] == "refused"
    assert refused["refusal"]["needed_gib"] == 9.8
    assert refused["refusal"]["available_gib"] == 6.9
    assert refused["refusal"]["short_gib"] == pytest.approx(2.9)
    assert refused["refusal"]["estimated_max_model_len"] == 35_072
    [effect] = found.json["effects"]
    assert effect["gib_change"] == pytest.approx(6.9 - 1_110_255 / 768_000 * 9.8, abs=0.001)  # -7.27
    assert effect["mib_per_token"] == pytest.approx(0.91, abs=0.005)
    assert effect["verdict"] == "spread_unknown"
    [predicted] = found.json["predictions"]
    assert predicted["kv_gib"] == pytest.approx((14.167 + 6.9) / 2, abs=0.01)  # half way between the two budgets
    assert (predicted["floor_gib"], predicted["verdict"], predicted["kv_pool_tokens"]) == (9.8, "marginal", None)


def test_refusal_is_told_in_full_at_80_columns() -> None:
    found = auditor("boots", BUDGET, "--predict", "budget=12288")
    assert max(map(len, found.text.splitlines())) <= 80
    for words in (
        "short by 2.90 GiB",
        "that is no out-of-memory kill, and free host memory does not change it",
        "The context promised to users is a product decision",
        "35,072 tokens where a straight line would give 540,735",
        "no bytes per token follow from it",
        "boot one again before calling this an effect",
        "budget 12,288: MARGINAL about 10.53 GiB against a floor of 9.80 GiB",
    ):
        assert words in found.words, words


def test_pools_are_compared_in_tokens() -> None:
    found = auditor("boots", CONTEXT, "--as", "json")
    [twice] = [g for g in found.json["repeats"] if g["boots"] == 2]
    assert twice["pools"] == [1_110_893, 1_085_106]
    assert twice["pool_spread"] == pytest.approx(0.0232, abs=1e-4)  # (1110893 - 1085106) / 1110893
    assert twice["gib_spread"] == pytest.approx(0.3013, abs=1e-4)  # (12.08 - 8.44) / 12.08
    shorter = next(e for e in found.json["effects"] if (e["from"], e["to"]) == (768_000, 256_000))
    assert shorter["verdict"] == "effect"
    assert shorter["pool_change"] < -0.4  # a third of the context, and half the pool
    assert "in GiB 30.1 % apart: compare tokens, not GiB" in auditor("boots", CONTEXT).words


def test_a_budget_that_does_not_fit_is_an_answer() -> None:
    found = auditor("boots", BUDGET, "--predict", "budget=16384", "--predict", "budget=16384", "--as", "json")
    assert found.code == 0
    [predicted] = found.json["predictions"]
    assert predicted["verdict"] == "refused"


def test_a_shortfall_whose_remedy_is_the_budget() -> None:
    found = auditor("boots", case("10") / "input.log", "--as", "json")
    [boot] = found.json["boots"]
    assert boot["refusal"]["short_gib"] == pytest.approx(4.99)
    assert "What can give: a smaller step budget" in boot["refusal"]["explanation"]
    assert boot["kv_pool_tokens"] is None


def test_a_longer_context_that_starts_where_a_shorter_one_does_not() -> None:
    found = auditor("boots", case("11") / "input.log", "--predict", "context=35000", "--as", "json")
    assert [(b["state"], b["kv_pool_tokens"]) for b in found.json["boots"][:2]] == [
        ("started", 31_232),  # 1,952 blocks of 16
        ("refused", 23_648),
    ]
    [predicted] = found.json["predictions"]
    assert predicted["kv_gib"] == pytest.approx(23.58 * 0.90 - 15.05 - 0.35, abs=0.01)  # 5.82
    assert predicted["kv_pool_tokens"] == pytest.approx(47_680, rel=0.005)
    assert predicted["verdict"] == "fits"
    assert "shorter does not always free KV cache" in predicted["reason"]


def test_block_of_a_hybrid_model() -> None:
    found = auditor("boots", case("03") / "input.log", "--as", "json")
    assert found.json["boots"][0]["block_size_tokens"] == 528


def test_draft_slot_warning_gets_its_other_remedy() -> None:
    found = auditor("boots", LOGS / "vllm-0.32.0" / "h-spec-ngram.log")
    assert found.code == 0
    assert "fewer draft tokens (num_speculative_tokens) is the other" in found.words


# ------------------------------------------------------------------------------ ways to end


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "no log given"),
        (("/no/such.log",), 2, "/no/such.log"),
        (("/",), 2, "/"),
        ((BUDGET, "--predict", "budget=12k"), 2, "write the number out"),
        ((BUDGET, "--predict", "speed=3"), 2, "one of budget, context, memory"),
        (("-", "-"), 2, "can be read once"),
        ((BUDGET, "--as", "junit"), 2, "junit has no form for a boots document"),
    ],
)
def test_callers_mistakes(arguments: tuple[object, ...], code: int, words: str) -> None:
    found = auditor("boots", *arguments)
    assert (found.code, found.out) == (code, b"")
    assert words in found.err


def test_no_form_is_said_before_anything_is_written(tmp_path: Path) -> None:
    found = auditor("boots", BUDGET, "--output", f"json={tmp_path / 'b.json'}", "--output", f"github={tmp_path / 'g'}")
    assert found.code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("body", [b"", b"hello\n", b"\x00\xff" * 500, b"<html><body>502</body></html>\n"])
def test_no_engines_log_is_undecided(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(body)
    found = auditor("boots", path, "--as", "json")
    assert found.code == 3
    assert found.json["boots"] == []
    assert found.json["exit_code"] == 3
    assert "no line of it is a known engine's" in found.json["notes"][0]


def test_running_lines_alone_are_no_boot() -> None:
    found = auditor("boots", case("12") / "input.log")
    assert found.code == 3
    assert "running lines only, no boot" in found.words


def test_one_bad_log_sinks_no_other() -> None:
    found = auditor("boots", case("12") / "input.log", BUDGET, "--as", "json")
    assert found.code == 0
    assert len(found.json["boots"]) == 2
    assert any("running lines only" in note for note in found.json["notes"])


# ------------------------------------------------------------------------------ what collectors do to logs


def _pools(data: bytes, tmp_path: Path, name: str = "wrapped.log") -> list[int]:
    path = tmp_path / name
    path.write_bytes(data)
    found = auditor("boots", path, "--as", "json")
    assert found.code == 0
    return [b["kv_pool_tokens"] for b in found.json["boots"]]


def test_wrapped_logs_say_the_same(tmp_path: Path) -> None:
    plain = CONTEXT.read_bytes()
    lines = plain.splitlines()
    expected = [1_110_893, 555_000, 1_110_255, 1_085_106]
    assert _pools(plain, tmp_path) == expected
    assert _pools(gzip.compress(plain), tmp_path, "log.gz") == expected
    assert _pools(b"\r\n".join(lines), tmp_path) == expected
    docker = [json.dumps({"log": x.decode() + "\n", "stream": "stderr", "time": "2026-01-01T00:00:00Z"}) for x in lines]
    assert _pools("\n".join(docker).encode(), tmp_path) == expected
    kubernetes = [b"2026-01-01T00:00:00.000000000Z stdout F " + x for x in lines]
    assert _pools(b"\n".join(kubernetes), tmp_path) == expected
    coloured = [b"\x1b[36m" + x + b"\x1b[0m" for x in lines]
    assert _pools(b"\n".join(coloured), tmp_path) == expected


def test_standard_input() -> None:
    found = auditor("boots", "-", "--as", "json", stdin=BUDGET.read_bytes())
    assert [b["state"] for b in found.json["boots"]] == ["started", "refused"]


def test_a_cut_gzip_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut.log.gz"
    body = BUDGET.read_bytes() + b"".join(b"INFO filler %d\n" % (i * 7919) for i in range(20_000))
    path.write_bytes(gzip.compress(body)[:-2000])
    found = auditor("boots", path, "--as", "json")
    assert found.code == 0
    assert found.json["boots"][0]["kv_pool_tokens"] == 1_110_255
    assert "ends early or is damaged" in found.json["notes"][0]


def test_a_hostile_log_reaches_no_screen_and_no_page(tmp_path: Path) -> None:
    path = tmp_path / "evil.log"
    path.write_bytes(
        b"ValueError: To serve at least one request with the model's max seq len (1000), 9.8 GiB KV cache is needed, "
        b"which is larger than the available KV cache memory (4.81 GiB). "
        b"\x1b]0;owned\x07\x1b[2J\xe2\x80\xae<script>alert(1)</script>\n"
    )
    page = tmp_path / "b.html"
    found = auditor("boots", path, "--output", f"html={page}", "--output", f"markdown={tmp_path / 'b.md'}")
    assert found.code == 0
    assert b"\x1b" not in found.out
    assert "\u202e" not in found.text
    assert "<script>" not in page.read_text()
    assert "<script>" not in (tmp_path / "b.md").read_text()
    assert "short by 4.99 GiB" in page.read_text()


# ------------------------------------------------------------------------------ formats


def test_prometheus_text_is_readable() -> None:
    found = auditor("boots", BUDGET, CONTEXT, "--predict", "budget=12288", "--as", "prometheus")
    samples = [s for family in text_string_to_metric_families(found.text) for s in family.samples]
    pools = {s.value for s in samples if s.name == "premise_auditor_boot_kv_pool_tokens"}
    assert pools == {1_110_255, 1_110_893, 555_000, 1_085_106}
    [short] = [s for s in samples if s.name == "premise_auditor_boot_short_gib"]
    assert short.value == pytest.approx(2.9)
    keys = [(s.name, tuple(sorted(s.labels.items()))) for s in samples]
    assert len(keys) == len(set(keys))
    assert [s.value for s in samples if s.name == "premise_auditor_prediction"] == [1.0]


def test_markdown_and_render_agree(tmp_path: Path) -> None:
    saved = tmp_path / "boots.json"
    found = auditor("boots", BUDGET, "--as", "markdown", "--output", f"json={saved}")
    assert "| refused | 16,384 | 768,000 |" in found.text
    assert "short by 2.90 GiB" in found.text
    again = auditor("render", saved, "--as", "markdown")
    assert (again.code, again.text) == (0, found.text)


def test_narrow_and_wide_terminals() -> None:
    for width in (40, 80, 132):
        found = auditor("boots", BUDGET, CONTEXT, "--predict", "context=1000000", "--width", width, "--all")
        assert found.code == 0
        assert max(map(len, found.text.splitlines())) <= width
        assert "1,110,255" in found.text
