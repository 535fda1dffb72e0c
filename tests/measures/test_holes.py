"""A page that lacks one series of a quantity: lost or not born yet, and never a zero for a lost one."""

from __future__ import annotations

import pytest

from auditor.model import Counter, Histogram
from tests.captures.support import state, value
from tests.measures.lossy_pages import AFTER, BEFORE, LATER, OTHER, TTFT, finished, only_part, reason, ttft, without
from tests.measures.pages import LABELS, counter, gauge, histogram, started, subject


def test_the_pages_of_these_tests_are_right_while_nothing_is_lost() -> None:
    """(5.0 - 2.0) s over 10 - 4 first tokens."""
    s = subject(BEFORE, AFTER)
    assert value(s, "ttft_seconds") == 0.5
    assert s.readings["ttft_seconds"].count == 6


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("_sum",), f"{TTFT}_sum"),
        (("_count",), f"{TTFT}_count"),
        (("_bucket", 'le="0.5"'), f'{TTFT}_bucket{{le="0.5"}}'),
        (("_bucket", 'le="+Inf"'), f'{TTFT}_bucket{{le="+Inf"}}'),
    ],
)
def test_a_lost_series_of_a_histogram_is_a_reason(words: tuple[str, ...], shown: str) -> None:
    s = subject(BEFORE, without(AFTER, "time_to_first", *words))
    assert state(s, "ttft_seconds") == "invalid"
    assert reason(s, "ttft_seconds") == f"{shown} {LATER}"
    # On the first page only it cannot have been born late: its like had counted four first tokens.
    s = subject(without(BEFORE, "time_to_first", *words), AFTER)
    assert state(s, "ttft_seconds") == "invalid"
    assert reason(s, "ttft_seconds") == f"{shown} is not on the first page, which has the rest of it"


def test_a_lost_family_has_the_reason_of_its_name() -> None:
    s = subject(BEFORE, OTHER)
    assert reason(s, "ttft_seconds") == f"{TTFT} {LATER}"


def test_a_whole_histogram_that_appears_counts_from_zero() -> None:
    assert value(subject(OTHER, AFTER), "ttft_seconds") == 0.5  # 5.0 s over 10
    # Before the first observation the sum is zero whether it is written or not: 5.0 s over 10 again.
    empty = OTHER + without(ttft(0, 0, 0.0), "_sum")
    assert value(subject(empty, AFTER), "ttft_seconds") == 0.5
    born = gauge("time_to_first_token_seconds_created", 50.0)
    assert value(subject(born + empty, born + AFTER), "ttft_seconds") == 0.5


def test_a_lost_child_of_a_counter_is_a_reason() -> None:
    before, after = OTHER + finished(stop=2, length=5), OTHER + finished(stop=4, length=11)
    assert value(subject(before, after), "length_share") == 0.75  # 6 of 8
    s = subject(before, without(after, "length"))
    assert state(s, "length_share") == "invalid"
    assert reason(s, "length_share") == f'vllm:request_success_total{{finished_reason="length"}} {LATER}'


def test_a_lost_child_that_stood_at_zero_is_lost_too() -> None:
    s = subject(OTHER + finished(stop=2, abort=0), OTHER + finished(stop=4))
    assert state(s, "abort_share") == "invalid"
    assert f'{{finished_reason="abort"}} {LATER}' in reason(s, "abort_share")


def test_prompt_tokens_whose_source_is_lost_are_no_hits() -> None:
    def page(computed: float, cached: float) -> str:
        return counter("prompt_tokens", computed + cached) + "".join(
            counter("prompt_tokens_by_source", n, f'{LABELS},source="{source}"')
            for source, n in (("local_compute", computed), ("local_cache_hit", cached))
        )

    before, after = page(100, 100), page(130, 110)
    assert value(subject(before, after), "prefix_hit_share") == 0.25  # 10 of 40
    lost = subject(before, without(after, "local_compute"))
    assert lost.readings["prefix_hit_share"].value is None


def test_a_child_that_appears_counts_from_zero_beside_others() -> None:
    s = subject(OTHER + finished(stop=2), OTHER + finished(stop=5, abort=1))
    assert value(s, "abort_share") == 0.25  # 1 of 3 + 1


