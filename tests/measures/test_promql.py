"""Rendered queries, word for word: what reaches a server is what these say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.measures.promql import Scope, duration, first_values_over, increase_over
from auditor.measures.questions import born_queries, layout_query, level_queries, whole_queries
from auditor.measures.selectors import Matcher
from auditor.measures.vocabulary import Declaration, Engine, Form


def declaration(name: str, kind: str = "counter", **more: object) -> Declaration:
    reductions = {"counter": "increase", "histogram": "distribution", "gauge": "level", "info": "labels"}
    fields: dict[str, object] = {
        "series": (f"e:{name}_total",) if kind == "counter" else (f"e:{name}",),
        "kind": kind, "reduce": reductions[kind], "across": "sum", "population": "live", "unit": "x", "counts": "x",
        "source": "x", **more,
    }  # fmt: skip
    return Declaration(name=name, **fields)  # type: ignore[arg-type]


def engine(*declared: Declaration) -> Engine:
    return Engine(
        name="e", title="E", releases="", forms=(Form("e:"), Form("pre_e:")), quantities={d.name: d for d in declared},
        model_labels=("model",), rank_labels=("rank",), copy_labels=("pid",), replica_labels=(), config_labels={},
        known=frozenset(), prefill_runs="mixed", disconnects_leave_no_trace=False, router_sign="server", traits={},
    )  # fmt: skip


def scope(*declared: Declaration, names: set[str], labels: set[str] | None = None, **more: object) -> Scope:
    there = frozenset(labels) if labels is not None else frozenset({"model", "rank", "job", "instance"})
    return Scope(engine(*declared), "e:", frozenset(names), labels=there, **more)  # type: ignore[arg-type]


def only(s: Scope, seconds: float = 60.0) -> str:
    (query,) = whole_queries(s)
    return query.text(seconds)


def test_counter() -> None:
    s = scope(declaration("a"), names={"e:a_total"})
    assert only(s) == "sum by (model) (increase(e:a_total[60s]))"


def test_counter_without_its_total() -> None:
    assert only(scope(declaration("a"), names={"e:a"})) == "sum by (model) (increase(e:a[60s]))"


def test_another_form_of_the_names() -> None:
    s = replace(scope(declaration("a"), names={"pre_e:a_total"}), form="pre_e:")
    assert only(s) == "sum by (model) (increase(pre_e:a_total[60s]))"


def test_split_where_and_match() -> None:
    d = declaration("a", split="why", where={"stage": ("x",), "mode": ("y.1", "z")})
    s = scope(d, names={"e:a_total"}, matchers=(Matcher("ns", "=", 'l"m'),))
    expected = 'sum by (model, why) (increase(e:a_total{ns="l\\"m",stage="x",mode=~"y\\\\.1|z"}[60s]))'
    assert only(s) == expected


def test_the_newest_name_of_each_series() -> None:
    d = declaration("a", series=("e:new_total", "e:old_total"))
    s = scope(d, names={"e:new_total", "e:old_total"})
    assert only(s) == "sum by (model) ((increase(e:new_total[60s]) or increase(e:old_total[60s])))"
    assert only(replace(s, names=frozenset({"e:old_total"}))) == "sum by (model) (increase(e:old_total[60s]))"


def test_copies_are_never_added() -> None:
    d = declaration("a", one_of=("tp_rank", "pp_rank"))
    s = scope(d, names={"e:a_total"}, labels={"model", "job", "instance", "tp_rank"})
    assert only(s) == "sum by (model) (max without (tp_rank) (increase(e:a_total[60s])))"
    pair = replace(s, replica_labels=("prometheus_replica",))
    assert only(pair) == "sum by (model) (max without (tp_rank, prometheus_replica) (increase(e:a_total[60s])))"


def test_a_mean_is_over_engines_not_over_their_copies() -> None:
    s = scope(declaration("a", across="mean"), names={"e:a_total"})
    inner = "sum by (model, job, instance, rank) (increase(e:a_total[60s]))"
    assert only(s) == f"avg by (model) ({inner})"


def test_histogram() -> None:
    names = {f"e:h{suffix}" for suffix in ("_bucket", "_sum", "_count")}
    s = scope(declaration("h", "histogram"), names=names)
    assert only(s) == (
        "sum by (model, le) (increase(e:h_bucket[60s]))\nor\n"
        'label_replace(sum by (model) (increase(e:h_sum[60s])), "piece", "sum", "", "")\nor\n'
        'label_replace(sum by (model) (increase(e:h_count[60s])), "piece", "count", "", "")'
    )
    dropped = replace(s, names=frozenset(names - {"e:h_bucket"}))
    assert "_bucket" not in only(dropped)


def test_native_histogram() -> None:
    s = scope(declaration("h", "histogram"), names={"e:h"})
    assert only(s) == "sum by (model) (increase(e:h[60s]))"
    assert born_queries(s, ["h"], None) == []


def test_what_is_not_there_is_not_asked() -> None:
    assert whole_queries(scope(declaration("a"), declaration("b"), names={"e:other_total"})) == []


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        ("all", ""),
        ("model", " by (model)"),
        ("target", " by (job, instance)"),
        ("rank", " by (model, job, instance, rank)"),
    ],
)
def test_subjects(by: str, labels: str) -> None:
    s = scope(declaration("a"), names={"e:a_total"}, by=by)
    text = only(s)
    assert text == (f"sum{labels} (increase(e:a_total[60s]))" if labels else "sum(increase(e:a_total[60s]))")


def test_gauge_copies_and_the_routers_mark() -> None:
    d = declaration("g", "gauge", across="mean", split="why")
    s = scope(d, names={"e:g"}, labels={"model", "pid", "server", "job", "instance"})
    (query,) = level_queries(s)
    assert query.text(60) == 'avg by (model, why) (max without (pid) (e:g{server=""}))'


def test_first_values() -> None:
    s = scope(declaration("a"), names={"e:a_total"})
    assert first_values_over(60, s, None)("x") == "(min_over_time(x[60s]) unless x offset 60s)"
    victoria = first_values_over(60, replace(s, victoria=True), None)("x")
    assert victoria == "((increase_pure(x[60s]) - increase(x[60s])) unless x offset 60s)"


def test_layouts() -> None:
    s = scope(declaration("h", "histogram"), names={"e:h_bucket"})
    assert layout_query(s, ["e:h_bucket"]) == 'count by (__name__, model, le) ({__name__="e:h_bucket"})'


def test_lengths() -> None:
    assert [duration(s) for s in (60, 0.5, 173.615, 86400)] == ["60s", "500ms", "173615ms", "86400s"]
    assert increase_over(1.5)("x") == "increase(x[1500ms])"
