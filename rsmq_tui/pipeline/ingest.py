"""What is new in a history: Structured Streaming finds the files that no run before has seen, and notes them down.

The notes are small files under ``_notes``, written before the stream's checkpoint commits, and removed only when the
tables of those files are published: whatever is killed in between, a file is noted again, or still. One row is a file,
not a sample: no file of the history is opened here, and one that cannot be read stops nothing.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.pipeline.days import day_in
from rsmq_tui.pipeline.folder import Folder, as_glob

CHECKPOINT, NOTES = "_checkpoint", "_notes"
_FILES = "path string, modificationTime timestamp, length bigint, content binary"


class Notes(NamedTuple):
    """The names of the files of each table that are new, and the files that say so."""

    names: dict[str, set[str]]
    files: tuple[str, ...]


def note_new_files(
    spark: SparkSession,
    history: Folder,
    out: Folder,
    tables: Iterable[str],
    noted: Callable[[], None] | None = None,
) -> None:
    """Note down the files of some tables that are new.

    ``noted`` is called when notes are written, before the stream commits that it has seen the files.
    """
    queries: list[Any] = []
    try:
        for table in tables:
            found = (
                spark.readStream.format("binaryFile")
                .schema(_FILES)
                .option("pathGlobFilter", "*.parquet")
                .option("recursiveFileLookup", "true")
                # A file that was copied here with its old date is new all the same.
                .option("maxFileAge", "99999d")
                # A day may be deleted while we look.
                .option("ignoreMissingFiles", "true")
                .load(as_glob(history.at(table)))
                .select("path")
            )
            queries.append(
                found.writeStream.foreachBatch(_noting(out.at(f"{NOTES}/{table}"), noted))
                .option("checkpointLocation", out.at(f"{CHECKPOINT}/{table}"))
                .queryName(f"new files of {table}")
                .trigger(availableNow=True)
                .start()
            )
        for query in queries:
            query.awaitTermination()
    finally:
        for query in queries:
            if query.isActive:
                query.stop()


def read_notes(out: Folder) -> Notes:
    """Return what is noted down and not published yet."""
    names: dict[str, set[str]] = {}
    files = []
    for file in out.files(NOTES):
        parts = file.name.split("/")
        # What is being written, or was when somebody was killed, begins like this.
        if len(parts) != 4 or parts[3].startswith(("_", ".")):
            continue
        files.append(file.name)
        with out.open(file.name) as lines:
            for line in lines:
                # The name as it is; where a store quotes it, it is none that is held, and stands for its whole day.
                name = "/".join(json.loads(line)["path"].rsplit("/", 3)[1:])
                if day_in(name) is not None:
                    names.setdefault(parts[1], set()).add(name)
    return Notes(names, tuple(files))


def drop_notes(out: Folder, notes: Notes) -> None:
    """Remove notes, and what killed runs left beside them."""
    out.remove(*{name.rpartition("/")[0] for name in notes.files})
    out.remove_empty(NOTES)


def forget(out: Folder) -> None:
    """Let all files be new to the next run: the checkpoint goes first, so that no note is lost without being new."""
    out.remove(CHECKPOINT)
    out.remove(NOTES)


def _noting(url: str, noted: Callable[[], None] | None) -> Callable[[DataFrame, int], None]:
    # Over Connect it runs on the server, which need not have this package: it takes nothing of it along.
    if noted is None:

        def note(batch: DataFrame, number: int) -> None:
            batch.coalesce(1).write.mode("overwrite").json(f"{url}/{number}")

        return note

    def note_and_tell(batch: DataFrame, number: int) -> None:
        batch.coalesce(1).write.mode("overwrite").json(f"{url}/{number}")
        noted()

    return note_and_tell