def test_the_creation_time_of_a_counter_shows_that_it_was_there() -> None:
    """A creation time is on a page with its counter or not at all."""
    born, other = gauge("prompt_tokens_created", 50.0), counter("generation_tokens", 1)
    part = only_part(born + other, born + other + counter("prompt_tokens", 70))
    assert part.flaws["prompt_tokens"] == "vllm:prompt_tokens_total is not on the first page, which has the rest of it"
    late = only_part(other, born + other + counter("prompt_tokens", 70))
    assert late.quantities["prompt_tokens"].increase == 70


# --------------------------------------------------------------------------- more than two pages


def test_what_the_last_of_many_pages_lacks_is_lost() -> None:
    pages = [OTHER + finished(stop=n, length=n) for n in (1, 3, 6)]
    s = subject(*pages[:2], without(pages[2], "length"))
    assert reason(s, "length_share") == f'vllm:request_success_total{{finished_reason="length"}} {LATER}'
    # Born on the second page and gone on the third is as lost.
    s = subject(OTHER + finished(stop=1), pages[1], without(pages[2], "length"))
    assert state(s, "length_share") == "invalid"


def test_what_was_away_for_a_page_is_known_over_the_window_and_not_beside_that_page() -> None:
    """Sums 2, away, 8, 9 at counts 4, 6, 10, 12: (9 - 2) s over 8; the two slices at the hole have no mean."""
    pages = [OTHER + ttft(*n) for n in ((4, 0, 2.0), (6, 0, 4.0), (10, 0, 8.0), (12, 0, 9.0))]
    pages[1] = without(pages[1], "_sum")
    part = only_part(*pages)
    whole = part.quantities["ttft_seconds"]
    assert isinstance(whole, Histogram)
    assert (whole.sum, whole.count, whole.flaw) == (7.0, 8.0, None)
    assert ["ttft_seconds" in s.quantities for s in part.slices] == [False, False, True]
    last = part.slices[2].quantities["ttft_seconds"]
    assert isinstance(last, Histogram)
    assert (last.sum, last.count) == (1.0, 2.0)


def test_a_counter_that_is_born_late_is_zero_in_the_slices_before() -> None:
    part = only_part(OTHER + finished(stop=1), OTHER + finished(stop=2), OTHER + finished(stop=2, abort=3))
    assert part.quantities["finished_requests"].split == {"stop": 1.0, "abort": 3.0}
    assert [s.quantities["finished_requests"].increase for s in part.slices] == [1.0, 3.0]


# --------------------------------------------------------------------------- restarts


def test_a_child_may_be_missing_after_a_restart() -> None:
    """Three of the new life stopped; none was cut yet."""
    s = subject(started(100) + finished(stop=9, length=5), started(200) + finished(stop=3))
    assert (value(s, "finished_requests"), value(s, "length_share")) == (3, 0)
    assert state(s, "length_share") == "partial"
    # Two lives: 7 - 5 cut in the first, none in the second; stopped 1 and 3.
    pages = [started(100) + finished(stop=9, length=5), started(100) + finished(stop=10, length=7)]
    s = subject(*pages, started(200) + finished(stop=3))
    assert value(s, "length_share") == pytest.approx(2 / 6)


def test_a_child_that_is_lost_after_the_restart_is_lost() -> None:
    pages = [
        started(100) + finished(stop=9),
        started(200) + finished(stop=3, length=2),
        started(200) + finished(stop=4),
    ]
    assert state(subject(*pages), "length_share") == "invalid"


def test_a_child_that_is_lost_before_the_restart_is_lost() -> None:
    """Nobody knows how many were cut between the first page and the end of that life."""
    pages = [started(100) + finished(stop=9, length=5), started(100) + finished(stop=10)]
    s = subject(*pages, started(200) + finished(stop=3, length=1))
    assert state(s, "length_share") == "invalid"
    assert "had begun to count and is not on the last page before a restart" in reason(s, "length_share")


def test_a_sum_that_the_new_life_never_wrote_is_no_zero() -> None:
    pages = [started(100) + BEFORE, started(200) + without(AFTER, "time_to_first", "_sum")]
    s = subject(*pages)
    assert reason(s, "ttft_seconds") == f"{TTFT}_sum is not on the last page, which has the rest of it"


