"""``auditor explain``: everything has a text, examples are worked, a slip is corrected, nothing heavy is loaded."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from auditor.audits import load_audits
from auditor.audits.judging import GRAVE
from auditor.cli.options import require_name
from auditor.compare.confounders import FAR_APART
from auditor.compare.noise import COUNTS_WIDENING, Noise
from auditor.compare.rows import MARGIN, UNKNOWN_MARGIN
from auditor.entry import run
from auditor.explaining import EXIT_CODES, QUANTILES, explain, is_known, known_names, right_name
from auditor.gate.model import Gated
from auditor.history.baseline import BAND, MIN_NIGHTS, MOST_NIGHTS
from auditor.history.changes import SMALLEST_RELATIVE, SMALLEST_SHARE, ChangeVerdict
from auditor.levers import load_levers
from auditor.levers.ceilings import LeverVerdict
from auditor.measures.flags import ELSEWHERE, FLAGS
from auditor.measures.readings import READINGS
from auditor.measures.readings.behind import quantities_behind
from auditor.measures.readings.distributions import QUANTILES as OF_DISTRIBUTIONS
from auditor.model import Options, UsageError
from auditor.model.words import State, TargetState, VerdictWord, WindowKind
from auditor.outputs._compare import STYLES as ROWS
from auditor.outputs._compare import WORDS as COMPARED
from auditor.outputs._lever_lines import MARKS as LEVER_MARKS

HEAVY = ("pandas", "numpy", "requests", "prometheus_client", "rich", "jinja2", "matplotlib", "pydantic")


@pytest.mark.parametrize("name", known_names())
def test_everything_has_a_text(name: str) -> None:
    text = explain(name, width=80)
    assert len(text) > 60
    assert name.lower() in text.lower() or name == "exit-codes"
    assert "None" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_all_kinds_of_names_are_known() -> None:
    known = set(known_names())
    assert known >= {
        *load_audits(),
        *load_levers(),
        *READINGS,
        *FLAGS,
        *ELSEWHERE,
        "exit-codes",
        "bounded",
        "undecided",
    }


@pytest.mark.parametrize("name", list(load_audits()))
def test_an_audit_shows_its_text_series_and_worked_examples(name: str) -> None:
    text = explain(name, width=100)
    for piece in ("Premise:", "When it misleads:", "What to do:", "READINGS", "SERIES (vLLM)", "EXAMPLE: broken"):
        assert piece in text
    for example in load_audits()[name].EXAMPLES:
        assert f"EXAMPLE: {example.verdict}" in text


def test_a_worked_example_shows_the_figures_and_the_answer() -> None:
    text = explain("preemption", width=100)
    assert "preemptions: 12" in text
    assert "12 preemptions in 400 finished requests (0.03 a request)" in text


def test_a_reading_shows_formula_series_and_example() -> None:
    text = explain("prefill_share", width=100)
    assert "P / (P + D)" in text
    assert "vllm:request_prefill_time_seconds" in text
    assert "caveat: contains preemption and every stall caused by other requests' prefill chunks" in text
    assert "prefill_share = 80 %" in text  # 320 s of 400 s
    assert "Judged by: time-split" in text


def test_quantities_are_found_through_helpers() -> None:
    assert set(quantities_behind("tokens_per_draft_step")) == {"drafts", "accepted_tokens"}
    assert {"prefill_seconds", "decode_seconds"} <= set(quantities_behind("prefill_share"))
    assert {"kv_usage", "cache_config"} <= set(quantities_behind("kv_tokens_per_running_request"))
    # Through another reading: the block size.
    assert "cache_config" in quantities_behind("below_block_share")
    # The context comes from a setting alone.
    assert [n for n in READINGS if not quantities_behind(n)] == ["max_model_len"]


def test_a_flag_shows_when_it_is_set_and_where() -> None:
    text = explain("kv_bound", width=100)
    assert "kv-pool" in text
    assert "KV use 98% with 7 waiting" in text


def test_a_word_that_is_two_things_shows_both() -> None:
    text = explain("no_traffic", width=100)
    assert "no_traffic: a flag" in text
    assert "no_traffic: the state of a reading" in text


def test_exit_codes_are_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "exit-codes"]) == 0
    out = capsys.readouterr().out
    assert [code for code, _, _ in EXIT_CODES] == ["0", "1", "2", "3", "4", "130"]
    assert "143" in out
    assert "2 before 4 before 1 before 3 before 0" in " ".join(out.split())


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("time_split", "time-split"),
        ("prefill-share", "prefill_share"),
        ("KV_POOL", "kv-pool"),
        ("exit_codes", "exit-codes"),
        ("TTFT_SECONDS", "ttft_seconds"),
        ("try", "TRY"),
        ("Try First", "TRY FIRST"),
        ("not comparable", "not_comparable"),
        ("ttft_seconds.p90", "ttft_seconds p90"),
        ("ttft_seconds p90", "ttft_seconds p90"),
        ("TTFT-Seconds.P99", "ttft_seconds p99"),
    ],
)
def test_case_hyphens_and_underscores_do_not_count(typed: str, right: str) -> None:
    assert right_name(typed) == right
    assert is_known(right)


# --------------------------------------------------------------------------- words of comparisons and nights

PRINTED = {
    *get_args(State), *get_args(VerdictWord), *get_args(TargetState), *get_args(WindowKind), *get_args(Gated),
    *get_args(ChangeVerdict), *get_args(Noise), *get_args(LeverVerdict), *COMPARED, *ROWS, *LEVER_MARKS.values(),
    "problem", "warning", "regression", "TRY FIRST", "YES", "NO",
}  # fmt: skip


@pytest.mark.parametrize("word", sorted(w for w in PRINTED if w.isascii() and w[0].isalpha()))
def test_every_word_that_a_report_prints_is_explained(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", word]) == 0
    assert word.lower() in capsys.readouterr().out.lower()


def test_a_word_of_three_kinds_has_three_meanings() -> None:
    text = explain("worse", width=100)
    for kind in ("a row of a comparison", "the verdict of a comparison", "a reading beside the nights before"):
        assert f"worse: {kind}" in text


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("same", f"+-{MARGIN * 100:g} %"),
        ("same", f"less than {UNKNOWN_MARGIN * 100:g} %"),
        ("same", f"less than {SMALLEST_RELATIVE * 100:g} % of itself"),
        ("same", f"less than {SMALLEST_SHARE:g}"),
        ("counts", f"widened by {COUNTS_WIDENING:g}"),
        ("not_comparable", "ten times more requests"),
        ("baseline", f"at most {MOST_NIGHTS}"),
        ("baseline", f"a factor of {BAND:g}"),
        ("not_enough_history", f"({MIN_NIGHTS})"),
        ("worth_a_test", f"({Options().worth:g} unless"),
        ("not_worth_a_test", f"({Options().worth:g} unless"),
        *(("problem", audit) for audit in GRAVE),
    ],
)
def test_numbers_of_a_definition_are_those_of_the_rule(word: str, number: str) -> None:
    assert FAR_APART == 10
    assert number in " ".join(explain(word, width=100).split())


def test_a_quantile_explains_its_reading(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "ttft_seconds", "p90"]) == 0
    text = capsys.readouterr().out
    assert "ttft_seconds p90: the 90th percentile of ttft_seconds" in text
    assert "the bucket of the histogram" in text
    assert "Time to first token, from arrival" in text
    assert set(QUANTILES) == {name for name, _ in OF_DISTRIBUTIONS}
    assert run(["explain", "prefill_share.p90"]) == 2
    assert "did you mean prefill_share?" in capsys.readouterr().err


def test_names_that_differ_in_case_are_suggested() -> None:
    for typed, right in (("TTFT", "ttft_seconds"), ("ttft", "ttft_seconds"), ("PREFIL_SHARE", "prefill_share")):
        with pytest.raises(UsageError, match=f"did you mean {right}?"):
            require_name(typed, ("ttft_seconds.p50", *READINGS), "a reading")


def test_a_slip_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "time-splt"]) == 2
    assert "did you mean time-split?" in capsys.readouterr().err
    assert run(["explain", "qqqqqq"]) == 2
    assert "auditor list" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["time-split", "full_step_share", "kv_bound", "exit-codes"])
def test_explain_loads_nothing_heavy(name: str) -> None:
    code = (
        "import sys\nfrom auditor.entry import run\n"
        f"assert run(['explain', {name!r}]) == 0\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
