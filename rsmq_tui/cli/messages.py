"""`rsmq-tui messages`: look into a queue, and change what is in it."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from rsmq_tui.cli.changing import make_change
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.filter_argument import filter_of
from rsmq_tui.cli.list_argument import QueueArgument, queue_of, target_of
from rsmq_tui.cli.message_exporting import export_messages
from rsmq_tui.cli.message_reading import get_messages, list_messages
from rsmq_tui.cli.target import profile_of
from rsmq_tui.monitor.filters import parse_filter
from rsmq_tui.monitor.wording import printable
from rsmq_tui.triage.actions import Action, Copy, Delete, Hide, Import, Move, Redrive, Release, Send
from rsmq_tui.triage.list_actions import Ack, Pop, Push, Requeue, Trim
from rsmq_tui.triage.previews import Everything, Matching, Named, Scope

_READS = {"list": list_messages, "get": get_messages, "export": export_messages}
_OF_LISTS = ("pop", "trim", "requeue", "ack")


def run(options: argparse.Namespace) -> int:
    """Run one of the commands and return its exit status; raises ``UsageError``."""
    read = _READS.get(options.action)
    if read is not None:
        return read(options)
    named = queue_of(options, profile_of(options))
    queue, is_list, profile = named
    if options.action in _OF_LISTS and not is_list:
        raise UsageError(f"{options.action} is for list queues: write list:KEY, or name the lists with --lists")
    make = partial(make_change, profile=profile, is_list=is_list)
    match options.action:
        case "send" if options.front:
            if not is_list:
                raise UsageError("--front is for list queues: RSMQ delivers the message that is due first")
            return make(options, Push(queue=queue, bodies=_bodies(options), delay_s=options.delay, first=True))
        case "send":
            return make(options, Send(queue=queue, bodies=_bodies(options), delay_s=options.delay))
        case "import":
            return make(options, Import(queue=queue, path=_file(options.file)))
        case "pop":
            return make(options, Pop(queue=queue, count=options.count))
        case "trim":
            return make(options, Trim(queue=queue, keep=options.keep, keep_oldest=options.oldest))
    if is_list and options.even_if_received:
        raise UsageError("--even-if-received is for queues of RSMQ: a list counts no receives")
    return make(options, _action(options, named), _scope(options))


def _action(options: argparse.Namespace, named: QueueArgument) -> Action:
    queue = named.queue
    match options.action:
        case "requeue":
            return Requeue(queue=queue, to_back=options.back)
        case "ack":
            return Ack(queue=queue)
        case "delete":
            return Delete(queue=queue)
        case "hide":
            return Hide(queue=queue, seconds=options.seconds)
        case "release":
            return Release(queue=queue)
        case "move":
            return Move(queue=queue, target=target_of(options.to, named), create=options.create)
        case "copy":
            return Copy(queue=queue, target=target_of(options.to, named), create=options.create)
    to = options.to and target_of(options.to, named)
    return Redrive(queue=queue, target=to, origin=options.origin)


def _scope(options: argparse.Namespace) -> Scope:
    if options.ids is not None:
        if options.limit is not None:
            raise UsageError("--limit needs --filter or --all, and cannot be combined with --id")
        return Named(tuple(dict.fromkeys(options.ids)), options.even_if_received)
    if options.filter is None:
        return Everything() if options.limit is None else Matching(parse_filter(""), options.limit)
    wanted = filter_of(options.filter, profile_of(options).thresholds.poison_rc)
    if wanted.is_empty:
        raise UsageError("the filter is empty and would match every message; use --all to select all messages")
    return Matching(wanted, options.limit, options.even_if_received)


def _bodies(options: argparse.Namespace) -> tuple[bytes, ...]:
    given = [options.bodies, options.files, options.lines]
    if sum(map(bool, given)) != 1:
        raise UsageError("send needs exactly one of: bodies, --file or --lines")
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
        raise UsageError(f"{printable(name)}: {why}; import reads files written by `rsmq-tui messages export`")
    return path
