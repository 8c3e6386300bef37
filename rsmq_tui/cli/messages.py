"""`rsmq-tui messages`: look into a queue, and change what is in it."""

import argparse
import os
import sys
from pathlib import Path

from rsmq_tui.cli.changing import make_change
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.filter_argument import filter_of
from rsmq_tui.cli.message_exporting import export_messages
from rsmq_tui.cli.message_reading import get_messages, list_messages
from rsmq_tui.monitor.wording import printable
from rsmq_tui.triage.actions import Action, Copy, Delete, Hide, Import, Move, Redrive, Release, Send
from rsmq_tui.triage.previews import Everything, Matching, Named, Scope

_READS = {"list": list_messages, "get": get_messages, "export": export_messages}


def run(options: argparse.Namespace) -> int:
    """Run one of the commands and return its exit status; raises ``UsageError``."""
    read = _READS.get(options.action)
    if read is not None:
        return read(options)
    if options.action == "send":
        return make_change(options, Send(queue=options.queue, bodies=_bodies(options), delay_s=options.delay))
    if options.action == "import":
        return make_change(options, Import(queue=options.queue, path=_file(options.file)))
    return make_change(options, _action(options), _scope(options))


def _action(options: argparse.Namespace) -> Action:
    queue = options.queue
    match options.action:
        case "delete":
            return Delete(queue=queue)
        case "hide":
            return Hide(queue=queue, seconds=options.seconds)
        case "release":
            return Release(queue=queue)
        case "move":
            return Move(queue=queue, target=options.to, create=options.create)
        case "copy":
            return Copy(queue=queue, target=options.to, create=options.create)
    return Redrive(queue=queue, target=options.to, origin=options.origin)


def _scope(options: argparse.Namespace) -> Scope:
    if options.ids is not None:
        if options.limit is not None:
            raise UsageError("--limit goes with --filter or --all, not with --id")
        return Named(tuple(dict.fromkeys(options.ids)))
    if options.filter is None:
        return Everything() if options.limit is None else Matching(filter_of(None), options.limit)
    wanted = filter_of(options.filter)
    if wanted.is_empty:
        raise UsageError("the filter is empty, and would match every message: if that is meant, say --all")
    return Matching(wanted, options.limit)


def _bodies(options: argparse.Namespace) -> tuple[bytes, ...]:
    given = [options.bodies, options.files, options.lines]
    if sum(map(bool, given)) != 1:
        raise UsageError("send wants bodies, or --file, or --lines: one of them")
    if options.bodies == ["-"]:
        return (_content("-"),)
    if options.bodies:
        return tuple(map(os.fsencode, options.bodies))
    if options.files:
        return tuple(map(_content, options.files))
    return tuple(line for line in _content(options.lines).split(b"\n") if line)


def _content(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{printable(name)}: {error.strerror}") from error


def _file(name: str) -> Path:
    path = Path(name)
    # It is read twice: before the change, to count, and for it.
    if not path.is_file():
        why = "not a regular file" if path.exists() else "no such file"
        raise UsageError(f"{printable(name)}: {why}; import reads what `rsmq-tui messages export` wrote")
    return path
