"""`rsmqctl queue`: list, describe, create, set and delete."""

import argparse
import asyncio
from dataclasses import asdict
from typing import Any

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.output import print_json, print_words
from rsmq_tui.cli.rsmqctl.server import FailedError, Server, print_attributes, refused, shown
from rsmq_tui.protocol import RsmqError


def run(server: Server, options: argparse.Namespace) -> None:
    """Run one of the commands; raises ``FailedError`` and ``UsageError``."""
    {"list": _list, "describe": _describe, "create": _create, "set": _set, "delete": _delete}[options.action](
        server, options
    )


def _list(server: Server, options: argparse.Namespace) -> None:
    with server.calls() as rsmq:
        try:
            names = rsmq.list_queues()
        except RsmqError as error:
            raise FailedError(f"rsmqctl: the index {shown(server.ns)}:QUEUES is not a set of names") from error
    if options.output != "text":
        print_json(names)
        return
    for name in names:
        print_words(name)


def _describe(server: Server, options: argparse.Namespace) -> None:
    with server.calls() as rsmq:
        try:
            fields = asdict(rsmq.get_queue_attributes(options.name))
        except RsmqError as error:
            if error.code != "invalidFormat":
                raise _failed(server, "Failed to describe queue", options.name, error) from error
            fields = _seen(server, options.name)
    print_attributes(options, fields)


def _seen(server: Server, name: str) -> dict[str, Any]:
    """Return the attributes of a queue whose name the protocol does not allow: other clients make them all the same."""
    from rsmq_tui.cli.commands.snapshot import poll_once  # noqa: PLC0415 - rarely needed, and it brings asyncio along

    snapshot = asyncio.run(poll_once(server.profile))
    if snapshot.link.failure is not None:
        raise server.told(snapshot.link.failure)
    for queue in snapshot.queues:
        if queue.name == name and queue.kind == "rsmq":
            return {
                "vt": queue.vt_s,
                "delay": queue.delay_s,
                "maxsize": queue.maxsize,
                "totalrecv": queue.totalrecv,
                "totalsent": queue.totalsent,
                "created": None if queue.created_ms is None else queue.created_ms // 1000,
                "modified": None if queue.modified_ms is None else queue.modified_ms // 1000,
                "msgs": queue.depth,
                "hiddenmsgs": queue.hidden,
            }
    raise server.missing(name)


def _create(server: Server, options: argparse.Namespace) -> None:
    name = options.name
    with server.calls(changing="queue create") as rsmq:
        try:
            rsmq.create_queue(name, vt=options.visibility_timeout, delay=options.delay, maxsize=options.maxsize)
        except RsmqError as error:
            if error.code == "queueExists":
                raise FailedError(f"Queue already exists: {shown(name)}") from error
            raise refused(f"Failed to create queue: {shown(name)}", name, error) from error


def _set(server: Server, options: argparse.Namespace) -> None:
    name, given = options.name, (options.visibility_timeout, options.delay, options.maxsize)
    if given == (None, None, None):
        raise UsageError("queue set takes at least one of -t, -d and -m")
    vt, delay, maxsize = given
    with server.calls(changing="queue set") as rsmq:
        try:
            attributes = rsmq.set_queue_attributes(name, vt=vt, delay=delay, maxsize=maxsize)
        except RsmqError as error:
            raise _failed(server, "Failed to set attributes of queue", name, error) from error
    print_attributes(options, asdict(attributes))


def _delete(server: Server, options: argparse.Namespace) -> None:
    with server.calls(changing="queue delete") as rsmq:
        try:
            rsmq.delete_queue(options.name)
        except RsmqError as error:
            raise _failed(server, "Failed to delete queue", options.name, error) from error


def _failed(server: Server, beginning: str, name: str, error: RsmqError) -> FailedError:
    if error.code == "queueNotFound":
        return server.missing(name)
    return refused(f"{beginning}: {shown(name)}", name, error)
