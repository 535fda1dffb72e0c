"""``auditor render``: a saved report in another format."""

from __future__ import annotations

import sys
from typing import Any

import click

from auditor.cli.options import complete_files
from auditor.cli.writing import write_results, writing_options
from auditor.model import SCHEMA, EvidenceError, UsageError
from auditor.outputs.text import safe

REPORT_KINDS = ("audit", "boots", "compare", "doctor", "history", "step")


def _damages() -> tuple[type[Exception], ...]:
    """What drawing a document ends with whose parts are missing or of another type."""
    jinja2 = sys.modules.get("jinja2")
    plain = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
    return (*plain, jinja2.TemplateError) if jinja2 else plain


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
    if document["kind"] not in REPORT_KINDS:
        raise EvidenceError(f"{report}: is no report of ours (its kind is none of {', '.join(REPORT_KINDS)})")
    if not isinstance(document["schema"], int) or document["schema"] > SCHEMA:
        raise EvidenceError(
            f"{report}: written by a newer release (schema {document['schema']}); this one reads {SCHEMA}"
        )
    try:
        write_results({**document, "exit_code": 0} if values["as_"] == "terminal" else document, values)
    except _damages() as error:
        # Every output draws every report that we ever wrote (tests/html/test_every_report.py): the file is not whole.
        raise EvidenceError(f"{report}: is no whole report ({type(error).__name__}: {safe(error)})") from error
    return 0
