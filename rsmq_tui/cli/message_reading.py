"""`rsmq-tui messages list` and `get`: what is in a queue, without touching it."""

import argparse
import codecs
import sys
from contextlib import aclosing
from typing import Any

from rsmq_tui.cli.changing import EXIT_FAILED, seeing_words, unsearched_words
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.filter_argument import filter_of
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.looking import Look, look_of
from rsmq_tui.cli.output import (
    Column,
    ProgressLine,
    Table,
    fields_json,
    print_json,
    print_words,
    say,
    text_of,
    wants_json,
)
from rsmq_tui.cli.target import profile_of
from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.grouping import GroupingError, Groups
from rsmq_tui.monitor.peek import MessageRow, MessageView
from rsmq_tui.monitor.search import INCOMPLETE, Progress
from rsmq_tui.monitor.states import MessageState
from rsmq_tui.monitor.wording import UNKNOWN, clock, count, duration, plural, printable, size
from rsmq_tui.protocol import RawMessage, name_bytes
from rsmq_tui.triage.previewing import Seeing
from rsmq_tui.triage.transfer import to_fields

_GROUPS = 50


def list_messages(options: argparse.Namespace) -> int:
    """Print what matches as it is found, or count it by groups; raises ``UsageError``."""
    return run_interruptibly(lambda _: _list(options))


def get_messages(options: argparse.Namespace) -> int:
    """Print messages whole; an id that is not there is exit status 1; raises ``UsageError``."""
    if options.raw and sys.stdout.isatty():
        raise UsageError("--raw prints bodies unchanged, escape sequences included: redirect it to a file, > FILE")
    return run_interruptibly(lambda _: _get(options))


async def _list(options: argparse.Namespace) -> int:
    wanted = filter_of(options.filter, profile_of(options).thresholds.poison_rc)
    groups = _groups_of(options.group_by)
    limit = options.limit if groups is None else None
    line = ProgressLine()
    printed = _as_json if wants_json(options) else _as_table()
    progress = None
    async with look_of(options) as look:
        async with aclosing(look.search(wanted, limit)) as found:
            async for progress in found:
                if groups is not None:
                    await groups.add_all(progress.messages, progress.at_ms)
                elif progress.messages:
                    line.clear()
                    printed(progress)
                    sys.stdout.flush()
                line.show(seeing_words(Seeing(progress.scanned, progress.depth, progress.matched)))
        line.clear()
        if progress is None or not progress.scanned:
            await look.refuse_missing()
    if groups is not None and progress is not None:
        _print_groups(options, groups, progress.at_ms)
    if progress is not None and progress.not_searched:
        say(unsearched_words(progress.not_searched))
    if progress is not None and progress.begun_anew:
        say(INCOMPLETE)
    if progress is not None and not wants_json(options):
        sys.stdout.flush()
        say(f"{plural(progress.matched, 'message')} of {progress.depth:,} in {look.queue}")
    return 0


def _groups_of(by: str | None) -> Groups | None:
    try:
        return None if by is None else Groups(by)
    except GroupingError as error:
        raise UsageError(f"--group-by {by}: {error}") from error


def _as_json(progress: Progress) -> None:
    for message, row in zip(progress.messages, progress.rows, strict=True):
        print_json(_fields(message, row, progress.at_ms))


def _fields(message: RawMessage, row: MessageRow, at_ms: int) -> dict[str, Any]:
    fields = to_fields(message, at_ms) | {"state": row.state.value, "size": message.size}
    return fields | {"too_long": True} if message.body is None and message.size else fields


def _as_table() -> Any:
    table = Table(
        Column("ID", 32),
        Column("STATE", 9),
        Column("DUE", 11, right=True),
        Column("AGE", 7, right=True),
        Column("RC", 4, right=True),
        Column("SIZE", 9, right=True),
        Column("BODY", 0),
    )

    def printed(progress: Progress) -> None:
        for row in progress.rows:
            age = UNKNOWN if row.sent_ms is None else duration(max(0, progress.at_ms - row.sent_ms))
            # A preview may end within a character.
            body = UNKNOWN if row.preview is None else codecs.utf_8_decode(row.preview, "surrogateescape", False)[0]
            values = row.id, row.state, _due(row, progress.at_ms), age, count(row.rc), size(row.size), body
            table.print(*values)

    return printed


