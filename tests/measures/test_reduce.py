"""Pages -> quantities: names, copies, labels, layouts, values that no counter can have."""

from __future__ import annotations

import pytest

from auditor.model import Options, UsageError
from auditor.pipeline import audit_window
from tests.captures.support import limits, state, value
from tests.measures.pages import LABELS, counter, gauge, histogram, report, subject, target, window


def test_two_names_are_counted_once_and_compared() -> None:
    old, new = counter("gpu_prefix_cache_queries", 32), counter("prefix_cache_queries", 32)
    hits = counter("prefix_cache_hits", 8) + counter("gpu_prefix_cache_hits", 8)
    s = subject(old + new + hits + counter("prompt_tokens", 32))
    assert value(s, "query_inflation") == 1
    assert "old_and_new_names" in s.flags
    assert "disagree" not in s.facts["old_and_new_names"]
    other = subject(old.replace(" 32", " 64") + new + hits + counter("prompt_tokens", 32))
    assert value(other, "query_inflation") == 1
    assert "disagree" in other.facts["old_and_new_names"]


def test_a_counter_with_and_without_its_suffix_is_one_counter() -> None:
    s = subject(counter("prompt_tokens", 32) + gauge("prompt_tokens", 32))
    assert value(s, "prompt_tokens") == 32
    bare = subject(f"# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens{{{LABELS}}} 7\n")
    assert value(bare, "prompt_tokens") == 7


@pytest.mark.parametrize(
    ("value_text", "word"),
    [("NaN", "NaN"), ("+Inf", "infinite"), ("-3", "negative"), ("1e+300", "no engine counts that far")],
)
def test_values_that_no_counter_has_are_invalid(value_text: str, word: str) -> None:
    page = counter("prompt_tokens", 1).replace(" 1\n", f" {value_text}\n") + counter("generation_tokens", 5)
    s = subject(page)
    assert state(s, "prompt_tokens") == "invalid"
    assert word in (s.readings["prompt_tokens"].reason or "")
    assert value(s, "generation_tokens") == 5


def test_a_negative_level_is_invalid() -> None:
    s = subject(counter("prompt_tokens", 1) + gauge("num_requests_running", -1))
    assert state(s, "running_requests") == "invalid"


def test_counters_as_exponents() -> None:
    page = counter("prompt_tokens", 1).replace(" 1\n", " 1e+06\n")
    assert value(subject(page), "prompt_tokens") == 1_000_000


def test_edges_are_numbers_not_texts() -> None:
    """le="1" on one page and le="1.0" on the next would be two series; on one page they are one edge."""
    page = histogram("request_prompt_tokens", {1: 3, 10: 2}, 23).replace('le="1.0"', 'le="1"')
    s = subject(page)
    assert s.readings["prompt_length_tokens"].extra["p50"]["high"] == 1


def test_different_layouts_add_counts_and_sums_only() -> None:
    one = histogram("request_prompt_tokens", {10: 4, 20: 6}, 120)
    two = histogram("request_prompt_tokens", {10: 4, 50: 2}, 90, 'engine="1",model_name="m"')
    s = subject(one + two)
    assert value(s, "finished_prompt_tokens") == 210
    assert value(s, "finished_requests") == 16
    assert state(s, "prompt_length_tokens") == "invalid"
    assert "different bucket layouts" in (s.readings["prompt_length_tokens"].reason or "")
    ranks = report(one + two, options=Options(by="rank")).subjects
    assert [value(r, "prompt_length_tokens") for r in ranks] == [12, 15]


def test_an_idle_part_with_another_layout_spoils_nothing() -> None:
    one = histogram("request_prompt_tokens", {10: 4, 20: 6}, 120)
    idle = histogram("request_prompt_tokens", {10: 0, 50: 0}, 0, 'engine="1",model_name="m"')
    s = subject(one + idle)
    assert value(s, "prompt_length_tokens") == 12
    assert s.readings["prompt_length_tokens"].extra["p90"]["high"] == 20


def test_a_histogram_that_contradicts_itself_has_no_buckets() -> None:
    page = histogram("request_prompt_tokens", {10: 4, 20: 6}, 120).replace(
        "_count{" + LABELS + "} 10.0", "_count{" + LABELS + "} 50"
    )
    s = subject(page)
    assert state(s, "prompt_length_tokens") == "invalid"
    assert "its count says 50" in (s.readings["prompt_length_tokens"].reason or "")


def test_series_without_engine_label_belong_to_the_engines() -> None:
    """Refusals at the door are counted by the front end, before an engine is chosen."""
    engines = "".join(
        counter("request_success", n, f'engine="{e}",model_name="m",finished_reason="stop"')
        for e, n in (("0", 3), ("1", 5))
    )
    door = counter("admission_rejections", 0, 'model_name="m",reason="max_num_queued_reqs"')
    (zero,) = report(engines + door).subjects
    assert value(zero, "admission_rejections") == 0
    assert value(zero, "engine_skew") == 5 / 4
    ranks = report(engines + door, options=Options(by="rank")).subjects
    assert [r.labels["rank"] for r in ranks] == ["0", "1"]
    seven = door.replace("} 0", "} 7")
    (moved,) = report(engines + seven).subjects
    assert value(moved, "admission_rejections") == 7
    assert value(moved, "finished_requests") == 8
    # Nobody can say which engine the seven were refused for: they stay beside the ranks, counted once.
    by_rank = report(engines + seven, options=Options(by="rank")).subjects
    told = [r.readings["admission_rejections"].value for r in by_rank]
    assert sum(v for v in told if v is not None) == 7


