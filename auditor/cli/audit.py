"""``auditor audit``: readings, verdicts and levers of a window."""

from __future__ import annotations

from typing import Any

import click

from auditor.cli.inputs import gather, input_options
from auditor.cli.options import judging_options, read_options
from auditor.cli.writing import write_results, writing_options


@click.command("audit")
@input_options
@judging_options
@writing_options
def command(**values: Any) -> int:
    """Audit one server, a fleet, saved pages, a saved window or a metrics server.

    \b
    auditor audit http://host:8000                    its life so far
    auditor audit http://host:8000 --window 60s       two scrapes
    auditor audit --before t0.prom t1.prom --seconds 600
    auditor audit --series p*.prom --every 2s
    auditor audit --prometheus http://prom:9090 --window 24h
    auditor audit engine.log                          running lines of a log, where nobody scraped
    """
    options = read_options(values)
    window = gather(values)
    from auditor.pipeline import audit_window

    report = audit_window(window, options)
    return write_results(report.to_json(), values)
