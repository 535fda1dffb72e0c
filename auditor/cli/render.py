"""``auditor render``: a saved report in another format."""

from __future__ import annotations

from typing import Any

import click

from auditor.cli.options import complete_files
from auditor.cli.writing import write_results, writing_options
from auditor.model import SCHEMA, EvidenceError, UsageError


@click.command("render")
@click.argument("report", metavar="report.json", shell_complete=complete_files)
@writing_options
def command(report: str, **values: Any) -> int:
    """Show a saved report again, in any format. Reports of every schema ever written are read."""
    from auditor.sources.files import as_saved_document, read_file

    document = as_saved_document(read_file(report))
    if document is None:
        raise EvidenceError(f"{report}: is no saved report (JSON with schema and kind)")
    if document["kind"] == "window":
        raise UsageError(f"{report}: is a saved window; auditor audit {report} makes a report of it")
    if not isinstance(document["schema"], int) or document["schema"] > SCHEMA:
        raise EvidenceError(
            f"{report}: written by a newer release (schema {document['schema']}); this one reads {SCHEMA}"
        )
    write_results({**document, "exit_code": 0} if values["as_"] == "terminal" else document, values)
    return 0
