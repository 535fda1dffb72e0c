"""Public bug reports: for each the right answer and its arithmetic stand in its ``case.md``.

Values here are those of the arithmetic, under the names of the contract. Where a case's words differ from the design
(plain-arithmetic ceilings, true step counts) the design decides and the test says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.model import Report
from tests.captures.support import (
    FIXTURES,
    audit,
    check_limits,
    limits,
    only,
    state,
    summary,
    value,
    verdict,
)

CASES = FIXTURES / "cases"


def case(number: str) -> Path:
    (folder,) = CASES.glob(f"{number}-*")
    return folder


def pair(number: str, **settings: float) -> Report:
    folder = case(number)
    return audit(folder / "input.t1.prom", before=folder / "input.t0.prom", settings=settings)


def one_page(number: str, name: str = "input.prom", **settings: float) -> Report:
    return audit(case(number) / name, settings=settings)


def test_01_parallel_sampling() -> None:
    subject = only(pair("01"))
    assert value(subject, "user_requests") == 6
    assert value(subject, "sequences") == 28
    assert value(subject, "mean_n") == pytest.approx(28 / 6)
    assert value(subject, "prompt_tokens") == 5170
    assert value(subject, "computed_prompt_tokens") == 1298
    assert value(subject, "cached_prompt_tokens") == 3872
    assert value(subject, "prefix_hit_share") == pytest.approx(3872 / 5170)
    assert "parallel_sampling_inflates_counts_and_hits" in subject.flags
    # 22 of 28 sequences may have hit a sibling: no evidence of reuse between requests.
    assert verdict(subject, "prefix-cache") == "undecided"
    # Per sequence, not the 861.67 that dividing by user requests would give.
    assert subject.readings["prompt_length_tokens"].extra["mean"] == pytest.approx(5170 / 28)


def test_02_disconnects() -> None:
    report = pair("02")
    subject = only(report)
    assert report.exit_code == 0  # tokens moved
    assert value(subject, "finished_requests") == 0
    assert value(subject, "prompt_tokens") == 3010
    assert value(subject, "unfinished_prompt_tokens") == 3010
    assert value(subject, "unfinished_prompt_share") == 1
    for name in ("prefill_share", "length_share", "abort_share"):
        assert state(subject, name) == "no_traffic"
    assert {"unfinished_work", "aborts_not_exported"} <= set(subject.flags)
    assert verdict(subject, "time-split") == "undecided"
    assert verdict(subject, "length-truncation") == "undecided"


def test_03_block_floor_of_a_hybrid_model() -> None:
    subject = only(pair("03", block_size=528))
    assert value(subject, "block_size_tokens") == 528
    assert value(subject, "prefix_hit_share") == pytest.approx(1056 / 4022)
    assert value(subject, "lookup_hit_share") == pytest.approx(1056 / 4022)
    low, high = limits(subject, "below_block_share")
    assert low == pytest.approx(2 / 6)
    assert high == 1
    assert "cache_off" not in subject.flags
    assert "below_block_floor" not in subject.flags
    assert verdict(subject, "prefix-cache") != "broken"


def test_04_recompute_is_no_reuse() -> None:
    subject = only(pair("04"))
    assert value(subject, "preemptions") == 412
    assert subject.readings["prefix_hit_share"].value is None
    assert verdict(subject, "prefix-cache") in ("undecided", "not_applicable")


def test_05_merged_chunks() -> None:
    subject = only(one_page("05", budget=4))
    assert value(subject, "steps") == 2
    assert "steps_merge_chunks" in subject.flags
    # ceil(10/4) steps for the prompt and one for the second token.
    assert value(subject, "min_steps") == 4
    low, high = limits(subject, "tokens_per_step")
    assert low is not None
    assert high is not None
    # The true mean is 11 tokens in 4 steps; the histogram's own mean of 6.0 is above the budget and not believed.
    assert low <= 11 / 4 <= high <= 4
    low, high = limits(subject, "full_step_share")
    assert low is not None
    assert high is not None
    assert low <= 2 / 4 <= high  # 4, 4, 2, 1 tokens: two of four steps are full


def test_05_the_bound_needs_proof_that_all_requests_ended(tmp_path: Path) -> None:
    """The same page with a second prompt of 10 tokens whose request did not finish: no chain can be told."""
    text = (case("05") / "input.prom").read_text()
    for old, new in (
        ('prompt_tokens_total{engine="0",model_name="m"} 10.0', "20.0"),
        ('generation_tokens_total{engine="0",model_name="m"} 2.0', "3.0"),
    ):
        assert text.count(f"\nvllm:{old}\n") == 1
        text = text.replace(old, old.rpartition(" ")[0] + " " + new)
    page = tmp_path / "page.prom"
    page.write_text(text)
    # 20 computed tokens at most 4 a step. How many of the 3 generated ones were first tokens is not on the page.
    assert value(only(audit(page, settings={"budget": 4})), "min_steps") == 5


def test_06_one_gauge_a_process() -> None:
    subject = only(one_page("06"))
    reading = subject.readings["kv_usage"]
    assert reading.value == 0.6530455880475035
    assert reading.count == 1  # one engine, seen through eight processes
    assert any("8 processes" in c for c in reading.caveats)
    assert not any("uncertain" in c for c in reading.caveats)
    assert value(subject, "kv_usage_max") == value(subject, "kv_usage_peak") == 0.6530455880475035


def test_13_openmetrics_and_classic_agree() -> None:
    classic = only(one_page("13", "input.classic.prom"))
    metrics = only(one_page("13", "input.openmetrics.txt"))
    for subject in (classic, metrics):
        assert value(subject, "prompt_tokens") == 34_567_503
        assert value(subject, "finished_requests") == 10_000
        assert value(subject, "length_share") == 0.1
        assert value(subject, "running_requests") == 3
    assert {n: r.to_json() for n, r in classic.readings.items()} == {
        n: r.to_json() for n, r in metrics.readings.items()
    }


def test_14_old_and_new_names_are_counted_once() -> None:
    subject = only(one_page("14"))
    assert (
        value(subject, "prompt_tokens" if subject.readings["prompt_tokens"].value else "finished_prompt_tokens") == 32
    )
    assert value(subject, "query_inflation") == 1  # 32 queries, not 64, for 32 prompt tokens
    assert value(subject, "lookup_hit_share") == 0
    assert value(subject, "finished_requests") == 4
    assert {"old_and_new_names", "too_few_requests"} <= set(subject.flags)
    assert all(v.verdict in ("undecided", "not_applicable") for v in subject.audits if v.audit != "metrics-integrity")


def test_15_everything_in_the_first_bucket() -> None:
    subject = only(one_page("15"))
    names = [n for n, r in subject.readings.items() if "p99" in r.extra and r.count == 1000]
    assert names
    for name in names:
        reading = subject.readings[name]
        assert reading.extra["mean"] == pytest.approx(0.052)
        for q in ("p50", "p90", "p99"):
            assert {k: reading.extra[q][k] for k in ("value", "low", "high")} == {
                "value": None,
                "low": 0.0,
                "high": 0.3,
            }
        assert reading.extra["blind"] is True


@pytest.mark.parametrize("name", ["input.old.prom", "input.fixed.prom"])
def test_16_the_external_cache_is_asked_for_what_is_left(name: str) -> None:
    subject = only(one_page("16", name))
    assert value(subject, "external_hit_share") == pytest.approx(0.5)
    assert value(subject, "device_hit_share") == pytest.approx(0.6)
    assert value(subject, "prefix_hit_share") == pytest.approx(0.8)
    assert value(subject, "computed_prompt_tokens") == pytest.approx(200)


def test_19_plain_split() -> None:
    subject = only(pair("19"))
    reading = subject.readings["prefill_share"]
    assert reading.value == pytest.approx(43.618 / (43.618 + 532.693), abs=1e-9)
    assert reading.count == 18
    assert value(subject, "mean_prefill_seconds") == pytest.approx(2.423, abs=5e-4)
    assert value(subject, "mean_decode_seconds") == pytest.approx(29.594, abs=5e-4)
    assert any("overlap" in c for c in reading.caveats)
    # 18 requests are fewer than a verdict needs.
    assert verdict(subject, "time-split") == "undecided"
    assert "too_few_requests" in subject.flags


def test_20_engines_are_added() -> None:
    subject = only(one_page("20"))
    assert value(subject, "finished_prompt_tokens") == 104
    assert value(subject, "finished_requests") == 4
    assert subject.readings["prompt_length_tokens"].extra["mean"] == 26
    assert value(subject, "engine_skew") == 1.5
    assert [p["readings"]["finished_requests"]["value"] for p in subject.parts] == [3, 1]


def test_21_no_data_is_no_pass() -> None:
    report = pair("21")
    subject = only(report)
    assert report.exit_code == 3
    assert "no_traffic" in subject.flags
    assert all(r.value in (None, 0) for n, r in subject.readings.items() if r.unit in ("requests", "tokens"))
    for name, reading in subject.readings.items():
        if reading.unit == "ratio":
            assert reading.value is None or name.startswith("kv_usage"), name
    check_limits(subject.readings.values())
    # An empty body is an answer without metrics, not zeros.
    folder = case("21")
    empty = audit(folder / "input.empty.prom", before=folder / "input.t0.prom")
    assert empty.exit_code == 3
    assert empty.subjects == ()
    assert empty.targets[0]["state"] == "failed"
    assert "empty" in empty.targets[0]["reason"]


def test_22_truncation() -> None:
    subject = only(pair("22"))
    reading = subject.readings["length_share"]
    assert value(subject, "finished_requests") == 541
    assert reading.value == pytest.approx(199 / 541)
    assert reading.low is not None
    assert reading.low > 0.10
    assert verdict(subject, "length-truncation") == "broken"
    assert "199 of 541" in summary(subject, "length-truncation")


def test_24_speculation() -> None:
    subject = only(one_page("24"))
    assert value(subject, "tokens_per_draft_step") == pytest.approx(1 + 68_159 / 40_280)
    assert value(subject, "draft_acceptance") == pytest.approx(68_159 / 281_960)
    assert value(subject, "drafted_per_draft_step") == pytest.approx(7.0)
    assert value(subject, "kept_share_of_verified") == pytest.approx(2.6921 / 8, abs=1e-4)
    assert "lifetime_only" in subject.flags
    assert any("never compare" in c for c in subject.readings["draft_acceptance"].caveats)


def test_25_no_engine_metrics() -> None:
    report = one_page("25")
    (target,) = report.targets
    assert report.exit_code == 3
    assert report.subjects == ()
    assert target["state"] == "not_an_engine"
    assert target["flags"] == ["no_engine_metrics"]
    assert "3 series" in target["reason"]
    for prefix in ("vllm:", "sglang:"):
        assert prefix in target["reason"]
    assert "statistics switched off" in target["reason"]


def test_27_a_scrape_is_a_lifetime() -> None:
    window = only(pair("27"))
    assert value(window, "preemptions") == 0
    assert value(window, "finished_requests") == 900
    # The page has look-ups and no prompt tokens, so what they claim is shown and no share of the work is made of it.
    assert value(window, "lookup_hit_share") == pytest.approx(720_000 / 900_000)
    assert state(window, "prefix_hit_share") == "absent"
    assert verdict(window, "prefix-cache") == "undecided"
    assert "off" not in summary(window, "prefix-cache")
    assert "lifetime_only" not in window.flags
    life = only(audit(case("27") / "input.t1.prom"))
    assert "lifetime_only" in life.flags
    assert value(life, "preemptions") == 412
    assert value(life, "finished_requests") == 2_000_900
    assert value(life, "lookup_hit_share") == pytest.approx(0.3, abs=1e-3)
    assert verdict(life, "preemption") == "undecided"
    assert verdict(life, "prefix-cache") == "undecided"


@pytest.mark.parametrize("path", sorted(CASES.glob("*/input*.prom")), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_reading_of_any_case_breaks_its_limits(path: Path) -> None:
    for subject in audit(path).subjects:
        check_limits(subject.readings.values())
