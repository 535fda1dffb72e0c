"""Everything that can go wrong with a metrics server, by scripted answers modelled on the documented ones.

Prometheus: https://prometheus.io/docs/prometheus/latest/querying/api/ ; Mimir: its "errors" runbook; VictoriaMetrics:
README, "Prometheus querying API enhancements"; Thanos: components/query.md, "Partial Response".
"""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from auditor.http import Client, Transport
from auditor.model import EvidenceError, Options, UsageError
from auditor.pipeline import audit_window
from auditor.sources.prometheus import LimitError, MetricsServer, QueryError
from tests.metrics_server.conftest import Gather, readings_of
from tests.metrics_server.scripted import Asked, Reply, Script, error, scripted, vector
from tests.metrics_server.servers import free_port

END = 1_795_900_000.0


def test_the_script_itself_gives_a_window(gather: Gather) -> None:
    with scripted(Script()) as script:
        window = gather(script.url, 3600.0, END)
    readings = readings_of(window)
    assert readings["finished_requests"]["value"] == 100
    assert readings["length_share"]["value"] == 0.25
    assert window.partial_response == ""
    assert window.coverage == 1.0
    assert window.source == f"Prometheus API 2.99.0 at {script.url}"


def test_queries_go_by_post_with_the_timeout_passed_on(gather: Gather) -> None:
    with scripted(Script()) as script:
        gather(script.url, 3600.0, END, transport=Transport(timeout_seconds=7.0))
    queries = [a for a in script.asked if a.path.endswith(("/query", "/query_range"))]
    assert queries
    assert {a.method for a in queries} == {"POST"}
    assert {a.form["timeout"] for a in queries} == {"7s"}


def test_a_gateway_that_refuses_post_is_asked_by_get(gather: Gather) -> None:
    def only_get(asked: Asked) -> Reply | None:
        return Reply(b"method not allowed", 405) if asked.method == "POST" else None

    with scripted(Script([only_get])) as script:
        window = gather(script.url, 3600.0, END)
    assert readings_of(window)["finished_requests"]["value"] == 100
    assert sum(a.method == "POST" for a in script.asked) == 1


def test_unreachable(gather: Gather) -> None:
    with pytest.raises(EvidenceError, match="connection refused"):
        gather(f"http://127.0.0.1:{free_port()}", 3600.0, END)


def test_wrong_path_prefix_names_the_usual_ones(gather: Gather) -> None:
    with scripted(Script(prefix="/prometheus")) as script, pytest.raises(EvidenceError) as raised:
        gather(script.url.removesuffix("/prometheus"), 3600.0, END)
    assert "no query API at this path" in str(raised.value)
    assert "/select/TENANT/prometheus" in str(raised.value)


@pytest.mark.parametrize("prefix", ["", "/prometheus", "/select/0/prometheus", "/thanos", "/api/prom"])
@pytest.mark.parametrize("tail", ["", "/", "/api/v1", "/api/v1/query"])
def test_path_prefixes_and_pasted_addresses(gather: Gather, prefix: str, tail: str) -> None:
    with scripted(Script(prefix=prefix)) as script:
        window = gather(script.url + tail, 3600.0, END)
    assert readings_of(window)["finished_requests"]["value"] == 100


def test_login_page_with_status_200(gather: Gather) -> None:
    page = Reply(b"<!DOCTYPE html><html><title>Sign in</title></html>", 200, "text/html")
    with scripted(Script([lambda _: page])) as script, pytest.raises(EvidenceError, match="a login page"):
        gather(script.url, 3600.0, END)


def test_401(gather: Gather) -> None:
    with (
        scripted(Script([lambda _: Reply(b"Unauthorized", 401, "text/plain")])) as script,
        pytest.raises(EvidenceError, match="credentials are missing or wrong"),
    ):
        gather(script.url, 3600.0, END)


def test_mimir_without_tenant_says_how_to_give_one(gather: Gather) -> None:
    with (
        scripted(Script([lambda _: Reply(b"no org id", 401, "text/plain")])) as script,
        pytest.raises(EvidenceError, match="X-Scope-OrgID"),
    ):
        gather(script.url, 3600.0, END)