def test_blocks_without_help_are_told_by_their_number() -> None:
    """A metrics server drops HELP. 62 blocks of 16 tokens for 1,000 prompt tokens; hits 31 of 62."""
    config = gauge("cache_config_info", 1, 'engine="0",block_size="16",enable_prefix_caching="True"')
    page = (
        counter("prompt_tokens", 1000) + counter("gpu_prefix_cache_queries", 62) + counter("gpu_prefix_cache_hits", 31)
    )
    s = subject(page + config)
    assert value(s, "query_inflation") == pytest.approx(0.992)
    assert value(s, "prefix_hit_share") == pytest.approx(0.5)
    # With tokens for a unit the same figures cover a sixteenth of the prompts and prove nothing.
    unknown = subject(page)
    assert state(unknown, "prefix_hit_share") == "invalid"


def test_blocks_are_told_by_help() -> None:
    def named(name: str, v: float) -> str:
        return f"# HELP vllm:{name}_total Prefix cache {name}, in terms of number of cached blocks.\n" + counter(
            name, v
        )

    page = counter("prompt_tokens", 1000) + named("gpu_prefix_cache_queries", 60) + named("gpu_prefix_cache_hits", 15)
    assert value(subject(page, block_size=16), "prefix_hit_share") == pytest.approx(0.25)
    assert "--block-size" in (subject(page).readings["prefix_hit_share"].reason or "")


def test_two_copies_above_zero_are_uncertain() -> None:
    page = counter("prompt_tokens", 1) + "# TYPE vllm:kv_cache_usage_perc gauge\n"
    for pid, level in ((1, 0.0), (2, 0.4), (3, 0.3)):
        page += f'vllm:kv_cache_usage_perc{{{LABELS},pid="{pid}"}} {level}\n'
    reading = subject(page).readings["kv_usage"]
    assert reading.value == 0.4
    assert any("uncertain, 2 of them" in c for c in reading.caveats)


def test_a_renamed_page_is_not_the_same_page() -> None:
    first, second = counter("prompt_tokens", 5), counter("prompt_tokens", 9).replace("vllm:", "kserve_vllm:")
    with pytest.raises(UsageError, match="not two pages of one server"):
        target(first, second, saved=True)


def test_two_models_in_two_pages_are_not_one_server() -> None:
    second = counter("prompt_tokens", 9).replace('"m"', '"other"')
    with pytest.raises(UsageError, match="the last one other"):
        target(counter("prompt_tokens", 5), second, saved=True)


def test_pools_and_levels_of_two_engines() -> None:
    """Usage is weighted by pool; peaks of the sum are taken page by page, not engine by engine."""

    def page(running: tuple[int, int], usage: tuple[float, float]) -> str:
        out = ""
        for e, pool in (("0", 1000), ("1", 3000)):
            labels = f'engine="{e}",model_name="m"'
            out += counter("prompt_tokens", 10, labels) + gauge("num_requests_running", running[int(e)], labels)
            out += gauge("kv_cache_usage_perc", usage[int(e)], labels)
            out += gauge("cache_config_info", 1, f'engine="{e}",block_size="16",kv_cache_size_tokens="{pool}"')
        return out

    s = subject(page((8, 0), (0.8, 0.0)), page((0, 8), (0.0, 0.4)), page((2, 2), (0.2, 0.4)))
    assert value(s, "kv_pool_tokens") == 4000
    assert value(s, "kv_usage") == pytest.approx((200 + 1200) / 4000)
    assert value(s, "kv_usage_max") == 0.4
    assert value(s, "kv_usage_peak") == 0.8
    assert s.readings["running_requests"].extra["max"] == 8  # not 16
    assert value(s, "kv_tokens_per_running_request") == pytest.approx(1400 / 4)


def test_a_fleet_of_unequal_engines_with_one_unknown_pool() -> None:
    one = target(
        counter("prompt_tokens", 1)
        + gauge("kv_cache_usage_perc", 0.5)
        + gauge("cache_config_info", 1, 'engine="0",block_size="16",kv_cache_size_tokens="1000"'),
        address="a",
    )
    two = target(counter("prompt_tokens", 1) + gauge("kv_cache_usage_perc", 0.1), address="b")
    (s,) = audit_window(window(one, two), Options()).subjects
    assert state(s, "kv_pool_tokens") == "not_exported"
    assert "1 of 2 engines" in (s.readings["kv_pool_tokens"].reason or "")
    assert value(s, "kv_usage") == pytest.approx(0.3)
    assert any("plain mean" in c for c in s.readings["kv_usage"].caveats)


def test_below_block_share_is_a_share_of_counts_at_an_edge() -> None:
    lengths = histogram("request_prompt_tokens", {16: 30, 100: 10}, 1000)
    exact = subject(lengths, block_size=17).readings["below_block_share"]
    assert exact.value == 0.75
    assert exact.low is not None
    assert exact.low < 0.75
    assert limits(subject(lengths, block_size=32), "below_block_share") == (0.75, 1)
