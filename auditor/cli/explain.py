"""``auditor explain NAME``: what a word in the report means, where its figures come from, and a worked example."""

from __future__ import annotations

import click

from auditor.cli.options import nearest
from auditor.cli.writing import screen_options, write_stdout
from auditor.model import UsageError

NARROW, WIDE = 60, 100


def complete_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from auditor.explaining import known_names, right_name

    start = right_name(incomplete)
    return [name for name in known_names() if name.startswith(start)]


@click.command("explain")
@click.argument("name", nargs=-1, required=True, shell_complete=complete_names)
def command(name: tuple[str, ...]) -> int:
    """Explain an audit, lever, reading, flag, the exit codes, or any other word of a report.

    \b
    auditor explain time-split
    auditor explain prefix_hit_share
    auditor explain ttft_seconds p90
    auditor explain exit-codes
    """
    from auditor.explaining import explain, is_known, known_names, right_name

    asked = " ".join(name)
    right = right_name(asked)
    if not is_known(right):
        near = nearest(right, known_names(), 0.5)
        hint = f"did you mean {near}?" if near else "auditor list audits (levers, readings, flags) shows the names"
        raise UsageError(f"there is nothing called {asked!r} to explain; {hint}")
    width = screen_options({}).width
    write_stdout(explain(right, width=max(NARROW, min(WIDE, width))))
    return 0
