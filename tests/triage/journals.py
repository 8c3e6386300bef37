"""Journals that are not as this program writes them: of earlier versions, or damaged."""

import sqlite3
from contextlib import closing
from pathlib import Path

from rsmq_tui.triage.journal.database import BROUGHT


def make_old(path: Path, version: int) -> None:
    """Make a journal one of that earlier version."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE clock")
        for number, brought in BROUGHT.items():
            for table, column in brought if number > version else ():
                if table != "clock":
                    db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        db.execute("PRAGMA application_id = 0")
        db.execute(f"PRAGMA user_version = {version}")
