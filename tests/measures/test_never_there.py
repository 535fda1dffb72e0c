"""Series that no page has, levels and targets that lost one, and the one subject that a cut page is."""

from __future__ import annotations

import json

import pytest

from auditor.measures.holes import Holes
from auditor.measures.lives import find_lives
from auditor.measures.moves import Moves
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Options, SubjectReport, TargetWindow
from auditor.pipeline import audit_window
from auditor.saved import window_from_json, window_to_json
from tests.captures.support import state, value
from tests.measures.lossy_pages import AFTER, BEFORE, LATER, OTHER, TTFT, finished, only_part, reason, ttft, without
from tests.measures.pages import LABELS, counter, gauge, histogram, report, subject, target, window


def emptied(*names: str, pages: tuple[str, ...] = (BEFORE, AFTER)) -> SubjectReport:
    """The audit of a saved window in which somebody made the values of these series null on every page."""
    document = json.loads(json.dumps(window_to_json(window(target(*pages), seconds=60), tool="test")))
    hit = [
        s
        for s in document["targets"][0]["series"]
        if any(s["name"] == name or name in s["labels"].values() for name in names)
    ]
    assert hit
    for series in hit:
        series["values"] = [None] * len(series["values"])
    (found,) = audit_window(window_from_json(document, name="test"), Options()).subjects
    return found


def test_a_series_that_has_no_value_on_any_page() -> None:
    assert reason(emptied(f"{TTFT}_sum"), "ttft_seconds") == "the page has no sum for it"
    assert reason(emptied(f"{TTFT}_count"), "ttft_seconds") == f"{TTFT}_count has no value on any page"
    assert reason(emptied("0.5"), "ttft_seconds") == f'{TTFT}_bucket{{le="0.5"}} has no value on any page'
    s = emptied("length", pages=(OTHER + finished(stop=2, length=5), OTHER + finished(stop=4, length=11)))
    assert reason(s, "length_share") == 'vllm:request_success_total{finished_reason="length"} has no value on any page'
    s = emptied("vllm:prompt_tokens_total", pages=(BEFORE + finished(stop=2), AFTER + finished(stop=4)))
    assert reason(s, "prompt_tokens") == "vllm:prompt_tokens_total has no value on any page"
    assert reason(emptied(f"{TTFT}_sum", pages=(AFTER,)), "ttft_seconds") == "the page has no sum for it"


def test_a_sum_that_no_page_has_is_no_zero() -> None:
    """Neither the mean of the histogram nor the share that is made of its sum."""

    def page(n: float) -> str:
        names = ("queue", "prefill", "decode")
        return "".join(histogram(f"request_{name}_time_seconds", {1.0: n}, n / 2) for name in names)

    assert value(subject(page(4), page(8)), "queue_share") == pytest.approx(1 / 3)
    bare = [without(page(n), "request_queue_time_seconds_sum") for n in (4, 8)]
    for pages in (bare, bare[1:]):
        s = subject(*pages)
        assert state(s, "queue_share") == "invalid"
        assert reason(s, "queue_seconds") == reason(s, "queue_time_seconds") == "the page has no sum for it"


def test_one_of_two_histograms_without_a_sum_is_no_half_sum() -> None:
    two = [LABELS + f',kind="{kind}"' for kind in "ab"]
    pages = [ttft(n, 0, n, two[0]) + without(ttft(n, 0, n, two[1]), "_sum") + OTHER for n in (2, 4)]
    assert reason(subject(*pages), "ttft_seconds") == "the page has no sum for it"


def test_one_of_two_histograms_without_a_count_is_counted_by_its_last_bucket() -> None:
    """2 + 2 more first tokens in 1 + 1 more seconds."""
    two = [LABELS + f',kind="{kind}"' for kind in "ab"]
    pages = [ttft(n, 0, n / 2, two[0]) + without(ttft(n, 0, n / 2, two[1]), "_count") + OTHER for n in (2, 4)]
    s = subject(*pages)
    assert value(s, "ttft_seconds") == 0.5
    assert s.readings["ttft_seconds"].count == 4


def test_a_sum_alone_counts_nothing() -> None:
    s = only_part(OTHER + f"# TYPE {TTFT} histogram\n{TTFT}_sum{{{LABELS}}} 5\n")
    assert s.flaws["ttft_seconds"] == "the page has neither a count nor buckets for it"


