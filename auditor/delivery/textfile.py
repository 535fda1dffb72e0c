"""A ``.prom`` file for node_exporter's textfile collector: whole or not at all, as the collector needs it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from auditor.model import OutputError


def write_textfile(path: str, text: str) -> None:
    """Replace ``path`` by a file with this exposition text in one rename.

    Raises:
        OutputError: the name does not end in ``.prom`` (the collector would pass it over in silence), or it could not
            be written.
    """
    target = Path(path)
    if target.suffix != ".prom":
        raise OutputError(f"textfile {path}: the collector reads only names that end in .prom")
    temporary = None
    try:
        # The neighbour's name does not end in .prom, so that a half-written one is never read.
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # node_exporter runs as another user.
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"textfile {path}: could not be written ({error.strerror or error})") from None