def test_buckets_that_changed_with_a_restart_leave_sum_and_count() -> None:
    """A longer --max-model-len gives other buckets: 9 prompts of 700 tokens since the restart, no quantiles."""
    old = started(100) + histogram("request_prompt_tokens", {100: 4, 500: 2}, 900) + finished(stop=6)
    new = started(200) + histogram("request_prompt_tokens", {100: 8, 1000: 1}, 700) + finished(stop=9)
    s = subject(old, new)
    assert value(s, "finished_prompt_tokens") == 700
    assert state(s, "prompt_length_tokens") == "invalid"
    assert reason(s, "prompt_length_tokens") == "its buckets changed with a restart"
    # Where the new life has all edges of the old one and more, the window, which is that life, is whole.
    more = started(200) + histogram("request_prompt_tokens", {100: 8, 500: 0, 1000: 1}, 900) + finished(stop=9)
    assert value(subject(old, more), "prompt_length_tokens") == 100  # 900 over 9


# --------------------------------------------------------------------------- forms and engines that leave out zeros


def ray(page: str) -> str:
    """The form whose pages leave out what never moved."""
    return page.replace("vllm:", "ray_vllm_")


def test_a_sparse_page_may_lack_what_never_moved_and_not_what_did() -> None:
    before, after = ray(OTHER + finished(stop=2)), ray(OTHER + finished(stop=4, length=1))
    assert value(subject(before, after), "length_share") == pytest.approx(1 / 3)
    lost = subject(after, ray(OTHER + finished(stop=6)))
    assert state(lost, "length_share") == "invalid"
    assert "ray_vllm_request_success_total" in reason(lost, "length_share")
    whole = subject(after, ray(OTHER))
    assert reason(whole, "length_share") == f"ray_vllm_request_success_total {LATER}"


def test_a_sparse_page_may_lack_a_whole_quantity_after_a_restart() -> None:
    s = subject(started(100) + ray(OTHER + finished(stop=2)), started(200) + ray(OTHER))
    assert (value(s, "finished_requests"), state(s, "finished_requests")) == (0, "partial")


def sglang(name: str, number: float, labels: str = "") -> str:
    return f'# TYPE sglang:{name} counter\nsglang:{name}{{model_name="m"{labels}}} {number}\n'


def passes(prefill: float) -> str:
    return sglang("realtime_tokens_total", prefill, ',mode="prefill_compute"')


def test_sglang_writes_a_counter_with_its_first_event() -> None:
    """Decoded tokens have no series before the first: beside prefilled ones a missing series is none so far."""
    decoded = sglang("realtime_tokens_total", 7, ',mode="decode"')
    restarted = only_part(started(100) + passes(50) + decoded, started(200) + passes(20))
    assert restarted.quantities["decoded_tokens"] == Counter(0.0, 0.0, 0.0)
    same = only_part(started(100) + passes(50) + decoded, started(100) + passes(60))
    assert same.flaws["decoded_tokens"] == f"sglang:realtime_tokens_total {LATER}"


def test_sglang_after_a_restart_in_which_nothing_ran_yet() -> None:
    """The counter of all work is back at 0: what is missing beside it has not happened."""
    work = sglang("prefill_effective_tokens_total", 40, ',mode="input"')
    before = started(100) + work + sglang("generation_tokens_total", 9)
    idle = only_part(before, started(200) + work.replace(" 40", " 0"))
    assert idle.quantities["generation_tokens"] == Counter(0.0, 0.0, 0.0)
    busy = only_part(before, started(200) + work.replace(" 40", " 30"))
    assert busy.flaws["generation_tokens"] == f"sglang:generation_tokens_total {LATER}"


def test_a_family_that_the_first_page_was_cut_of_has_no_increase() -> None:
    """Ten requests had finished at the first page and thirty at the second; what counted thirty was no newcomer."""

    def times(name: str, count: int) -> str:
        return histogram(name, {1: count}, count / 2)

    whole = times("e2e_request_latency_seconds", 10)
    later = times("e2e_request_latency_seconds", 30)
    s = subject(whole, later + times("request_prefill_time_seconds", 30))
    assert s.readings["prefill_seconds"].state == "invalid"
    assert "has counted 30 requests where vllm:e2e_request_latency_seconds rose by 20" in (
        s.readings["prefill_seconds"].reason or ""
    )
    # One that counted what finished in the window may have been born in it.
    assert value(subject(whole, later + times("request_prefill_time_seconds", 20)), "prefill_seconds") == 10
    # A server without traffic at the first page has neither.
    assert (
        value(
            subject(counter("prompt_tokens", 0), later + times("request_prefill_time_seconds", 30)), "prefill_seconds"
        )
        == 15
    )
    # After a restart everything is new.
    fresh = [started(100) + whole, started(900) + later + times("request_prefill_time_seconds", 30)]
    assert value(subject(*fresh), "prefill_seconds") == 15
