"""The store: one SQLite file, one row a reading and verdict, whole runs or nothing.

SQLite's rollback journal keeps a run whole through ``kill -9`` and a full disk; its lock keeps two cron jobs apart.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from auditor.history.rows import (
    SEVERITIES,
    TARGET_STATES,
    VERDICTS,
    fact_rows,
    labels_key,
    reading_rows,
    run_row,
)
from auditor.history.schema import ForeignFileError, NewerStoreError, migrate, version_of
from auditor.model import OutputError, UsageError

WAIT_SECONDS = 60.0
"""How long a second cron job waits for the first one to let go of the store."""


def open_store(path: str, *, create: bool = False, wait_seconds: float = WAIT_SECONDS) -> Store:
    """Open a store, migrating it to the latest layout; with ``create`` a new one is made where there is none.

    Raises:
        UsageError: there is no such file, and none shall be made.
        OutputError: it cannot be opened, is no store of ours, or is of a newer release.
    """
    if not create and not Path(path).exists():
        raise UsageError(f"{path}: there is no history here; auditor nightly --store {path} begins one")
    with _failures(path):
        # The absolute path as a URI: a name that begins with "file:" stays a name.
        connection = sqlite3.connect(
            Path(path).absolute().as_uri(), uri=True, timeout=wait_seconds, isolation_level=None
        )
        try:
            connection.execute("PRAGMA synchronous = FULL")
            migrate(connection)
        except BaseException:
            connection.close()
            raise
    return Store(path, connection)


@contextmanager
def _failures(path: str) -> Iterator[None]:
    """Turn what SQLite says into one sentence with the path."""
    try:
        yield
    except ForeignFileError:
        raise OutputError(f"{path}: an SQLite database of something else; it was left alone") from None
    except NewerStoreError as error:
        raise OutputError(f"{path}: the history was written by a newer release ({error}); it was left alone") from None
    except sqlite3.Error as error:
        raise OutputError(f"{path}: the history {_say(error)}") from None


def _say(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return "could not be written: the disk is full; the nights before are kept"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "is in use by another run, which did not let go in time; nothing was written"
    if name.startswith("SQLITE_READONLY"):
        return "cannot be written: it or its folder is read-only"
    if name.startswith("SQLITE_NOTADB"):
        return "cannot be read: the file is no history store"
    if name.startswith("SQLITE_CORRUPT"):
        return "cannot be read: the file is damaged; restore a copy, or move it away to begin a new one"
    if name.startswith("SQLITE_CANTOPEN"):
        return "cannot be opened: is there a folder for it, and is its name no folder?"
    if name.startswith("SQLITE_IOERR"):
        return "could not be written or read: the disk failed; the nights before are kept"
    return f"could not be used: {error}"


class Store:
    """An open store. A context manager; every method that writes is one transaction."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def version(self) -> int:
        return version_of(self._connection)

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Rows of a question.

        Raises:
            OutputError: the store cannot be read.
        """
        with _failures(self.path), closing(self._connection.execute(sql, values)) as cursor:
            return cursor.fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it or nothing."""
        with _failures(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk has rolled back by itself already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def append(self, document: Mapping[str, Any], *, end: float, ran: float) -> int:
        """Keep a report; returns the number of its run.

        Args:
            document: an audit's report.
            end: unix seconds at which its window ended; nights are ordered by it.
            ran: unix seconds at which it was made.

        Raises:
            OutputError: it could not be written; the store is as before.
        """
        row = run_row(document, end=end, ran=ran)
        with self._writing() as connection:
            names = ", ".join(f'"{k}"' for k in row)
            marks = ", ".join("?" for _ in row)
            cursor = connection.execute(f"INSERT INTO run ({names}) VALUES ({marks})", tuple(row.values()))
            run = int(cursor.lastrowid or 0)
            word = _word_maker(connection)
            for target in document.get("targets", ()):
                connection.execute(
                    "INSERT OR REPLACE INTO target VALUES (?, ?, ?, ?)",
                    (run, word(target["address"]), TARGET_STATES.index(target["state"]), word(target["reason"])),
                )
            for subject in document["subjects"]:
                _append_subject(connection, run, document, subject, word)
        return run

    def prune(self, before: float) -> int:
        """Forget runs whose window ended before that moment; returns how many.

        Raises:
            OutputError: it could not be written; the store is as before.
        """
        with self._writing() as connection:
            gone = [r[0] for r in connection.execute('SELECT id FROM run WHERE "end" < ?', (before,))]
            connection.execute("CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY)")
            connection.execute("DELETE FROM gone")
            connection.executemany("INSERT INTO gone VALUES (?)", [(i,) for i in gone])
            for table in ("reading", "verdict", "fact", "presence", "target"):
                connection.execute(f"DELETE FROM {table} WHERE run IN (SELECT id FROM gone)")
            connection.execute("DELETE FROM run WHERE id IN (SELECT id FROM gone)")
            for statement in _UNUSED:
                connection.execute(statement)
        if gone:
            # Gives the space back; needs room of its own, so a full disk only leaves the file as large as it was.
            try:
                self._connection.execute("VACUUM")
            except sqlite3.OperationalError:
                return len(gone)
        return len(gone)


_UNUSED = (
    "DELETE FROM subject WHERE id NOT IN (SELECT subject FROM presence)",
    "DELETE FROM series WHERE id NOT IN (SELECT series FROM reading)",
    """DELETE FROM word WHERE id NOT IN (
       SELECT reason FROM reading WHERE reason IS NOT NULL UNION SELECT audit FROM verdict
       UNION SELECT flags FROM presence UNION SELECT address FROM target
       UNION SELECT reason FROM target WHERE reason IS NOT NULL
       UNION SELECT name FROM fact UNION SELECT value FROM fact)""",
)
"""What nothing speaks of any more after old runs were forgotten."""

Word = Callable[[str | None], int | None]


def _word_maker(connection: sqlite3.Connection) -> Word:
    """A function that keeps each text once and gives its number."""

    @cache
    def word(text: str | None) -> int | None:
        if text is None:
            return None
        found = connection.execute("SELECT id FROM word WHERE text = ?", (text,)).fetchone()
        if found is not None:
            return int(found[0])
        return int(connection.execute("INSERT INTO word (text) VALUES (?)", (text,)).lastrowid or 0)

    return word


def _append_subject(
    connection: sqlite3.Connection, run: int, document: Mapping[str, Any], subject: Mapping[str, Any], word: Word
) -> None:
    key = labels_key(subject["labels"])
    connection.execute("INSERT OR IGNORE INTO subject (labels) VALUES (?)", (key,))
    number = int(connection.execute("SELECT id FROM subject WHERE labels = ?", (key,)).fetchone()[0])
    connection.execute("INSERT INTO presence VALUES (?, ?, ?)", (run, number, word(" ".join(subject["flags"]))))
    known = dict(connection.execute("SELECT name, id FROM series WHERE subject = ?", (number,)).fetchall())
    rows = []
    for row in reading_rows(subject):
        series = known.get(row.name)
        if series is None:
            cursor = connection.execute(
                "INSERT INTO series (subject, name, unit) VALUES (?, ?, ?)", (number, row.name, row.unit)
            )
            series = known[row.name] = int(cursor.lastrowid or 0)
        rows.append((series, run, row.state, *row.numbers, word(row.reason)))
    connection.executemany("INSERT INTO reading VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.executemany(
        "INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                number,
                word(name),
                run,
                VERDICTS.index(v["verdict"]),
                SEVERITIES.index(v["severity"]),
                str(v["found"])[:200],
            )
            for name, v in subject["audits"].items()
        ],
    )
    connection.executemany(
        "INSERT INTO fact VALUES (?, ?, ?, ?)",
        [(number, word(name), run, word(value)) for name, value in dict(fact_rows(document, subject)).items()],
    )


def decode_labels(text: str) -> dict[str, Any]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}
