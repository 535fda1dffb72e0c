"""``auditor list``: what there is."""

from __future__ import annotations

from collections.abc import Iterator

import click

from auditor.cli.writing import write_stdout

KINDS = ("audits", "levers", "readings", "flags", "engines", "outputs")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
def command(kind: str) -> int:
    """List audits, levers, readings (D marks a distribution), flags, engines or outputs."""
    rows = list(_rows(kind))
    width = max((len(name) for name, _ in rows), default=0)
    write_stdout("".join(f"{name:<{width}}  {text}\n" for name, text in rows))
    return 0


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n", 1)[0]


def _rows(kind: str) -> Iterator[tuple[str, str]]:
    if kind == "audits":
        from auditor.audits import load_audits

        for name, module in load_audits().items():
            yield name, _first_line(module.__doc__)
    elif kind == "levers":
        from auditor.levers import load_levers

        for name, function in load_levers().items():
            import sys

            yield name, _first_line(sys.modules[function.__module__].__doc__)
    elif kind == "readings":
        from auditor.measures.readings import READINGS

        for declared in READINGS.values():
            mark = "D " if declared.distribution else "  "
            yield declared.name, f"{mark}{declared.unit}: {declared.headline}"
    elif kind == "flags":
        from auditor.measures.flags import ELSEWHERE, FLAGS, flag_text

        for name in (*FLAGS, *ELSEWHERE):
            yield name, _first_line(flag_text(name))
    elif kind == "engines":
        from auditor.measures.vocabulary import load_vocabulary

        for engine in load_vocabulary().engines:
            yield engine.name, f"{engine.title} {engine.releases}: {len(engine.quantities)} quantities"
        for refusal in load_vocabulary().refusals:
            yield refusal.title, f"known, not audited: {refusal.reason}"
    else:
        from auditor.outputs import load_outputs

        for name in load_outputs():
            yield name, ""
