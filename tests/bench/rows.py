"""All rows, in the order of the table."""

from tests.bench import (
    datasource_rows,
    event_rows,
    exporter_rows,
    history_rows,
    list_poll_rows,
    list_rows,
    list_triage_rows,
    listserver_rows,
    memory_rows,
    peek_rows,
    pipeline_rows,
    poll_rows,
    protocol_rows,
    recording_rows,
    scan_rows,
    screen_rows,
    servers_rows,
    start_rows,
    tick_rows,
    triage_rows,
)
from tests.bench.row import Row

ROWS: tuple[Row, ...] = (
    *poll_rows.ROWS,
    *list_poll_rows.ROWS,
    *protocol_rows.ROWS,
    *list_rows.ROWS,
    *start_rows.ROWS,
    *screen_rows.ROWS,
    *tick_rows.ROWS,
    *servers_rows.ROWS,
    *event_rows.ROWS,
    *exporter_rows.ROWS,
    *memory_rows.ROWS,
    *peek_rows.ROWS,
    *scan_rows.ROWS,
    *triage_rows.ROWS,
    *list_triage_rows.ROWS,
    *recording_rows.ROWS,
    *history_rows.ROWS,
    *pipeline_rows.ROWS,
    *datasource_rows.ROWS,
    *listserver_rows.ROWS,
)


def chosen(words: list[str]) -> list[Row]:
    """Return the rows whose name contains one of the words, whatever its case; all of them for no words."""
    return [row for row in ROWS if not words or any(word.casefold() in row.name.casefold() for word in words)]
