"""``auditor step``: hand values, refusals of impossible questions, costs taken from pages, pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli_boots.running import FIXTURES, auditor, case

PAGE = """\
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",model_name="m",finished_reason="stop"} 10
# TYPE vllm:request_prefill_time_seconds histogram
vllm:request_prefill_time_seconds_bucket{engine="0",model_name="m",le="2.0"} 10
vllm:request_prefill_time_seconds_bucket{engine="0",model_name="m",le="+Inf"} 10
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 10
vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 10
# TYPE vllm:request_decode_time_seconds histogram
vllm:request_decode_time_seconds_bucket{engine="0",model_name="m",le="5.0"} 10
vllm:request_decode_time_seconds_bucket{engine="0",model_name="m",le="+Inf"} 10
vllm:request_decode_time_seconds_sum{engine="0",model_name="m"} 19.8
vllm:request_decode_time_seconds_count{engine="0",model_name="m"} 10
# TYPE vllm:request_generation_tokens histogram
vllm:request_generation_tokens_bucket{engine="0",model_name="m",le="200.0"} 10
vllm:request_generation_tokens_bucket{engine="0",model_name="m",le="+Inf"} 10
vllm:request_generation_tokens_sum{engine="0",model_name="m"} 1000
vllm:request_generation_tokens_count{engine="0",model_name="m"} 10
# TYPE vllm:request_prefill_kv_computed_tokens histogram
vllm:request_prefill_kv_computed_tokens_bucket{engine="0",model_name="m",le="5000.0"} 10
vllm:request_prefill_kv_computed_tokens_bucket{engine="0",model_name="m",le="+Inf"} 10
vllm:request_prefill_kv_computed_tokens_sum{engine="0",model_name="m"} 20000
vllm:request_prefill_kv_computed_tokens_count{engine="0",model_name="m"} 10
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.prom"
    path.write_text(PAGE)
    return path


def rows(*arguments: object) -> list[dict[str, object]]:
    found = auditor("step", *arguments, "--as", "json")
    assert found.code == 0, found.err
    return list(found.json["rows"])


# ------------------------------------------------------------------------------ hand values


def test_a_32k_prompt_at_8192_with_eight_seats_and_four_draft_tokens() -> None:
    [row] = rows("--budget", 8192, "--seats", 8, "--draft-tokens", 4, "--prompt", 32768, "--ms-per-prompt-token", 0.49)
    assert row["decode_tokens_per_step"] == 40  # 8 x (1 + 4)
    assert row["prefill_tokens_per_step"] == 8152
    assert (row["prompt_steps_alone"], row["prompt_steps_loaded"]) == (4, 5)
    assert row["ttft_alone_seconds"] == pytest.approx(16.056, abs=0.001)  # 32,768 x 0.49 ms
    assert row["ttft_loaded_seconds"] == pytest.approx(16.154, abs=0.001)  # and 5 x 40 decode tokens
    assert row["gap_seconds"] == pytest.approx(8192 * 0.00049)


def test_without_a_cost_there_are_no_seconds() -> None:
    [row] = rows("--budget", 8192, "--seats", 8, "--prompt", 1000)
    assert [row[k] for k in row if k.endswith("_seconds")] == [None] * 4
    assert "TTFT" not in auditor("step", "--budget", 8192, "--seats", 8, "--prompt", 1000).text


def test_both_arms_of_a_published_test_run_the_same_chunk() -> None:
    small, large = rows("--sweep", "8224,2048", "--seats", 1, "--threshold", 1024, "--prompt", 60_067)
    assert (small["budget"], large["budget"]) == (2048, 8224)
    assert small["chunk_tokens"] == large["chunk_tokens"] == 1024
    assert small["prompt_steps_alone"] == large["prompt_steps_alone"] == 59  # ceil(60,067 / 1,024)


def test_sweep_marks_the_smallest_budget_that_does_not_starve() -> None:
    asked = (
        "--sweep",
        "512,2048,4096,8192",
        "--seats",
        64,
        "--draft-tokens",
        4,
        "--prompt",
        8000,
        "--output-tokens",
        400,
    )
    found = rows(*asked)
    # 64 seats finish 64 / 400 requests a step, whose places need 64 x 8,000 / 400 = 1,280 prompt tokens
    assert [r["starves_prefill"] for r in found] == [True, False, False, False]
    assert [r["budget"] for r in found if r["smallest_that_does_not_starve"]] == [2048]
    text = auditor("step", *asked).text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith(" 2,048")] == ["smallest"]
    words = [line.split() for line in text.splitlines() if line.strip().startswith(("512 ", "8,192 "))]
    bars = {word[0]: word[1] for word in words if set(word[1]) <= set("d#.")}
    assert len(bars["8,192"]) == 60
    assert len(bars["512"]) == pytest.approx(60 * 512 / 8192, abs=1)