def test_tenant_header_is_sent_and_a_missing_one_is_no_zero(gather: Gather) -> None:
    def tenant(asked: Asked) -> Reply | None:
        mine = asked.headers.get("X-Scope-OrgID") == "team-llm"
        if not mine and asked.path.endswith("/values"):
            return Reply(b'{"status":"success","data":[]}')
        return None

    with scripted(Script([tenant])) as script:
        with pytest.raises(EvidenceError) as raised:
            gather(script.url, 3600.0, END)
        assert "not one series of a known engine" in str(raised.value)
        assert "X-Scope-OrgID" in str(raised.value)
        header = Transport(headers=(("X-Scope-OrgID", "team-llm"),))
        assert readings_of(gather(script.url, 3600.0, END, transport=header))["finished_requests"]["value"] == 100


def test_thanos_partial_answer_reaches_the_report_and_lowers_coverage(gather: Gather) -> None:
    def partial(asked: Asked) -> Reply | None:
        if "finished_reason" in asked.query:
            return vector(
                ({"model_name": "tiny", "finished_reason": "stop"}, 75),
                warnings=["receive series from Addr: store-1: connection refused"],
            )
        return None

    with scripted(Script([partial])) as script:
        window = gather(script.url, 3600.0, END)
    assert window.coverage == 0.5
    assert "store-1" in window.partial_response
    report = audit_window(window, Options()).to_json()
    subject = report["subjects"][0]
    assert "partial_response" in subject["flags"]
    assert any("store-1" in w for w in report["window"]["warnings"])
    assert subject["readings"]["finished_requests"]["state"] == "partial"


def test_victoria_cluster_partial_flag(gather: Gather) -> None:
    def partial(asked: Asked) -> Reply | None:
        return vector(({"model_name": "tiny"}, 9), isPartial=True) if "prompt_tokens" in asked.query else None

    with scripted(Script([partial])) as script:
        assert "storage nodes did not answer" in gather(script.url, 3600.0, END).partial_response


def test_promql_remarks_are_no_partial_answer(gather: Gather) -> None:
    remark = "PromQL info: metric might not be a counter"

    def remarks(asked: Asked) -> Reply | None:
        if "finished_reason" in asked.query:
            rows = [({"model_name": "tiny", "finished_reason": "stop"}, 75.0)]
            return vector(*rows, warnings=[remark], infos=[remark])
        return None

    with scripted(Script([remarks])) as script:
        window = gather(script.url, 3600.0, END)
    assert window.partial_response == ""
    assert window.coverage == 1.0


def test_nan_makes_a_quantity_invalid_and_nothing_else(gather: Gather) -> None:
    def nan(asked: Asked) -> Reply | None:
        wanted = asked.query.startswith("sum by (model_name) (increase(vllm:prompt_tokens_total")
        return vector(({"model_name": "tiny"}, "NaN")) if wanted and asked.path.endswith("/query") else None

    with scripted(Script([nan])) as script:
        readings = readings_of(gather(script.url, 3600.0, END))
    assert readings["prompt_tokens"]["state"] == "invalid"
    assert readings["prompt_tokens"]["value"] is None
    assert "NaN" in readings["prompt_tokens"]["reason"]
    assert readings["finished_requests"]["value"] == 100


def test_a_quantity_without_rows_is_missing_not_zero(gather: Gather) -> None:
    def none(asked: Asked) -> Reply | None:
        return vector() if "prompt_tokens_total" in asked.query else None

    with scripted(Script([none])) as script:
        readings = readings_of(gather(script.url, 3600.0, END))
    assert readings["prompt_tokens"]["value"] is None
    assert readings["prompt_tokens"]["state"] == "absent"


def test_ranges_are_cut_where_limits_refuse_the_whole(gather: Gather) -> None:
    def limited(asked: Asked) -> Reply | None:
        if "finished_reason" in asked.query and "[3600s]" in asked.query:
            return error(422, "execution", "query processing would load too many samples into memory")
        return None

    with scripted(Script([limited])) as script:
        window = gather(script.url, 3600.0, END)
    # Each half answers 75 + 25, and increases of neighbouring ranges add up.
    assert readings_of(window)["finished_requests"]["value"] == 200
    halves = [a for a in script.asked if "finished_reason" in a.query and "[1800s]" in a.query]
    assert sorted(float(a.form["time"]) for a in halves if "by (model_name, finished_reason)" in a.query) == [
        END - 1800.0,
        END,
    ]
    assert any("asked in shorter ranges" in w for w in window.warnings)


