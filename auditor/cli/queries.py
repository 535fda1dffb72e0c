"""``auditor queries``: the PromQL that an audit of a metrics server runs, and rules and a dashboard of the same make."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from auditor.cli.inputs import moment, read_transport, transport_options
from auditor.cli.options import DURATION, option, require_name
from auditor.cli.writing import write_stdout
from auditor.model import UsageError

DAY = 86_400.0
FORMATS = ("promql", "rules", "dashboard")
Listed = tuple[str, str, str, str]


@click.command("queries")
@click.argument("readings", nargs=-1, metavar="READING...")
@option("--engine", metavar="NAME", help="One engine; without --prometheus vllm is taken.")
@option(
    "--as",
    "as_",
    type=click.Choice(FORMATS),
    default="promql",
    show_default=True,
    help="Queries, recording and alert rules (YAML), or a Grafana dashboard (JSON).",
)
@option(
    "--prometheus", metavar="URL", help="Ask this server what it holds, and print exactly what an audit of it runs."
)
@option("--window", type=DURATION, default="24h", show_default=True, help="How far back.")
@option("--end", metavar="T", help="End of the window: RFC 3339 or unix seconds; now by default.")
@option("--match", metavar="SELECTOR", help="Only these series: '{namespace=\"llm\"}'.")
@option(
    "--by",
    type=click.Choice(["model", "rank", "target", "all"]),
    default="model",
    show_default=True,
    help="What makes a subject.",
)
@transport_options  # fmt: skip
def command(readings: tuple[str, ...], as_: str, **values: Any) -> int:
    """Print the queries behind the readings, ready to paste; without names all that an audit runs.

    \b
    auditor queries prefill_share
    auditor queries --prometheus http://prom:9090 --window 24h
    auditor queries --as rules > premise-auditor.yaml
    """
    from auditor.measures.readings import READINGS
    from auditor.measures.vocabulary import load_vocabulary

    vocabulary = load_vocabulary()
    for name in readings:
        require_name(name, tuple(READINGS), "a reading")
    if values["engine"] is not None:
        require_name(values["engine"], tuple(e.name for e in vocabulary.engines), "an engine")
    if as_ != "promql":
        if readings or values["prometheus"]:
            raise UsageError(f"--as {as_} is made for a whole engine; give neither readings nor --prometheus")
        engine = vocabulary.engine(values["engine"] or "vllm")
        if as_ == "rules":
            from auditor.monitoring.rules import render_rules

            write_stdout(render_rules(engine))
        else:
            from auditor.monitoring.dashboard import render_dashboard

            write_stdout(render_dashboard(engine))
        return 0
    listed = _asked(values) if values["prometheus"] else _planned(values)
    write_stdout("\n".join(_chosen(listed, readings, values["engine"])))
    return 0


def _chosen(listed: Iterator[Listed], readings: tuple[str, ...], engine: str | None) -> Iterator[str]:
    from auditor.measures.needs import quantities_of
    from auditor.measures.vocabulary import load_vocabulary

    wanted: dict[str, frozenset[str]] = {}
    for name, quantity, how, text in listed:
        if engine is not None and name != engine:
            continue
        if readings:
            if name not in wanted:
                wanted[name] = quantities_of(readings, load_vocabulary().engine(name))
            if quantity not in wanted[name]:
                continue
        yield f"# {quantity or 'all histograms'}: {how}\n{text}\n"


def _asked(values: dict[str, Any]) -> Iterator[Listed]:
    from auditor.measures.vocabulary import load_vocabulary
    from auditor.ranges import RangeRequest, list_queries

    request = RangeRequest(
        url=values["prometheus"],
        window_seconds=values["window"],
        end=moment(values["end"]) if values["end"] is not None else None,
        match=values["match"],
        by=values["by"],
    )
    yield from list_queries(request, load_vocabulary(), transport=read_transport(values))


def _planned(values: dict[str, Any]) -> Iterator[Listed]:
    """As for a server that holds every declared series under its first form, scraped every 15 s."""
    from auditor.measures.recording import whole_scope
    from auditor.measures.selectors import parse_match
    from auditor.measures.vocabulary import load_vocabulary
    from auditor.ranges import plan_without_server

    engine = load_vocabulary().engine(values["engine"] or "vllm")
    end = moment(values["end"]) if values["end"] is not None else time.time()
    scope = whole_scope(engine, matchers=parse_match(values["match"]), by=values["by"])
    for quantity, how, text in plan_without_server(scope, seconds=values["window"], end=end):
        yield engine.name, quantity, how, text