# --------------------------------------------------------------------------- gauges, fleets, subjects


def test_a_lost_level_is_a_reason_and_a_copy_that_left_is_none() -> None:
    def waiting(**levels: float) -> str:
        return OTHER + "".join(
            gauge("num_requests_waiting_by_reason", n, f'{LABELS},reason="{r}"') for r, n in levels.items()
        )

    part = only_part(waiting(capacity=3, deferred=1), waiting(capacity=2))
    assert part.flaws["waiting_by_reason"] == f'vllm:num_requests_waiting_by_reason{{reason="deferred"}} {LATER}'
    assert only_part(waiting(capacity=3), waiting(capacity=2, deferred=4)).quantities["waiting_by_reason"].last == 6
    usage = [gauge("kv_cache_usage_perc", n, f'{LABELS},pid="{pid}"') for pid, n in ((1, 0.25), (2, 0.5))]
    assert value(subject(OTHER + usage[0] + usage[1], OTHER + usage[0]), "kv_usage") == 0.25


def test_one_target_of_a_fleet_that_lost_a_series() -> None:
    """The sum of both is unknown; the whole target keeps its own 0.5 s."""
    both = window(target(BEFORE, AFTER, address="a"), target(BEFORE, without(AFTER, "_sum"), address="b"), seconds=60)
    (s,) = audit_window(both, Options()).subjects
    assert reason(s, "ttft_seconds") == f"{TTFT}_sum {LATER}"
    each = audit_window(both, Options(by="target")).subjects
    assert [r.readings["ttft_seconds"].value for r in each] == [0.5, None]


CONFIG = gauge("cache_config_info", 1, 'engine="0",block_size="16"')


@pytest.mark.parametrize("labels", ['engine="0"', "", 'model_name="m"'])
def test_a_lost_series_without_all_labels_makes_no_subject_of_its_own(labels: str) -> None:
    """The series speaks of the one engine there is, and so does what is wrong with it."""
    lost = gauge("cache_config_info", 1, f'block_size="16"{"," if labels else ""}{labels}')
    (s,) = report(BEFORE + lost, AFTER.replace("} 1\n", "} 9\n")).subjects
    assert s.labels["model"] == "m"
    assert value(s, "prompt_tokens") == 8
    assert reason(s, "block_size_tokens") == f"vllm:cache_config_info {LATER}"


def test_a_page_that_was_cut_at_a_line_end_is_one_subject() -> None:
    """Cut inside the last histogram but one: what stands above the cut is right, the rest is lost."""
    page = [counter("prompt_tokens", n) + ttft(n, 0, n) + finished(stop=n) + CONFIG for n in (10, 30)]
    cut = page[1][: page[1].index(f"{TTFT}_count")]
    (s,) = report(page[0], cut).subjects
    assert value(s, "prompt_tokens") == 20
    assert reason(s, "ttft_seconds") == f"{TTFT}_count {LATER}"
    assert reason(s, "stop_share") == f"vllm:request_success_total {LATER}"
    assert reason(s, "block_size_tokens") == f"vllm:cache_config_info {LATER}"


def test_a_page_without_any_counter_of_the_earlier_one_is_not_called_idle() -> None:
    running = gauge("num_requests_running", 1)
    (s,) = report(running + counter("prompt_tokens", 1) + finished(stop=1), running).subjects
    assert s.facts["no_traffic"] == (
        f"no counter that can be read moved in the window: vllm:prompt_tokens_total {LATER}, and 1 more like it"
    )
    idle = subject(running + OTHER, running + OTHER)
    assert idle.facts["no_traffic"] == "no counter moved in the window"


def test_complete_pages_are_not_searched_for_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Holes, "why_unknown", never)
    monkeypatch.setattr(Holes, "_gaps", never)
    assert value(subject(BEFORE, AFTER), "ttft_seconds") == 0.5
    with pytest.raises(AssertionError):
        subject(BEFORE, without(AFTER, "_sum"))


def test_only_complete_tables_of_one_life_are_plain() -> None:
    engine = load_vocabulary().engine("vllm")

    def is_plain(found: TargetWindow) -> bool:
        return Moves(found, engine, find_lives(found, engine)).is_plain

    assert is_plain(target(BEFORE, AFTER))
    assert not is_plain(target(BEFORE, without(AFTER, "_sum")))