@pytest.mark.parametrize(
    "reply",
    [
        error(422, "execution", "query processing would load too many samples into memory in query execution"),
        error(503, "timeout", "query timed out in expression evaluation"),
        error(400, "bad_data", "exceeded maximum resolution of 11,000 points per timeseries"),
        error(422, "execution", "the query exceeded the maximum number of chunks (limit: 2000000 chunks)"),
        error(422, "422", "cannot select more than -search.maxSamplesPerQuery=1000 samples"),
        Reply(b"upstream request timeout", 504, "text/plain"),
    ],
)
def test_limits_are_told_apart(reply: Reply) -> None:
    with scripted(Script([lambda _: reply])) as script, Client(Transport()) as client:
        with pytest.raises(LimitError):
            MetricsServer(client, script.url).instant("up", END)
        assert len(script.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "bad_data", 'invalid parameter "query": 1:9: parse error: unexpected end of input'),
        error(422, "422", 'error when executing query="up{": unexpected token ""'),
    ],
)
def test_bad_queries_are_told_apart_on_both_dialects(reply: Reply) -> None:
    with scripted(Script([lambda _: reply])) as script, Client(Transport()) as client:
        with pytest.raises(QueryError):
            MetricsServer(client, script.url).instant("up{", END)
        assert len(script.asked) == 1


@pytest.mark.parametrize(
    ("reply", "tries"),
    [
        (Reply(b"rate limited", 429, "text/plain"), 3),
        (Reply(b"bad gateway", 502, "text/plain"), 3),
        (error(503, "unavailable", "TSDB not ready"), 3),
        (Reply(b"Forbidden", 403, "text/plain"), 1),
        (error(500, "internal", "expanding series: disk on fire"), 1),
    ],
)
def test_only_what_can_pass_is_tried_again(reply: Reply, tries: int) -> None:
    with scripted(Script([lambda _: reply])) as script, Client(Transport()) as client:
        with pytest.raises(EvidenceError):
            MetricsServer(client, script.url).instant("up", END)
        assert len(script.asked) == tries


def test_a_second_try_that_passes(gather: Gather) -> None:
    seen: list[int] = []

    def once(asked: Asked) -> Reply | None:
        if "finished_reason" in asked.query and not seen:
            seen.append(1)
            return Reply(b"slow down", 429, "text/plain")
        return None

    with scripted(Script([once])) as script:
        assert readings_of(gather(script.url, 3600.0, END))["finished_requests"]["value"] == 100


def test_a_cut_answer_is_tried_again_and_then_named(gather: Gather) -> None:
    def cut(asked: Asked) -> Reply | None:
        return Reply(b'{"status":"success","data":{}}', cut=True) if "finished_reason" in asked.query else None

    with scripted(Script([cut])) as script, pytest.raises(EvidenceError, match="broke off"):
        gather(script.url, 3600.0, END)


def test_a_server_that_dies_half_way_says_how_far_it_came(gather: Gather) -> None:
    def dies(asked: Asked) -> Reply | None:
        return Reply(b"bad gateway", 502, "text/plain") if "finished_reason" in asked.query else None

    with scripted(Script([dies])) as script, pytest.raises(EvidenceError, match=r"it had answered \d+ queries before"):
        gather(script.url, 3600.0, END)


def test_a_slow_server_is_a_timeout_of_the_whole_query() -> None:
    def slow(asked: Asked) -> Reply | None:
        time.sleep(1.0)
        return None

    with scripted(Script([slow])) as script, Client(Transport(timeout_seconds=0.2)) as client:
        begin = time.monotonic()
        with pytest.raises(LimitError, match=r"0\.2 s"):
            MetricsServer(client, script.url).instant("up", END)
        assert time.monotonic() - begin < 0.9


def test_clock_skew_is_said_and_the_servers_clock_ends_the_window(gather: Gather) -> None:
    ahead = time.time() + 600

    def skewed(asked: Asked) -> Reply | None:
        reply = script.usual(asked)
        return Reply(reply.body, reply.status, reply.content_type, {"Date": formatdate(ahead, usegmt=True)})

    script = Script([skewed])
    with scripted(script):
        window = gather(script.url, 3600.0, None)
    assert any("clock is" in w and "ahead" in w for w in window.warnings)
    # A minute before now, so that what the server shows late is not missed.
    assert window.end == pytest.approx(ahead - 60, abs=5)


