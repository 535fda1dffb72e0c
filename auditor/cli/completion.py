"""``auditor completion SHELL``: the script that lets a shell complete commands, options and names."""

from __future__ import annotations

import click

from auditor.cli.writing import write_stdout

VARIABLE = "_AUDITOR_COMPLETE"
"""What the script sets when it asks the program for completions; ``entry.py`` looks for it."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print a completion script for bash, zsh or fish.

    \b
    bash, in ~/.bashrc:                  eval "$(auditor completion bash)"
    zsh, in ~/.zshrc, after compinit:    eval "$(auditor completion zsh)"
    fish:    auditor completion fish > ~/.config/fish/completions/auditor.fish
    """
    from click.shell_completion import get_completion_class

    from auditor.cli import auditor as program

    found = get_completion_class(shell)
    assert found is not None
    completer = found(program, {}, "auditor", VARIABLE)
    # Not completer.source(): for bash it runs bash to look at its version, and complains where there is none.
    write_stdout(completer.source_template % completer.source_vars() + "\n")
    return 0
