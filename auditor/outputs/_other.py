"""Kinds of document that a format has no form for: their outcome, and their text as a terminal shows it.

A format says in ``KINDS`` what it draws itself; whatever is not among them comes here, so that every saved document has
something to show in every format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from auditor.model import UsageError
from auditor.outputs.text import RenderOptions, safe

WIDTH = 100


def render_other(format_: str, document: Mapping[str, Any]) -> str | bytes:
    """A document of another kind in ``markdown``, ``junit``, ``github`` or ``prometheus``."""
    form = _FORMS.get(format_)
    if form is None:
        raise UsageError(f"{format_} has no form for a {safe(document['kind'])} document")
    return form(document)


def plain_text(document: Mapping[str, Any]) -> str:
    from auditor.outputs import terminal

    return terminal.render(document, RenderOptions(width=WIDTH))


def _title(document: Mapping[str, Any]) -> str:
    return f"auditor {safe(document['kind'])}"


def _markdown(document: Mapping[str, Any]) -> str:
    # Four spaces in front make code of every line, whatever stands in it.
    lines = (f"    {line}".rstrip() for line in plain_text(document).splitlines())
    return f"## {_title(document)}\n\n" + "\n".join(lines) + "\n"


def _junit(document: Mapping[str, Any]) -> bytes:
    from xml.etree import ElementTree

    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    case = TestCase(_title(document), classname="premise-auditor")
    code = document.get("exit_code", 0)
    text = "".join(c for c in plain_text(document) if c in "\n\t" or c >= " ")
    if code == 1:
        case.result = [Failure(message="worse or broken")]
    elif code == 3:
        case.result = [Skipped(message="undecided")]
    case.system_out = text
    suite = TestSuite(_title(document))
    suite.add_testcase(case)
    xml = JUnitXml(name="premise-auditor")
    xml.add_testsuite(suite)
    xml.update_statistics()  # type: ignore[no-untyped-call]
    return bytes(ElementTree.tostring(xml._elem, encoding="utf-8", xml_declaration=True)) + b"\n"


def _github(document: Mapping[str, Any]) -> str:
    level = {1: "error", 3: "warning"}.get(document.get("exit_code", 0), "notice")
    text = plain_text(document).strip()[:4000]
    coded = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    title = _title(document).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{coded}\n"


def _prometheus(document: Mapping[str, Any]) -> bytes:
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    code = Gauge("premise_auditor_exit_code", "Exit code that the run earned.", registry=registry)
    code.set(float(document.get("exit_code", 0)))
    return bytes(generate_latest(registry))


_FORMS: dict[str, Callable[[Mapping[str, Any]], str | bytes]] = {
    "markdown": _markdown,
    "junit": _junit,
    "github": _github,
    "prometheus": _prometheus,
}
