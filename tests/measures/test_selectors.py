"""--match: one selector, read strictly, and written back so that no value can break out of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.measures.selectors import Matcher, any_of, one_of, parse_match, quote, selector
from auditor.model import UsageError


@pytest.mark.parametrize(
    ("text", "matchers"),
    [
        ('{namespace="llm"}', [Matcher("namespace", "=", "llm")]),
        (' { a = "b" , c!~"d|e" , } ', [Matcher("a", "=", "b"), Matcher("c", "!~", "d|e")]),
        ("{a='b\"c'}", [Matcher("a", "=", 'b"c')]),
        ("{a=`b\\n`}", [Matcher("a", "=", "b\\n")]),
        ('{a="b\\n\\x41\\u00e9"}', [Matcher("a", "=", "b\nA\u00e9")]),
        ('{a=~"}.*{"}', [Matcher("a", "=~", "}.*{")]),
        ('{a="x,y",b="z"}', [Matcher("a", "=", "x,y"), Matcher("b", "=", "z")]),
    ],
)
def test_one_selector(text: str, matchers: list[Matcher]) -> None:
    assert list(parse_match(text)) == matchers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not begin with {"),
        ("namespace=llm", "leave the name before"),
        ('vllm:x{a="b"}', "leave the name before"),
        ("{}", "it is empty"),
        ('{a="b"} or {c="d"}', "goes on after the selector"),
        ('{a="b"},{c="d"}', "goes on after the selector"),
        ('{a="b"}[5m]', "goes on after the selector"),
        ('{a="b"}) or vector(1', "goes on after the selector"),
        ('{a="b" or c="d"}', "a comma or } is missing"),
        ("{a=b}", "a quoted value is missing"),
        ('{a="b}', "has no end"),
        ('{a>"b"}', "one of = != =~ !~ is missing"),
        ('{__name__="up"}', "cannot be chosen"),
        ('{a="\\q"}', "no escape"),
        ('{="b"}', "a label name is missing"),
        ('{a="b"', "a comma or } is missing"),
    ],
)
def test_what_is_no_selector_or_more_than_one(text: str, said: str) -> None:
    with pytest.raises(UsageError, match="--match wants one selector") as raised:
        parse_match(text)
    assert said in str(raised.value)


def test_no_match_is_no_condition() -> None:
    assert parse_match(None) == ()


@given(st.text())
def test_any_value_survives_the_way_out_and_back(value: str) -> None:
    assert parse_match("{a=" + quote(value) + "}") == (Matcher("a", "=", value),)


@given(st.text(), st.text())
def test_no_value_ends_its_own_quotes(value: str, other: str) -> None:
    written = selector("x", [Matcher("a", "=", value), Matcher("b", "=", other)])
    assert written.startswith("x{")
    assert parse_match(written[1:]) == (Matcher("a", "=", value), Matcher("b", "=", other))


def test_several_values_are_an_anchored_alternative() -> None:
    assert any_of(["a.b", "c"]) == "a\\.b|c"
    assert str(one_of("job", ["x"])) == 'job="x"'
    assert str(one_of("job", ["y.z", "x"])) == 'job=~"x|y\\\\.z"'