def _due(row: MessageRow, at_ms: int) -> str:
    if row.due_ms is None and row.is_item:
        return "now" if row.state is MessageState.READY else UNKNOWN
    if row.due_ms is None:
        return "never"
    wait_ms = row.due_ms - at_ms
    return f"in {duration(wait_ms)}" if wait_ms > 0 else f"{duration(-wait_ms)} ago"


def _print_groups(options: argparse.Namespace, groups: Groups, at_ms: int) -> None:
    found = groups.top(options.limit or _GROUPS)
    if wants_json(options):
        for group in found:
            fields_json(group=group.label, count=group.count, bytes=group.bytes, oldest_age_ms=group.age_ms(at_ms))
        return
    table = Table(
        Column("MESSAGES", 12, right=True),
        Column("SHARE", 6, right=True),
        Column("BYTES", 10, right=True),
        Column("OLDEST", 8, right=True),
        Column(groups.by, 0),
    )
    for group in found:
        share = f"{group.count / groups.total:.1%}"
        table.print(f"{group.count:,}", share, size(group.bytes), duration(group.age_ms(at_ms)), group.label)


async def _get(options: argparse.Namespace) -> int:
    if bool(options.ids) == (options.filter is not None):
        raise UsageError("get takes either ids or --filter")
    if options.limit is not None and options.filter is None:
        raise UsageError("--limit needs --filter")
    wanted = filter_of(options.filter, profile_of(options).thresholds.poison_rc)
    status = 0
    async with look_of(options) as look:
        ids = options.ids or await _matching(look, wanted, options.limit)
        for id in ids:
            view = await look.read(id)
            if view.row is None:
                say(f"{look.queue} on {look.label}: no message {printable(id)}; it may have been deleted")
                status = EXIT_FAILED
                continue
            if view.body is None and view.size:
                say(f"{id}: its body of {size(view.size)} is too long to be read")
                status = EXIT_FAILED
            if options.raw:
                sys.stdout.buffer.write(view.body or b"")
            elif wants_json(options):
                print_json(_fields(_raw_of(view, view.row), view.row, view.at_ms))
            else:
                _print_whole(view, view.row)
            sys.stdout.flush()
    return status


async def _matching(look: Look, wanted: Filter, limit: int | None) -> list[str]:
    """Return the ids of what matches; says so where nothing does."""
    line, ids, progress = ProgressLine(), list[str](), None
    async with aclosing(look.search(wanted, limit)) as found:
        async for progress in found:
            ids += [row.id for row in progress.rows]
            line.show(seeing_words(Seeing(progress.scanned, progress.depth, progress.matched)))
    line.clear()
    if progress is None or not progress.scanned:
        await look.refuse_missing()
    elif not ids:
        say(f"no message of {look.queue} matches")
    if progress is not None and progress.not_searched:
        say(unsearched_words(progress.not_searched))
    if progress is not None and progress.begun_anew:
        say(INCOMPLETE)
    return ids


def _raw_of(view: MessageView, row: MessageRow) -> RawMessage:
    rc = b"%d" % row.rc if row.rc else None
    fr = None if row.fr_ms is None else b"%d" % row.fr_ms
    return RawMessage(name_bytes(row.id), row.score.encode(), rc, fr, view.size, view.body)


def _print_whole(view: MessageView, row: MessageRow) -> None:
    age = (
        UNKNOWN
        if row.sent_ms is None
        else f"{clock(row.sent_ms, date=True)} ({duration(view.at_ms - row.sent_ms)} ago)"
    )
    first = f", first {clock(row.fr_ms, date=True)}" if row.fr_ms is not None else ""
    print_words(f"id     {row.id}")
    print_words(f"state  {row.state}, due {_due(row, view.at_ms)}")
    print_words(f"sent   {age}")
    print_words(f"rc     {count(row.rc)}{first}")
    print_words(f"size   {size(view.size) if view.body is not None or view.size else 'no body'}")
    print()
    for line in text_of(view.body or b"").split("\n"):
        print_words(line)
    print()
