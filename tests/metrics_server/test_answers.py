"""Answers that are no answers of a metrics server, said in words."""

from __future__ import annotations

import pytest

from auditor.http import Client, Transport
from auditor.model import EvidenceError
from auditor.sources.prometheus import MetricsServer
from tests.metrics_server.conftest import Gather
from tests.metrics_server.scripted import Asked, Reply, Script, scripted, vector

END = 1_795_900_000.0
VECTOR = b'{"status":"success","data":{"resultType":"vector","result":[%s]}}'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"status":"success","data":null}', "says success and holds no data"),
        (b'{"status":"success"}', "says success and holds no data"),
        (b'{"status":"success","data":[1]}', "says no result type"),
        (b'{"status":"success","data":{"resultType":"string","result":[1,"x"]}}', "'string', not vector"),
        (b'{"status":"success","data":{"resultType":"vector","result":null}}', "its result is no list"),
        (VECTOR % b"null", "a series in it"),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[{"metric":null,"value":[1,"2"]}]}}',
            "a series in",
        ),
        (VECTOR % b'{"metric":{},"value":[1]}', "a series in it"),
        (VECTOR % b'{"metric":{},"value":"x"}', "a series in it"),
    ],
)
def test_an_answer_of_another_form_is_said_in_words(body: bytes, words: str) -> None:
    with (
        scripted(Script([lambda _: Reply(body)])) as script,
        Client(Transport()) as client,
        pytest.raises(EvidenceError) as raised,
    ):
        MetricsServer(client, script.url).instant("up", END)
    said = str(raised.value)
    assert words in said
    assert not any(python in said for python in ("Error", "NoneType", "subscriptable", "unpack", "object"))


def test_warnings_of_another_form_are_warnings_all_the_same(gather: Gather) -> None:
    def odd(asked: Asked) -> Reply | None:
        return (
            vector(({"model_name": "tiny"}, 9), warnings="store-1 is away") if "prompt_tokens" in asked.query else None
        )

    with scripted(Script([odd])) as script:
        assert "store-1 is away" in gather(script.url, 3600.0, END).partial_response


@pytest.mark.parametrize("status", [405, 501])
def test_a_plain_web_server_is_no_metrics_server(gather: Gather, status: int) -> None:
    page = Reply(b"<h1>Unsupported method</h1>", status, "text/html")
    with scripted(Script([lambda _: page])) as script, pytest.raises(EvidenceError) as raised:
        gather(script.url, 3600.0, END)
    said = str(raised.value)
    assert f"answered {status}" in said
    assert "most likely it is no metrics server" in said
    assert "its log" not in said
    assert "?" not in said