def test_an_end_in_the_future_is_a_mistake(gather: Gather) -> None:
    with scripted(Script()) as script, pytest.raises(UsageError, match="lies in the future"):
        gather(script.url, 3600.0, time.time() + 3600)


def test_a_router_alone_is_refused(gather: Gather) -> None:
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    with scripted(Script(names=names)) as script, pytest.raises(EvidenceError, match="have the workers scraped"):
        gather(script.url, 3600.0, END)


def test_match_is_in_every_query_and_cannot_break_out(gather: Gather) -> None:
    with scripted(Script()) as script:
        gather(script.url, 3600.0, END, match='{namespace="l\\"} or vector(1) #",team=~"a|b"}')
    texts = [a.query for a in script.asked if "vllm:" in a.query]
    assert texts
    assert all('namespace="l\\"} or vector(1) #",team=~"a|b"' in t for t in texts)


def test_native_histograms_are_read(gather: Gather) -> None:
    """Form of a native histogram in the HTTP API: querying/api.md, "Native histograms"."""
    names = (*Script().names, "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds")
    native = {"count": "100", "sum": "40", "buckets": [[0, "0.25", "0.5", "90"], [0, "0.5", "1", "10"]]}

    def histograms(asked: Asked) -> Reply | None:
        if "_time_seconds" in asked.query and asked.path.endswith("/query") and "increase" in asked.query:
            body = (
                '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"model_name":"tiny"},'
                f'"histogram":[{END},{{"count":"{native["count"]}","sum":"{native["sum"]}",'
                '"buckets":[[0,"0.25","0.5","90"],[0,"0.5","1","10"]]}]}]}}'
            )
            return Reply(body.encode())
        return None

    with scripted(Script([histograms], names=names)) as script:
        readings = readings_of(gather(script.url, 3600.0, END))
    assert readings["prefill_seconds"]["value"] == 40
    assert readings["mean_prefill_seconds"]["value"] == pytest.approx(0.4)
    # Both sums are 40, so each is half.
    assert readings["prefill_share"]["value"] == pytest.approx(0.5)
    assert readings["prefill_time_seconds"]["p50"]["low"] == 0.25
    assert readings["prefill_time_seconds"]["p50"]["high"] == 0.5
    assert not any("_bucket" in a.query for a in script.asked)


def test_secrets_do_not_reach_a_window(gather: Gather) -> None:
    with scripted(Script()) as script:
        url = script.url.replace("http://", "http://user:hunter2@")
        window = gather(url, 3600.0, END, transport=Transport())
    assert "hunter2" not in repr(window)


def test_queries_are_spaced_and_few_at_a_time() -> None:
    running, most = [0], [0]

    def slow(asked: Asked) -> Reply | None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.03)
        running[0] -= 1
        return None

    with scripted(Script([slow])) as script, Client(Transport()) as client:
        server = MetricsServer(client, script.url, concurrency=3, queries_per_second=100.0)
        begin = time.monotonic()
        server.map(lambda i: server.instant(f"up{i}", END), list(range(21)))
        elapsed = time.monotonic() - begin
    assert most[0] <= 3
    # 21 starts, 10 ms apart at least.
    assert elapsed >= 0.2


LONG = error(422, "422", "too long query; got 17278 bytes; mustn't exceed `-search.maxQueryLen=16384` bytes")


def test_a_query_longer_than_the_server_reads_is_not_cut_into_ranges(gather: Gather) -> None:
    def long(asked: Asked) -> Reply | None:
        return LONG if "finished_reason" in asked.query and asked.path.endswith("/query") else None

    with scripted(Script([long])) as script, pytest.raises(EvidenceError, match="Shorten --match"):
        gather(script.url, 3600.0, END)
    assert not any("[1800s]" in a.query for a in script.asked)


def test_first_values_that_cannot_be_asked_for_are_named(gather: Gather) -> None:
    def long(asked: Asked) -> Reply | None:
        if "by (series)" in asked.query:
            return vector(({"series": "vllm:prompt_tokens_total"}, 1))
        return LONG if "min_over_time(vllm:prompt_tokens_total" in asked.query else None

    with scripted(Script([long])) as script:
        window = gather(script.url, 3600.0, END)
    assert any("for prompt_tokens: these are the least there was" in w for w in window.warnings)
    assert readings_of(window)["prompt_tokens"]["value"] == 1000
