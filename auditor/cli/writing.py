"""Where results go: stdout in one format, files in others, and the exit code before either."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from auditor.cli.ending import earn
from auditor.cli.options import option, require_name
from auditor.model import OutputError, UsageError


def complete_formats(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from auditor.outputs import load_outputs

    return [name for name in load_outputs() if name.startswith(incomplete)]


def writing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for decorate in reversed(
        (
            option("--as", "as_", metavar="FORMAT", default="terminal", show_default=True, shell_complete=complete_formats,
                   help="Format on stdout: terminal, json, markdown, html, junit, github, prometheus."),
            option("--output", multiple=True, metavar="FORMAT=PATH", help="Also write this format to a file; repeatable."),
            option("--all", "show_all", is_flag=True, help="The terminal report lists what holds and the evidence too."),
            option("--width", type=click.IntRange(40), envvar="AUDITOR_COLUMNS", help="Columns of the terminal report."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


def write_results(document: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """Write a report in every format asked for; returns its exit code, or 4 where a file could not be written.

    Raises:
        UsageError: an unknown format, before anything is written.
    """
    from auditor.outputs import check_form, load_outputs
    from auditor.outputs.text import RenderOptions

    outputs = load_outputs()
    stdout_format, files = check_outputs(values)
    for name in (stdout_format, *(name for name, _ in files)):
        check_form(str(document.get("kind", "audit")), name)
    code = earn(int(document.get("exit_code", 0)))
    plain = RenderOptions(width=100, colour=False, show_all=bool(values.get("show_all")))
    for name, path in files:
        write_file(path, outputs[name].render(document, plain))
    rendered = outputs[stdout_format].render(document, screen_options(values))
    write_stdout(rendered)
    return code


def check_outputs(values: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """The format of stdout, and formats with their files; called early, it spares a caller the wait for a window.

    Raises:
        UsageError: an unknown format, or no FORMAT=PATH.
    """
    from auditor.outputs import load_outputs

    known = tuple(load_outputs())
    require_name(values["as_"], known, "an output format")
    files = []
    for text in values.get("output") or ():
        name, sign, path = text.partition("=")
        if not sign or not path:
            raise UsageError(f"--output {text!r}: FORMAT=PATH is needed, for example json=report.json")
        require_name(name, known, "an output format")
        files.append((name, path))
    return values["as_"], files


def screen_options(values: Mapping[str, Any]) -> Any:
    """Width and colour of the terminal that stdout is, if it is one."""
    from auditor.outputs.text import RenderOptions

    terminal = sys.stdout.isatty()
    width = values.get("width")
    if width is None:
        width = os.get_terminal_size(sys.stdout.fileno()).columns if terminal else 80
        columns = os.environ.get("COLUMNS", "")
        if columns.isdigit() and int(columns) >= 40:
            width = int(columns)
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return RenderOptions(width=max(40, width), colour=colour, show_all=bool(values.get("show_all")))


def write_stdout(rendered: str | bytes) -> None:
    if isinstance(rendered, bytes):
        sys.stdout.buffer.write(rendered)
        sys.stdout.buffer.flush()
        return
    sys.stdout.write(rendered)
    sys.stdout.flush()


def write_file(path: str, rendered: str | bytes) -> None:
    """Write a file whole or not at all: to a neighbour first, then in one rename. A name that ends in .gz gets gzip.

    Raises:
        OutputError: it could not be written.
    """
    import tempfile

    data = rendered.encode("utf-8", errors="backslashreplace") if isinstance(rendered, str) else rendered
    if path.lower().endswith(".gz"):
        import gzip

        # Without the clock's time the same results give the same bytes.
        data = gzip.compress(data, mtime=0)
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            # A device or a pipe cannot be renamed over; /dev/stdout is the usual one.
            if target.is_dir():
                raise OutputError(f"{path}: is a folder; nothing was written")
            target.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(f"{path}: could not be written ({error.strerror or error})") from None
