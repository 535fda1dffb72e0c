"""Pages of docs/ that are made from where their words are used: audits, levers, readings, flags."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from auditor.audits import load_audits
from auditor.explaining import EXIT_CODES, PRECEDENCE_TEXT, STATES
from auditor.levers import load_levers
from auditor.measures.flags import ELSEWHERE, FLAGS, flag_text
from auditor.measures.readings import READINGS

HEAD = "<!-- Made by python -m tests.generated from the program's own docstrings; edit those. -->\n"


def reference_pages() -> Mapping[str, str]:
    """Path -> text of each page."""
    return {
        "docs/audits.md": "\n".join(_audits()) + "\n",
        "docs/levers.md": "\n".join(_levers()) + "\n",
        "docs/readings.md": "\n".join(_readings()) + "\n",
    }


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _headings(text: str) -> str:
    """The fixed headings of a docstring in bold."""
    out = []
    for paragraph in text.split("\n\n"):
        head, colon, rest = paragraph.partition(":")
        known = colon and len(head) < 30 and "\n" not in head and head[:1].isupper()
        out.append(f"**{head}.** {rest.strip()}" if known else paragraph)
    return "\n\n".join(out)


def _audits() -> Iterator[str]:
    yield "# Audits\n"
    yield HEAD
    yield "One premise each. `auditor explain NAME` adds the series of each engine and a worked example.\n"
    yield "| audit | question on a screen |"
    yield "|---|---|"
    for name, module in load_audits().items():
        yield f"| [`{name}`](#{name}) | {_cell(module.QUESTION)} |"
    for name, module in load_audits().items():
        title, _, rest = (module.__doc__ or "").strip().partition("\n")
        yield f"\n## {name}\n"
        yield f"{title}\n"
        yield _headings(rest.strip())
        yield "\nRests on: " + ", ".join(f"`{need}`" for need in module.NEEDS)


def _levers() -> Iterator[str]:
    yield "# Levers\n"
    yield HEAD
    yield (
        "One thing an operator can change each. A ceiling is the most a lever can gain in request service time, never "
        "a promise; how it is found and how far it can be believed stands in [ceilings.md](ceilings.md).\n"
    )
    for name, function in load_levers().items():
        title, _, rest = (sys.modules[function.__module__].__doc__ or "").strip().partition("\n")
        yield f"## {name}\n"
        yield f"{title}\n"
        yield _headings(rest.strip()) + "\n"


def _readings() -> Iterator[str]:
    yield "# Readings, states, flags\n"
    yield HEAD
    yield "D marks a distribution: exact mean and count, quantiles with the bucket they lie in.\n"
    theme = ""
    for declared in READINGS.values():
        if declared.theme != theme:
            theme = declared.theme
            yield f"\n## {theme.replace('_', ' ')}\n"
            yield f"{declared.theme_text}\n"
            yield "| reading | unit | what |"
            yield "|---|---|---|"
        mark = " D" if declared.distribution else ""
        yield f"| `{declared.name}`{mark} | {_cell(declared.unit)} | {_cell(declared.text)} |"
    yield "\n## States\n"
    yield "| state | meaning |"
    yield "|---|---|"
    for name, text in STATES.items():
        yield f"| `{name}` | {_cell(text)} |"
    yield "\n## Flags\n"
    yield "| flag | set when |"
    yield "|---|---|"
    for name in (*FLAGS, *ELSEWHERE):
        yield f"| `{name}` | {_cell(flag_text(name))} |"
    yield "\n## Exit codes\n"
    yield "| code | meaning | who acts |"
    yield "|---|---|---|"
    for code, text, who in EXIT_CODES:
        yield f"| {code} | {_cell(text)} | {who} |"
    yield f"\n{PRECEDENCE_TEXT}"
