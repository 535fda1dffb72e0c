"""Where evidence comes from: the inputs that audit, gate, nightly and collect share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.options import DURATION, complete_files, option, read_boot_facts, read_settings
from auditor.model import UsageError

if TYPE_CHECKING:
    from auditor.collect import Inputs
    from auditor.http import Transport
    from auditor.model import Window


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
            option("--timeout", type=DURATION, default="10s", show_default=True, help="The whole of one scrape or query."),
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
            option("--seconds", type=click.FloatRange(0, min_open=True), metavar="N", help="Distance of the two pages."),
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


def read_transport(values: Mapping[str, Any]) -> Transport:
    from auditor.http import Transport

    headers = []
    for text in values.get("header") or ():
        name, sign, value = text.partition(":")
        if not sign or not name.strip():
            raise UsageError(f"--header needs NAME:VALUE, got {name.strip()!r} without a colon")
        headers.append((name.strip(), value.strip()))
    if values.get("insecure"):
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
        times=tuple(read_times(values["times"])) if values.get("times") else (),
        window_seconds=values.get("window"),
        seconds=values.get("seconds"),
        prometheus=values.get("prometheus"),
        end=moment(values["end"]) if values.get("end") else None,
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
        UsageError: neither of them.
    """
    from datetime import UTC, datetime

    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time; write 2026-11-29T19:00:00Z or unix seconds") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def gather(values: Mapping[str, Any], *, judged: bool = True) -> Window:
    """Collect the window of a command line, with progress on stderr.

    Args:
        judged: a report will be made of it, so what that needs is imported while a metrics server is waited for.
    """
    from auditor.collect import collect

    inputs = read_inputs(values)
    if judged and inputs.prometheus is not None:
        Thread(target=_import_meanwhile).start()
    return collect(inputs, say=warn)


def _import_meanwhile() -> None:
    # What cannot be imported fails where it is used, with its name.
    with suppress(ImportError):
        for name in ("auditor.pipeline", "auditor.measures.frame"):
            import_module(name)


def warn(text: str) -> None:
    """A line on stderr: progress, warnings and the closing line go there, never to stdout."""
    click.echo(f"auditor: {text}", file=sys.stderr)


def is_file(path: str) -> bool:
    return Path(path).is_file()
