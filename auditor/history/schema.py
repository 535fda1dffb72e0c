"""Layout of the store and how older layouts become this one.

One step a version, each inside one transaction: a store is of the old layout or of the new one, never between.
Words (names, labels, reasons) are kept once; a row of a reading is then about 40 bytes.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x70724175
"""Marks an SQLite file as ours (``prAu``), so that nobody else's database is written to."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
        # end and ran are unix seconds; "end" is when the window ended, "ran" when the run was made.
        """CREATE TABLE run (id INTEGER PRIMARY KEY, "end" REAL NOT NULL, start REAL, ran REAL NOT NULL,
           kind TEXT NOT NULL, seconds REAL, coverage REAL NOT NULL, restarts INTEGER NOT NULL,
           exit_code INTEGER NOT NULL, tool TEXT NOT NULL, source TEXT NOT NULL, notes TEXT NOT NULL)""",
        'CREATE INDEX run_by_end ON run ("end")',
        "CREATE TABLE subject (id INTEGER PRIMARY KEY, labels TEXT NOT NULL UNIQUE)",
        """CREATE TABLE presence (run INTEGER NOT NULL, subject INTEGER NOT NULL, flags INTEGER NOT NULL,
           PRIMARY KEY (subject, run)) WITHOUT ROWID""",
        """CREATE TABLE series (id INTEGER PRIMARY KEY, subject INTEGER NOT NULL, name TEXT NOT NULL,
           unit TEXT NOT NULL, UNIQUE (subject, name))""",
        """CREATE TABLE reading (series INTEGER NOT NULL, run INTEGER NOT NULL, state INTEGER NOT NULL,
           value REAL, low REAL, high REAL, count REAL, reason INTEGER,
           PRIMARY KEY (series, run)) WITHOUT ROWID""",
        """CREATE TABLE verdict (subject INTEGER NOT NULL, audit INTEGER NOT NULL, run INTEGER NOT NULL,
           verdict INTEGER NOT NULL, severity INTEGER NOT NULL, found TEXT NOT NULL,
           PRIMARY KEY (subject, audit, run)) WITHOUT ROWID""",
        """CREATE TABLE target (run INTEGER NOT NULL, address INTEGER NOT NULL, state INTEGER NOT NULL,
           reason INTEGER, PRIMARY KEY (run, address)) WITHOUT ROWID""",
    ),
    (
        # What the engine said of itself that night: configuration, version, start of the process.
        """CREATE TABLE fact (subject INTEGER NOT NULL, name INTEGER NOT NULL, run INTEGER NOT NULL,
           value INTEGER NOT NULL, PRIMARY KEY (subject, name, run)) WITHOUT ROWID""",
    ),
)
LATEST = len(MIGRATIONS)


class NewerStoreError(Exception):
    """The store was written by a newer release."""


class ForeignFileError(Exception):
    """An SQLite file that is not a store of ours."""


def version_of(connection: sqlite3.Connection) -> int:
    """Layout version; 0 is a new, empty file.

    Raises:
        ForeignFileError: somebody else's database.
        NewerStoreError: a layout that this release does not know.
    """
    # One transaction: another process may be making the store between two of these questions.
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        mark = int(connection.execute("PRAGMA application_id").fetchone()[0])
        filled = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
    finally:
        if alone and connection.in_transaction:
            connection.execute("ROLLBACK")
    if mark != APPLICATION_ID and (filled or version or mark):
        raise ForeignFileError("an SQLite database of something else")
    if version > LATEST:
        raise NewerStoreError(f"layout {version}, this release knows {LATEST}")
    return version


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the store to the latest layout; two processes may try at once."""
    if version_of(connection) == LATEST:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again under the lock: another process may have been faster.
        version = version_of(connection)
        if version == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for step in MIGRATIONS[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {LATEST}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
