"""Premises files: what is read, and what is said of a wrong one, with its line and column."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from auditor.gate.model import Limits, Place, Regression
from auditor.gate.nodes import PremisesError
from auditor.gate.reader import parse_premises, read_premises
from auditor.gating import known_names
from auditor.measures.readings import READINGS
from auditor.model import UsageError
from tests.gate.making import NAMES, parse

WAIVERS = "extends: strict\nwaivers:\n"
WHOLE = """\
extends: recommended
min_requests: 50
min_coverage: 80%
premises:
  - reading: length_share
    name: few are cut
    at_most: 10%
    level: error
    for: {model: "llama-*"}
    on_undecided: warn
  - {reading: ttft_seconds, at: p90, at_most: 2s}
  - {reading: ttft_seconds, at_least: 150ms}
  - {reading: prompt_length_tokens, between: [1k, 8k]}
  - {reading: queue_share, worse_than_baseline_by: 10%}
  - audit: prefix-cache
  - belief: decode dominates
  - before: batched-tokens
    level: off
  - claim: {prefill_rate: 1860}
waivers:
  - {premise: few are cut, until: 2027-01-31, reason: "client fix shipping"}
"""


def test_a_whole_file() -> None:
    file = parse(WHOLE)
    assert (file.extends, file.min_requests, file.min_coverage) == ("recommended", 50, 0.8)
    premises = {p.name: p for p in file.premises}
    few = premises["few are cut"]
    assert few.condition == Limits(high=0.1)
    assert few.place == Place("premises.yaml", 5, 5)
    assert (few.selector, few.on_undecided, few.level) == ({"model": "llama-*"}, "warn", "error")
    p90 = premises["ttft_seconds p90 at most 2 s"]
    assert (p90.at, p90.condition) == ("p90", Limits(high=2.0))
    assert premises["ttft_seconds at least 150 ms"].condition == Limits(low=0.15)
    assert premises["prompt_length_tokens between 1,000 tokens and 8,000 tokens"].condition == Limits(1000.0, 8000.0)
    assert premises["queue_share at most 10 % worse than the baseline"].condition == Regression(0.1)
    assert premises["prefix-cache"].kind == "audit"
    decode = premises["decode dominates"]
    assert (decode.kind, decode.of, decode.condition) == ("reading", "prefill_share", Limits(high=0.5))
    assert premises["before batched-tokens"].level == "off"
    assert premises["claim prefill_rate 1860"].claimed == 1860
    (waiver,) = file.waivers
    assert (waiver.premise, waiver.until, waiver.reason) == ("few are cut", date(2027, 1, 31), "client fix shipping")


def test_presets() -> None:
    levels = {p.name: p.level for p in parse("extends: recommended").premises}
    assert levels == {
        "metrics trustworthy": "error",
        "engine alive": "error",
        "answers complete": "error",
        "requests accounted": "warn",
        "no preemption": "warn",
        "no queueing": "warn",
        "kv not the limit": "warn",
    }
    assert {p.name: (p.level, p.preset) for p in parse("extends: strict").premises} == dict.fromkeys(
        levels, ("error", "strict")
    )


def test_a_name_repeated_replaces_the_presets() -> None:
    file = parse("extends: recommended\npremises:\n  - {belief: no queueing, level: off}\n")
    (mine,) = [p for p in file.premises if p.name == "no queueing"]
    assert (mine.level, mine.preset, mine.place.line) == ("off", None, 3)
    assert len(file.premises) == 7


def test_level_off_is_a_word_although_yaml_calls_it_false() -> None:
    assert parse("extends: recommended\npremises: [{audit: queueing, level: off}]").premises[-1].level == "off"


@pytest.mark.parametrize(
    ("text", "reading", "value"),
    [
        ("2s", "ttft_seconds", 2.0),
        ("150ms", "ttft_seconds", 0.15),
        ("0.5", "ttft_seconds", 0.5),
        ("1.5 m", "ttft_seconds", 90.0),
        ("40%", "length_share", 0.4),
        ("0.4", "length_share", 0.4),
        ("200%", "naive_rate_error", 2.0),
        ("8k", "prompt_length_tokens", 8000.0),
        ("1.2M", "prompt_length_tokens", 1_200_000.0),
        ("2s", "prefill_ms_per_computed_token", 2000.0),
        ("3", "prefill_ms_per_computed_token", 3.0),
        ("1%", "preemptions_per_request", 0.01),
        ("1e3", "prompt_length_tokens", 1000.0),
    ],
)
def test_amounts(text: str, reading: str, value: float) -> None:
    (premise,) = parse(f"premises: [{{reading: {reading}, at_most: {text}}}]").premises
    assert isinstance(premise.condition, Limits)
    assert premise.condition.high == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("limit", "low", "high"), [("at_most: -5", None, -5.0), ("between: [-5, 0]", -5.0, 0.0)])
def test_net_readings_may_have_limits_below_0(limit: str, low: float | None, high: float) -> None:
    text = f"premises: [{{reading: unfinished_prompt_tokens, {limit}}}]"
    (premise,) = parse_premises(text, file="premises.yaml", names=known_names()).premises
    assert premise.condition == (Limits(high=high) if low is None else Limits(low, high))


@pytest.mark.parametrize("reading", [d.name for d in READINGS.values() if d.is_share])
def test_no_share_has_a_limit_above_1(reading: str) -> None:
    with pytest.raises(PremisesError, match="never above 1"):
        parse_premises(f"premises: [{{reading: {reading}, at_most: 150%}}]", file="p.yaml", names=known_names())


@pytest.mark.parametrize("reading", [d.name for d in READINGS.values() if not d.is_net and d.unit != "label"])
def test_nothing_else_has_a_limit_below_0(reading: str) -> None:
    with pytest.raises(PremisesError, match="never below 0"):
        parse_premises(f"premises: [{{reading: {reading}, at_least: -1}}]", file="p.yaml", names=known_names())


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("premisses: []\n", 1, 1, "did you mean premises?"),
        ("extends: recomended\n", 1, 10, "did you mean recommended?"),
        ("premises:\n  - reading: lenght_share\n    at_most: 10%\n", 2, 14, "did you mean length_share?"),
        ("premises:\n  - {reading: length_share, at_mots: 10%}\n", 2, 29, "did you mean at_most?"),
        ("premises:\n  - {reading: length_share, at_most: 2s}\n", 2, 38, "shares of 1"),
        ("premises:\n  - {reading: length_share, at_most: 10}\n", 2, 38, "never above 1"),
        ("premises:\n  - {reading: length_share, at_most: -1}\n", 2, 38, "never below 0; write 40%"),
        ("premises:\n  - {reading: ttft_seconds, at_most: -1s}\n", 2, 38, "never below 0; write 2s"),
        ("premises:\n  - {reading: length_share, between: [-50%, 10%]}\n", 2, 39, "never below 0"),
        ("premises:\n  - {reading: finished_requests, at_least: -5}\n", 2, 44, "never below 0"),
        ("premises:\n  - {claim: {prefill_rate: -1860}}\n", 2, 28, "never below 0"),
        ("premises:\n  - {reading: TTFT_SECONDS, at_most: 2s}\n", 2, 15, "did you mean ttft_seconds?"),
        ("premises:\n  - {reading: ttft_seconds, at_most: 40%}\n", 2, 38, "2s, 150ms"),
        ("premises:\n  - {reading: ttft_seconds, at_most: soon}\n", 2, 38, "is no amount"),
        ("premises:\n  - {reading: ttft_seconds, at_most: 1e999}\n", 2, 38, "too large"),
        ("premises:\n  - {reading: ttft_seconds, at_most: .nan}\n", 2, 38, "is no amount"),
        ("premises:\n  - {reading: ttft_seconds, at_most: }\n", 2, 37, "an amount is needed here"),
        ("premises:\n  - {reading: ttft_seconds, at: p95, at_most: 2s}\n", 2, 33, "known: mean, p50, p90, p99"),
        ("premises:\n  - {reading: length_share, at: p90, at_most: 1%}\n", 2, 29, "at goes with distributions"),
        ("premises:\n  - {reading: length_share}\n", 2, 15, "exactly one of at_most"),
        ("premises:\n  - {reading: length_share, at_most: 1%, at_least: 2%}\n", 2, 15, "at_most and at_least"),
        ("premises:\n  - {reading: length_share, between: [2%, 1%]}\n", 2, 38, "above the second"),
        ("premises:\n  - {reading: length_share, between: 5%}\n", 2, 38, "[a, b]"),
        ("premises:\n  - {reading: prefill_share, worse_than_baseline_by: 10%}\n", 2, 54, "no direction"),
        ("premises:\n  - {reading: queue_share, worse_than_baseline_by: 10}\n", 2, 52, "between 0 and 100 %"),
        ("premises:\n  - {audit: queueing, at_most: 1%}\n", 2, 23, "an audit has its own verdict"),
        ("premises:\n  - {audit: queuing}\n", 2, 13, "did you mean queueing?"),
        ("premises:\n  - {belief: decode dominate}\n", 2, 14, "did you mean decode dominates?"),
        ("premises:\n  - {before: batch-tokens}\n", 2, 14, "did you mean batched-tokens?"),
        ("premises:\n  - {claim: {prefil_rate: 1860}}\n", 2, 14, "did you mean prefill_rate?"),
        ("premises:\n  - {claim: {prefill_rate: 1860, prefill_share: 1%}}\n", 2, 13, "claim holds one number"),
        ("premises:\n  - {claim: {prefill_rate: 2s}}\n", 2, 28, "tokens per second"),
        ("premises:\n  - {audit: queueing, belief: no queueing}\n", 2, 5, "here: audit and belief"),
        ("premises:\n  - {name: x, level: warn}\n", 2, 5, "none of them"),
        ("premises:\n  - {audit: queueing, level: fatal}\n", 2, 30, "known: error, off, warn"),
        ("premises:\n  - {audit: queueing, on_undecided: pass}\n", 2, 37, "known: fail, warn"),
        ("premises:\n  - {audit: queueing, for: {modle: m}}\n", 2, 29, "did you mean model?"),
        ("premises:\n  - {audit: queueing, for: [m]}\n", 2, 28, "a mapping is needed"),
        ("premises:\n  - {audit: queueing, audit: preemption}\n", 2, 23, "given twice"),
        ("premises:\n  - {audit: queueing, name: a}\n  - {audit: preemption, name: a}\n", 3, 5, "the name of line 2"),
        ("premises:\n  audit: queueing\n", 2, 3, "premises is a list"),
        ("premises:\n  - queueing\n", 2, 5, "a mapping is needed"),
        ("min_requests: 0\npremises: [{audit: queueing}]\n", 1, 15, "whole number from 1"),
        ("min_requests: 1.5\npremises: [{audit: queueing}]\n", 1, 15, "whole number from 1"),
        ("min_coverage: 110%\npremises: [{audit: queueing}]\n", 1, 15, "between 0 and 100 %"),
        ("extends: strict\nwaivers:\n  - {premise: no queueing, until: 2027-01-31}\n", 3, 5, "missing: reason"),
        ("extends: strict\nwaivers:\n  - {premise: no queueing, reason: x}\n", 3, 5, "missing: until"),
        ("extends: strict\nwaivers:\n  - {premise: no queueing, until: soon, reason: x}\n", 3, 35, "write 2027-01-31"),
        ("extends: strict\nwaivers:\n  - {premise: no queueing, until: 2027-02-30, reason: x}\n", 3, 35, "is no date"),
        (f"{WAIVERS}  - {{premise: no queuing, until: 2027-01-31, reason: x}}\n", 3, 15, "did you mean no queueing?"),
        (f"{WAIVERS}  - {{premise: no queueing, until: 2027-01-31, reason: ''}}\n", 3, 55, "a reason is needed"),
        ("", 1, 1, "has no premise"),
        ("extends: none\n", 1, 1, "has no premise"),
        ("# nothing\n", 1, 1, "has no premise"),
        ("premises: [{audit: queueing, level: off}]\n", 1, 1, "every premise is off"),
        ("- audit: queueing\n", 1, 1, "a mapping is needed"),
        ("premises:\n  - {audit: queueing\n  - x\n", 4, 1, "is no YAML"),
        ("premises:\n\t- audit: queueing\n", 2, 1, "is no YAML"),
        ("a: 1\n---\nb: 2\n", 2, 1, "a second document"),
        ("premises: !!python/object/apply:os.system ['true']\n", 1, 11, "tags are not read"),
        ("premises: !mine [{audit: queueing}]\n", 1, 11, "tags are not read"),
        ("x: &a [1]\npremises: *a\n", 2, 11, "aliases are not read"),
        ("premises: [{audit: \"que\x07ueing\"}]\n", 1, 24, "is no YAML"),
        ("premises: " + "[" * 40 + "]" * 40 + "\n", 1, 26, "deeper than"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(PremisesError) as caught:
        parse(text)
    assert caught.value.exit_code == 2
    places = [(place.line, place.column) for place, said in caught.value.problems if words in said]
    assert places == [(line, column)], caught.value


def test_all_errors_at_once_in_file_order() -> None:
    text = (
        "extends: recomended\n"
        "premises:\n"
        "  - {reading: lenght_share, at_most: 10%}\n"
        "  - {audit: queueing, levle: warn}\n"
        "  - {reading: ttft_seconds, at_most: 40%}\n"
        "waivers:\n"
        "  - {premise: queueing, until: 2027-01-31}\n"
    )
    with pytest.raises(PremisesError) as caught:
        parse(text)
    assert [p.line for p, _ in caught.value.problems] == [1, 3, 4, 5, 7]
    assert str(caught.value).startswith("5 errors in the premises file\npremises.yaml:1:10: ")


def test_a_bomb_of_aliases_ends_at_its_first_alias() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(PremisesError, match="aliases are not read"):
        parse("\n".join(lines))


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "premises.yaml"
    good.write_bytes(b"\xef\xbb\xbfextends: strict\r\npremises:\r\n  - audit: time-split\r\n")
    assert len(read_premises(str(good), NAMES).premises) == 8
    with pytest.raises(UsageError, match="could not be read"):
        read_premises(str(tmp_path / "missing.yaml"), NAMES)
    with pytest.raises(UsageError, match="could not be read"):
        read_premises(str(tmp_path), NAMES)
    (tmp_path / "large.yaml").write_text("#" * 300_000)
    with pytest.raises(UsageError, match="larger than"):
        read_premises(str(tmp_path / "large.yaml"), NAMES)
    (tmp_path / "latin.yaml").write_bytes(b"extends: strict\nname: \xe9\n")
    with pytest.raises(PremisesError, match=r"latin.yaml:2:7: is no UTF-8 text"):
        read_premises(str(tmp_path / "latin.yaml"), NAMES)


def test_many_errors_are_cut() -> None:
    with pytest.raises(PremisesError) as caught:
        parse_premises("premises: [" + "x, " * 200 + "]", file="f", names=NAMES)
    assert "... and 150 more" in str(caught.value)