def test_published_request_is_83_percent_decode() -> None:
    found = auditor("step", "--budget", 8192, "--seats", 8, "--prompt", 38_000, "--ms-per-prompt-token", 0.74,
                    "--output-tokens", 686, "--ms-per-output-token", 200, "--as", "json")  # fmt: skip
    request = found.json["request"]
    assert request["prefill_seconds"] == pytest.approx(28.12)
    assert request["decode_seconds"] == pytest.approx(137.0)  # 685 tokens after the first
    assert request["decode_share"] == pytest.approx(0.83, abs=0.001)


def test_a_prefill_first_engine_freezes_everybody() -> None:
    asked = ("--engine", "sglang", "--budget", 8192, "--seats", 20, "--prompt", 32768, "--ms-per-prompt-token", 0.49)
    [row] = rows(*asked)
    assert row["freeze_seconds"] == pytest.approx(16.056, abs=0.001)
    assert row["prompt_steps_loaded"] == 4
    words = auditor("step", *asked).words
    assert "estimate, sglang: prefill-decode interval 1" in words
    assert "mixed chunk: 3 to 6 %" in words
    assert "estimated, not measured" in words


def test_blocks_limit_what_a_repeat_can_hit() -> None:
    for prompt, reach in ((480, 0), (552, 528), (979, 528)):
        [row] = rows("--budget", 2048, "--seats", 1, "--prompt", prompt, "--block-size", 528)
        assert row["reachable_hit_tokens"] == reach


# ------------------------------------------------------------------------------ impossible questions


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--budget", 8192, "--seats", 8, "--threshold", 9000, "--context", 8000), "above the context of 8,000"),
        (("--budget", 100, "--seats", 64, "--draft-tokens", 4), "64 seats x 5 = 320 tokens"),
        (("--sweep", "100,2048", "--seats", 64, "--draft-tokens", 4), "--sweep 100"),
        (("--budget", 8192), "--seats N is needed"),
        (("--seats", 8), "--budget N is needed"),
        (("--sweep", "2048,lots", "--seats", 8), "'lots' is no number of tokens"),
        (("--sweep", ",", "--seats", 8), "is no number of tokens"),
        (("--budget", 8192, "--seats", 8, "--ms-per-prompt-token", "nan"), "--ms-per-prompt-token"),
        (("--budget", 8192, "--seats", 8, "--engine", "sglang", "--threshold", 512), "SGLang has no limit"),
        (("--budget", 8192, "--seats", 8, "--from", "/no/such.prom"), "/no/such.prom"),
        (("--budget", 8192, "--seats", 8, "--as", "github"), "github has no form for a step document"),
    ],
)
def test_impossible(arguments: tuple[object, ...], words: str) -> None:
    found = auditor("step", *arguments)
    assert (found.code, found.out) == (2, b"")
    assert words in found.err


# ------------------------------------------------------------------------------ --from


def test_costs_of_a_page_are_upper_values(page: Path) -> None:
    found = auditor(
        "step", "--from", page, "--budget", 8192, "--seats", 8, "--prompt", 1000, "--output-tokens", 101, "--as", "json"
    )
    assert found.code == 0
    asked = found.json["question"]
    assert asked["ms_per_prompt_token"] == pytest.approx(0.5)  # 10 s for 20,000 computed tokens
    assert asked["cost_is_upper"] is True
    assert found.json["request"]["decode_seconds"] == pytest.approx(100 * 19.8 / (1000 - 10))  # 0.02 s a token
    notes = " ".join(found.json["notes"])
    assert "requests that share steps each count the whole step, so it is an upper value" in notes
    assert "the cost per output token was read from a page" in notes


