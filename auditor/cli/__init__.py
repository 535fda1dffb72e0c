"""One file a command, found by name and imported when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil

import click

from auditor import __version__

HELPERS = {"ending", "handover", "inputs", "options", "writing"}


class Commands(click.Group):
    """A group whose commands are the modules of this folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in HELPERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{__name__}.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.list_commands(ctx):
            from auditor.cli.options import nearest

            near = nearest(name, self.list_commands(ctx), 0.6)
            hint = f"; did you mean {near}?" if near else "."
            raise click.UsageError(f"there is no command {name!r}{hint} See auditor --help.")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="premise-auditor %(version)s")
def auditor() -> None:
    """Check the premise before anyone tunes an LLM inference engine.

    Reads an engine's own metrics and says which beliefs behind a tuning effort hold, which are broken, and which nobody
    can tell from this data. Exit codes: auditor explain exit-codes.
    """
