"""``auditor explain NAME``: what a word in the report means, where its figures come from, and a worked example."""

from __future__ import annotations

import click

from auditor.cli.writing import screen_options, write_stdout
from auditor.model import UsageError

NARROW, WIDE = 60, 100


def complete_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from auditor.explaining import known_names, right_name

    start = right_name(incomplete)
    return [name for name in known_names() if name.startswith(start)]


@click.command("explain")
@click.argument("name", shell_complete=complete_names)
def command(name: str) -> int:
    """Explain an audit, lever, reading, flag, the exit codes, or a word for a state or verdict.

    \b
    auditor explain time-split
    auditor explain prefix_hit_share
    auditor explain exit-codes
    """
    from auditor.explaining import explain, known_names, right_name

    right = right_name(name)
    if right not in known_names():
        import difflib

        near = difflib.get_close_matches(right, known_names(), 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else "auditor list audits (levers, readings, flags) shows the names"
        raise UsageError(f"there is nothing called {name!r} to explain; {hint}")
    width = screen_options({}).width
    write_stdout(explain(right, width=max(NARROW, min(WIDE, width))))
    return 0
