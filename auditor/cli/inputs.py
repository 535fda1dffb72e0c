"""Where evidence comes from: the inputs that audit, gate, nightly and collect share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.options import DURATION, WAIT, Number, complete_files, option, read_boot_facts, read_settings
from auditor.model import UsageError

if TYPE_CHECKING:
    from auditor.collect import Inputs
    from auditor.http import Transport
    from auditor.model import Window

LATEST = 7_258_118_400.0
"""2200-01-01: what lies outside 1970 to then is no time of a scrape, and some of it no clock can show."""


def transport_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How to talk: credentials by file, deadline, size."""
    for decorate in reversed(
        (
            option("--header", multiple=True, metavar="NAME:VALUE", help="Sent with every request: a tenant, for example."),
            option("--token-file", type=click.Path(), metavar="FILE", help="Bearer token, read from a file."),
            option("--basic-auth-file", type=click.Path(), metavar="FILE", help="user:password, read from a file."),
            option("--ca-cert", type=click.Path(), metavar="FILE", help="Certificate authority to trust."),
            option("--client-cert", type=click.Path(), metavar="FILE", help="Client certificate and key in one PEM file."),
            option("--insecure", is_flag=True, help="Do not verify TLS certificates (said aloud)."),
            option("--timeout", type=WAIT, default="10s", show_default=True, help="The whole of one scrape or query."),
            option("--max-body", type=click.IntRange(1), default=64 * 2**20, show_default=True, metavar="BYTES",
                   help="Largest body, after decompression."),
            option("--allow-redirects", is_flag=True, help="Follow redirects to another host."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


def input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """TARGET..., saved pages, a series, or a metrics server."""
    for decorate in reversed(
        (
            click.argument("targets", nargs=-1, metavar="TARGET...", shell_complete=complete_files),
            option("--targets", "targets_file", type=click.Path(), metavar="FILE", envvar="AUDITOR_TARGETS",
                   help="Targets, one a line, or Prometheus file_sd JSON or YAML."),
            option("--window", type=DURATION, metavar="60s", help="Two scrapes and the time between; with --prometheus, how far back."),
            option("--before", type=click.Path(), metavar="PAGE", help="The earlier of two saved pages of one target."),
            option("--seconds", type=Number(0, min_open=True), metavar="N", help="Distance of the two pages."),
            option("--series", is_flag=True, help="The targets are pages of one server in time order (.gz too)."),
            option("--every", type=DURATION, metavar="2s", help="Distance of the pages of a series."),
            option("--times", type=click.Path(), metavar="FILE", help="JSON list of unix seconds, one a page."),
            option("--expand-dns", is_flag=True, help="Take each address of a name as a target."),
            option("--prometheus", metavar="URL", help="Ask a Prometheus, Thanos, Mimir or VictoriaMetrics instead."),
            option("--end", metavar="T", help="End of the window: RFC 3339 or unix seconds; now by default."),
            option("--match", metavar="SELECTOR", help="Only these series: '{namespace=\"llm\"}'."),
            option("--exact", is_flag=True, help="Raw samples and our own differences, for small selections."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return transport_options(function)


def read_transport(values: Mapping[str, Any], *, aloud: bool = True) -> Transport:
    from auditor.http import Transport

    headers = []
    for text in values.get("header") or ():
        name, sign, value = text.partition(":")
        if not sign or not name.strip():
            raise UsageError(f"--header needs NAME:VALUE, got {name.strip()!r} without a colon")
        headers.append((name.strip(), value.strip()))
    if values.get("insecure") and aloud:
        warn("TLS certificates are not verified (--insecure)")
    return Transport(
        timeout_seconds=values["timeout"],
        max_body_bytes=values["max_body"],
        headers=tuple(headers),
        token_file=values.get("token_file"),
        basic_auth_file=values.get("basic_auth_file"),
        ca_cert=values.get("ca_cert"),
        client_cert=values.get("client_cert"),
        insecure=bool(values.get("insecure")),
        allow_redirects=bool(values.get("allow_redirects")),
    )


def gather_targets(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The targets of a command line: those written there, and those of --targets FILE."""
    targets = tuple(values.get("targets") or ())
    if values.get("targets_file"):
        from auditor.sources.target_lists import read_targets

        targets += read_targets(values["targets_file"])
    return targets


def read_inputs(values: Mapping[str, Any]) -> Inputs:
    """The inputs of a command line.

    Raises:
        UsageError: options that do not go together.
    """
    from auditor.collect import Inputs
    from auditor.sources.files import read_times

    targets = gather_targets(values)
    if values.get("every") and values.get("times"):
        raise UsageError("--every and --times both say when pages were taken; give one of them")
    series = targets if values.get("series") else ()
    return Inputs(
        targets=() if series else targets,
        before=values.get("before"),
        series=series,
        every_seconds=values.get("every"),
        times=_scrape_times(values["times"], read_times(values["times"])) if values.get("times") else (),
        window_seconds=values.get("window"),
        seconds=values.get("seconds"),
        prometheus=values.get("prometheus"),
        end=moment(values["end"]) if values.get("end") is not None else None,
        match=values.get("match"),
        exact=bool(values.get("exact")),
        expand_dns=bool(values.get("expand_dns")),
        transport=read_transport(values),
        settings=read_settings(values),
        extra={"by": values.get("by", "model")},
        facts=read_boot_facts(values),
    )


def moment(text: str) -> float:
    """Unix seconds of an RFC 3339 time or a plain number.

    Raises:
        UsageError: neither of them, or a time at which nothing was scraped.
    """
    from datetime import UTC, datetime

    try:
        found = float(text)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(f"{text!r} is no time; write 2026-11-29T19:00:00Z or unix seconds") from None
        found = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if not 0 <= found < LATEST:
        raise UsageError(f"{text!r} is no time between 1970 and 2200; write 2026-11-29T19:00:00Z or unix seconds")
    return found


def _scrape_times(path: str, times: Sequence[float]) -> tuple[float, ...]:
    if not all(0 <= at < LATEST for at in times):
        raise UsageError(f"{path}: holds a time that does not lie between 1970 and 2200; unix seconds are needed")
    return tuple(times)


def gather(values: Mapping[str, Any], *, judged: bool = True) -> Window:
    """Collect the window of a command line, with progress on stderr."""
    return gather_inputs(read_inputs(values), judged=judged)


def gather_inputs(inputs: Inputs, *, judged: bool = True) -> Window:
    """The same for inputs that were read already: standard input and pipes can be read once only.

    Args:
        judged: a report will be made of it, so what that needs is imported while a metrics server is waited for.
    """
    from auditor.collect import collect

    meanwhile = judged and inputs.prometheus is not None
    return collect(inputs, say=_Meanwhile() if meanwhile else warn)


class _Meanwhile:
    """Says what it is told. The first word comes when a metrics server has answered, and imports begin then."""

    def __init__(self) -> None:
        self._begun = False

    def __call__(self, text: str) -> None:
        if not self._begun:
            self._begun = True
            # No thread to be had: what is needed is imported where it is used, only later.
            with suppress(RuntimeError):
                Thread(target=_import_meanwhile).start()
        warn(text)


def _import_meanwhile() -> None:
    # What cannot be imported, for whatever reason, fails where it is used, with its name.
    with suppress(Exception):
        for name in ("auditor.pipeline", "auditor.measures.frame"):
            import_module(name)


def warn(text: str) -> None:
    """A line on stderr: progress, warnings and the closing line go there, never to stdout."""
    click.echo(f"auditor: {text}", file=sys.stderr)
