"""Start-up and exit codes only: imports nothing heavy, maps every way to end to a code.

0 a report, 1 broken, 2 the caller's mistake, 3 undecided or failed evidence, 4 a fault of ours or an output that could
not be written, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

INTERNAL, USAGE, INTERRUPTED, TERMINATED = 4, 2, 130, 143


class Terminated(BaseException):
    """SIGTERM arrived."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the program and leave the process with the code of the contract."""
    # numpy's linear algebra would start a thread for each core on import, and nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(sys.argv[1:] if argv is None else list(argv))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except (OSError, ValueError) as error:
        code = _say(f"standard output could not be written: {getattr(error, 'strerror', None) or error}", INTERNAL)
    # Whoever closed our pipe must not make the interpreter complain about it at exit.
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
    # On its way out the interpreter would look through everything for cycles once more, only to free it.
    gc.freeze()
    sys.exit(code)


def _on_term(number: int, frame: FrameType | None) -> None:
    raise Terminated


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    with contextlib.suppress(ValueError):  # not in the main thread: whoever embeds us keeps its own handler
        signal.signal(signal.SIGTERM, _on_term)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        return _dispatch(argv)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except Terminated:
        return _say("terminated", TERMINATED)
    except BrokenPipeError:
        from auditor.cli.ending import earned

        return earned()
    except MemoryError:
        return _say("out of memory", INTERNAL)
    except Exception as fault:  # noqa: BLE001  (the last line of defence: every fault gets a code and a sentence)
        return _fault(fault)


def _dispatch(argv: list[str]) -> int:
    if argv == ["--version"]:
        from auditor import __version__

        print(f"premise-auditor {__version__}")  # noqa: T201  (the fast path of --version)
        return 0
    import click

    from auditor.cli import auditor as program

    try:
        if "_AUDITOR_COMPLETE" in os.environ:
            program.main(args=argv, prog_name="auditor")
        # Not program.main: it ends a closed pipe with sys.exit(1), which would say that a premise is broken.
        with program.make_context("auditor", list(argv)) as context:
            result = program.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.Abort:
        return _say("interrupted", INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        hint = f" ({where.command_path} --help)" if where is not None and where.parent else ""
        return _say(f"{error.format_message()}{hint}", USAGE)
    return result if isinstance(result, int) else 0


def _fault(fault: Exception) -> int:
    from auditor.model import AuditorError

    if isinstance(fault, AuditorError):
        return _say(str(fault), fault.exit_code)
    if os.environ.get("AUDITOR_DEBUG"):
        import traceback

        traceback.print_exc()
    if isinstance(fault, OSError):
        return _say(f"could not write: {fault.strerror or fault}", INTERNAL)
    return _say(
        f"internal error: {type(fault).__name__}: {fault} (set AUDITOR_DEBUG=1 for the trace; please report it)",
        INTERNAL,
    )


def _say(sentence: str, code: int) -> int:
    try:
        sys.stderr.write(f"auditor: {sentence}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    return code
