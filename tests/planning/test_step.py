"""What a step holds; numbers worked out by hand beside each case."""

from __future__ import annotations

import json

import pytest

from auditor.model import UsageError
from auditor.planning.documents import make_step_document
from auditor.planning.step import (
    StepQuestion,
    plan_step,
    project_request,
    reachable_hit_tokens,
    starves_prefill,
    sweep_budgets,
)

EIGHT = StepQuestion(seats=8, draft_tokens=4, prompt=32768)


def test_eight_seats_with_four_drafts_are_forty_tokens() -> None:
    row = plan_step(EIGHT, 8192)
    assert row.decode_tokens_per_step == 40  # 8 x 5
    assert row.prefill_tokens_per_step == 8152
    assert row.chunk_tokens == 8152
    assert row.prompt_steps_alone == 4  # 32,768 / 8,192
    assert row.prompt_steps_loaded == 5  # 4 x 8,152 = 32,608 < 32,768
    assert row.ttft_alone_seconds is None
    assert row.gap_seconds is None


def test_seconds_from_a_cost_per_token() -> None:
    row = plan_step(StepQuestion(seats=8, draft_tokens=4, prompt=32768, ms_per_prompt_token=0.49), 8192)
    assert row.ttft_alone_seconds == pytest.approx(16.05632)  # 32,768 x 0.49 ms
    assert row.ttft_loaded_seconds == pytest.approx(16.15432)  # (32,768 + 5 x 40) x 0.49 ms
    assert row.gap_seconds == pytest.approx(4.01408)  # a full step: 8,192 x 0.49 ms
    assert row.freeze_seconds == pytest.approx(16.05632)


def test_short_prompt_makes_a_short_step() -> None:
    row = plan_step(StepQuestion(seats=10, prompt=90, ms_per_prompt_token=1.0), 8192)
    assert (row.prompt_steps_alone, row.prompt_steps_loaded) == (1, 1)
    assert row.gap_seconds == pytest.approx(0.1)  # 90 + 10 tokens


def test_threshold_cuts_the_chunk() -> None:
    row = plan_step(StepQuestion(seats=1, prompt=60067, threshold=1024, ms_per_prompt_token=1.0), 8224)
    assert (row.prefill_tokens_per_step, row.chunk_tokens) == (8223, 1024)
    assert row.prompt_steps_alone == 59  # 60,067 / 1,024 = 58.7
    assert row.gap_seconds == pytest.approx(1.025)
    assert any("1,024" in note for note in row.notes)


def test_prefill_first_engine_freezes_every_stream() -> None:
    question = StepQuestion(seats=8, prompt=32768, ms_per_prompt_token=0.49, engine="sglang")
    row = plan_step(question, 8192)
    assert (row.prefill_tokens_per_step, row.prompt_steps_loaded) == (8192, 4)
    assert row.freeze_seconds == row.gap_seconds == pytest.approx(16.05632)
    assert row.ttft_loaded_seconds == row.ttft_alone_seconds


def test_decode_that_fills_the_step_never_ends_a_prompt() -> None:
    row = plan_step(StepQuestion(seats=8, draft_tokens=4, prompt=100, ms_per_prompt_token=1.0), 40)
    assert (row.prefill_tokens_per_step, row.chunk_tokens) == (0, 0)
    assert row.prompt_steps_alone == 3
    assert row.prompt_steps_loaded is None
    assert row.ttft_loaded_seconds is None
    assert row.starves_prefill
    assert any("no prompt is ever computed" in note for note in row.notes)


def test_without_a_prompt_only_the_step_is_known() -> None:
    row = plan_step(StepQuestion(seats=8, ms_per_prompt_token=0.5), 2048)
    assert row.gap_seconds == pytest.approx(1.024)
    assert (row.prompt_steps_alone, row.ttft_alone_seconds, row.reachable_hit_tokens) == (None, None, None)


@pytest.mark.parametrize(
    ("prompt", "block", "expected"),
    [(480, 528, 0), (552, 528, 528), (979, 528, 528), (1056, 528, 1056), (None, 16, None)],
)
def test_reachable_hits_are_whole_blocks(prompt: int | None, block: int, expected: int | None) -> None:
    assert reachable_hit_tokens(prompt, block) == expected


def test_whole_blocks_carry_the_engines_exception() -> None:
    row = plan_step(StepQuestion(seats=1, prompt=1056, block_size=528), 2048)
    assert row.reachable_hit_tokens == 1056
    assert any("528 tokens less" in note for note in row.notes)