def test_what_is_written_wins_over_the_page(page: Path) -> None:
    found = auditor(
        "step", "--from", page, "--budget", 8192, "--seats", 8, "--ms-per-prompt-token", 0.1, "--as", "json"
    )
    assert found.json["question"]["ms_per_prompt_token"] == 0.1
    assert found.json["question"]["cost_is_upper"] is False


def test_a_report_brings_its_settings(page: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    made = auditor("audit", page, "--budget", 2048, "--seats", 16, "--as", "json", "--output", f"json={report}")
    assert made.code == 0
    found = auditor("step", "--from", report, "--prompt", 1000, "--as", "json")
    assert found.code == 0
    [row] = found.json["rows"]
    assert (row["budget"], row["decode_tokens_per_step"]) == (2048, 16)
    assert found.json["settings"]["seats"] == {"value": 16, "source": "flag"}
    assert found.json["question"]["ms_per_prompt_token"] == pytest.approx(0.5)


def test_a_window_serves_too(page: Path, tmp_path: Path) -> None:
    window = tmp_path / "window.json"
    assert auditor("collect", page, "-o", window).code == 0
    found = auditor("step", "--from", window, "--budget", 2048, "--seats", 16, "--as", "json")
    assert found.json["question"]["ms_per_prompt_token"] == pytest.approx(0.5)


def test_a_page_without_costs_says_what_is_missing() -> None:
    found = auditor("step", "--from", case("12") / "input.log", "--budget", 2048, "--seats", 8, "--as", "json")
    assert found.code == 0
    assert found.json["question"]["ms_per_prompt_token"] is None
    notes = " ".join(found.json["notes"])
    assert (
        "no prefill_ms_per_computed_token (a log does not carry it; scrape /metrics); give --ms-per-prompt-token"
        in notes
    )


def test_a_page_that_is_none_is_failed_evidence(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<html>502</html>")
    found = auditor("step", "--from", path, "--budget", 2048, "--seats", 8)
    assert found.code == 3
    assert "no engine was measured" in found.err


def test_two_subjects_are_one_too_many(tmp_path: Path) -> None:
    path = tmp_path / "two.prom"
    path.write_text(PAGE + PAGE.replace('model_name="m"', 'model_name="n"'))
    found = auditor("step", "--from", path, "--budget", 2048, "--seats", 8)
    assert found.code == 2
    assert "2 subjects" in found.err


# ------------------------------------------------------------------------------ formats

SWEEP = (
    "--sweep",
    "2048,4096,8192",
    "--seats",
    32,
    "--prompt",
    8000,
    "--output-tokens",
    400,
    "--ms-per-prompt-token",
    0.49,
)


def test_pictures(tmp_path: Path) -> None:
    page, png = tmp_path / "s.html", tmp_path / "s.png"
    assert auditor("step", *SWEEP, "--output", f"html={page}", "--output", f"png={png}").code == 0
    html = page.read_text()
    assert html.count("<svg") == 1
    svg = html[html.index("<svg") : html.index("</svg>")]
    for words in ("2,048", "4,096", "8,192", "decode", "one prompt", "every stream waits"):
        assert words in svg, words
    assert "<script" not in html
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" not in auditor("step", "--budget", 2048, "--seats", 8, "--as", "html").text


def test_prometheus_text() -> None:
    found = auditor("step", *SWEEP, "--as", "prometheus")
    samples = [s for family in text_string_to_metric_families(found.text) for s in family.samples]
    gaps = {s.labels["budget"]: s.value for s in samples if s.name == "premise_auditor_step_gap_seconds"}
    assert gaps["2048"] == pytest.approx(2048 * 0.00049)
    assert gaps["8192"] == pytest.approx((8000 + 32) * 0.00049)  # the prompt is shorter than its room


def test_markdown_has_a_row_a_budget() -> None:
    found = auditor("step", *SWEEP, "--as", "markdown")
    assert "| 2,048 | 2,016 | 2,016 | 4 / 4 |" in found.text


def test_narrow_terminals() -> None:
    for width in (60, 80):
        found = auditor("step", *SWEEP, "--width", width)
        assert found.code == 0
        assert max(map(len, found.text.splitlines())) <= width


def test_environment_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDITOR_SEATS", "8")
    monkeypatch.setenv("AUDITOR_SWEEP", "2048,4096")
    found = auditor("step", "--as", "json")
    assert [r["budget"] for r in found.json["rows"]] == [2048, 4096]
    assert FIXTURES.is_dir()