# ------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seats": 8, "threshold": 20000, "context": 16384}, "threshold 20,000 is above the context of 16,384"),
        ({"seats": 0}, "--seats 0"),
        ({"seats": 1, "draft_tokens": -1}, "--draft-tokens -1"),
        ({"seats": 1, "prompt": 0}, "--prompt 0"),
        ({"seats": 1, "prompt": 9000, "context": 8192}, "longer than the context"),
        ({"seats": 1, "ms_per_prompt_token": 0.0}, "above 0"),
        ({"seats": 1, "ms_per_prompt_token": float("nan")}, "above 0"),
        ({"seats": 1, "threshold": 5, "engine": "sglang"}, "SGLang has no limit"),
    ],
)
def test_impossible_questions_are_usage_errors(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        StepQuestion(**arguments)  # type: ignore[arg-type]
    assert error.value.exit_code == 2


def test_threshold_at_the_context_is_allowed() -> None:
    assert plan_step(StepQuestion(seats=1, threshold=16384, context=16384), 32768).chunk_tokens == 16384


@pytest.mark.parametrize("budget", [0, 39])
def test_budget_below_decode_is_an_error(budget: int) -> None:
    with pytest.raises(UsageError):
        plan_step(EIGHT, budget)


def test_sweep_names_every_budget_that_is_too_small() -> None:
    with pytest.raises(UsageError, match=r"16, 32: below 8 seats x 5 = 40"):
        sweep_budgets(EIGHT, [2048, 32, 16])
    with pytest.raises(UsageError):
        sweep_budgets(EIGHT, [])


# ------------------------------------------------------------------------------ sweep


def test_smallest_budget_that_does_not_starve() -> None:
    rows = sweep_budgets(EIGHT, [8192, 2048, 4096, 2048])
    assert [r.budget for r in rows] == [2048, 4096, 8192]
    assert [r.budget for r in rows if r.smallest_that_does_not_starve] == [2048]


def test_many_seats_need_more() -> None:
    # 256 x 5 = 1,280: 768 of 2,048 are left (37 %), 2,816 of 4,096 (69 %)
    rows = sweep_budgets(StepQuestion(seats=256, draft_tokens=4), [2048, 4096, 8192])
    assert [r.starves_prefill for r in rows] == [True, False, False]


def test_demand_from_lengths() -> None:
    # 64 seats, prompts of 8,000, answers of 200: 64 x 8,000 / 200 = 2,560 prompt tokens a step
    question = StepQuestion(seats=64, prompt=8000, output_tokens=200)
    assert starves_prefill(question, 2048)
    assert starves_prefill(question, 2623)  # 2,559 left
    assert not starves_prefill(question, 2624)
    rows = sweep_budgets(question, [2048, 4096, 8192])
    assert [r.budget for r in rows if r.smallest_that_does_not_starve] == [4096]


def test_nothing_marked_where_all_starve() -> None:
    question = StepQuestion(seats=64, prompt=80000, output_tokens=10)
    rows = sweep_budgets(question, [2048, 4096])
    assert not any(r.smallest_that_does_not_starve for r in rows)
    document = make_step_document(question, rows)
    assert document["smallest_budget"] is None
    assert "every budget of this sweep starves prefill" in document["notes"]


# ------------------------------------------------------------------------------ a request's own split


def test_published_split_at_38000_tokens() -> None:
    split = project_request(prompt_tokens=38000, ms_per_prompt_token=0.74, decode_seconds=137)
    assert split.prefill_seconds == pytest.approx(28.12)
    assert split.decode_share == pytest.approx(0.83, abs=0.003)
    assert split.reason is None


def test_decode_from_a_cost_per_output_token() -> None:
    split = project_request(
        prompt_tokens=1000, ms_per_prompt_token=1.0, output_tokens=101, seconds_per_output_token=0.03
    )
    assert (split.prefill_seconds, split.decode_seconds) == (1.0, pytest.approx(3.0))  # 100 decode tokens
    assert split.decode_share == pytest.approx(0.75)


def test_missing_costs_are_named_not_zero() -> None:
    split = project_request(prompt_tokens=1000, ms_per_prompt_token=None)
    assert (split.prefill_seconds, split.decode_seconds, split.decode_share) == (None, None, None)
    assert split.reason is not None
    assert "--ms-per-prompt-token" in split.reason
    assert "--output-tokens" in split.reason


# ------------------------------------------------------------------------------ document

CONTRACT_KEYS = {
    "budget", "decode_tokens_per_step", "prefill_tokens_per_step", "chunk_tokens", "prompt_steps_alone",
    "prompt_steps_loaded", "ttft_alone_seconds", "ttft_loaded_seconds", "gap_seconds", "freeze_seconds",
    "reachable_hit_tokens",
}  # fmt: skip


def test_document_has_the_contracts_rows() -> None:
    question = StepQuestion(seats=8, draft_tokens=4, prompt=32768, ms_per_prompt_token=0.49, cost_is_upper=True)
    document = make_step_document(question, sweep_budgets(question, [2048, 8192]))
    assert (document["kind"], document["schema"]) == ("step", 1)
    for row in document["rows"]:
        assert row.keys() >= CONTRACT_KEYS
    assert document["smallest_budget"] == 2048
    assert any("upper value" in note for note in document["notes"])
    estimates = {f["name"]: f for f in document["published"] if f["kind"] == "estimate"}
    assert (estimates["prefill_decode_interval"]["low"], estimates["prefill_decode_interval"]["high"]) == (0.10, 0.20)
    assert (estimates["mixed_chunk"]["low"], estimates["mixed_chunk"]["high"]) == (0.03, 0.06)
    json.dumps(document, allow_nan=False)


def test_without_a_cost_the_document_says_why_there_are_no_seconds() -> None:
    document = make_step_document(EIGHT, [plan_step(EIGHT, 8192)])
    assert document["rows"][0]["gap_seconds"] is None
    assert any("no cost per prompt token" in note for note in document["notes"])
