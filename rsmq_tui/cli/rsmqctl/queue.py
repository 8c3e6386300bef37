"""`rsmqctl queue`: list, describe, create, set and delete."""

import asyncio
from dataclasses import asdict
from typing import Any

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.output import print_json, print_words
from rsmq_tui.cli.parsing import Decorator, Options, option, several
from rsmq_tui.cli.rsmqctl.parsing import NO_JOURNAL, CtlGroup, name, seconds, server_command
from rsmq_tui.cli.rsmqctl.server import FailedError, Server, print_attributes, shown
from rsmq_tui.protocol import RsmqError


def _attributes(vt: str | None = None, delay: str | None = None, maxsize: str | None = None) -> Decorator:
    hidden = "seconds, or 10m, for which a received message stays hidden"
    return several(
        option("-t --visibility-timeout S", hidden, seconds, default=vt),
        option("-d --delay S", "seconds, or 10m, until a sent message is visible", seconds, default=delay),
        option("-m --maxsize N", "longest message, 1024 to 65536, or -1 for no limit", int, default=maxsize),
    )


command = CtlGroup()


@server_command(command, "list", examples=("", "--output text"))
def _list(server: Server, options: Options) -> None:
    with server.calls("") as rsmq:
        try:
            names = rsmq.list_queues()
        except RsmqError as error:
            raise FailedError(f"rsmqctl: the index {shown(server.ns)}:QUEUES is not a set of names") from error
    if options.output != "text":
        print_json(names)
        return
    for queue in names:
        print_words(queue)


@server_command(command, "describe", name, examples=("-n orders",))
def _describe(server: Server, options: Options) -> None:
    with server.calls(f"Failed to describe queue: {shown(options.name)}", options.name) as rsmq:
        try:
            fields = asdict(rsmq.get_queue_attributes(options.name))
        except RsmqError as error:
            if error.code != "invalidFormat":
                raise
            fields = asyncio.run(_seen(server, options.name))
    print_attributes(options, fields)


async def _seen(server: Server, wanted: str) -> dict[str, Any]:
    """Return the attributes of a queue whose name the protocol does not allow, but which another client created."""
    from rsmq_tui.cli.places import place_of  # noqa: PLC0415 - rarely needed, and it brings asyncio along

    snapshot = await place_of(server.profile).poll_once()
    if snapshot.connection.failure is not None:
        raise server.error_of(snapshot.connection.failure)
    for queue in snapshot.queues:
        if queue.name == wanted:
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
    raise server.missing(wanted)


@server_command(
    command,
    "create",
    name,
    _attributes("30", "0", "65535"),
    examples=("-n orders", "-n orders -t 120 -d 5 -m 2048"),
    notes="It prints nothing.",
)
def _create(server: Server, options: Options) -> None:
    queue = options.name
    with server.calls(f"Failed to create queue: {shown(queue)}", queue, changing="queue create") as rsmq:
        try:
            rsmq.create_queue(queue, vt=options.visibility_timeout, delay=options.delay, maxsize=options.maxsize)
        except RsmqError as error:
            if error.code == "queueExists":
                raise FailedError(f"Queue already exists: {shown(queue)}") from error
            raise


@server_command(
    command,
    "set",
    name,
    _attributes(),
    examples=("-n orders -t 120",),
    notes=f"Only the given attributes change; they apply to later sends and receives. {NO_JOURNAL}",
)
def _set(server: Server, options: Options) -> None:
    given = (options.visibility_timeout, options.delay, options.maxsize)
    if given == (None, None, None):
        raise UsageError("queue set takes at least one of -t, -d and -m")
    vt, delay, maxsize = given
    beginning = f"Failed to set attributes of queue: {shown(options.name)}"
    with server.calls(beginning, options.name, changing="queue set") as rsmq:
        attributes = rsmq.set_queue_attributes(options.name, vt=vt, delay=delay, maxsize=maxsize)
    print_attributes(options, asdict(attributes))


@server_command(
    command,
    "delete",
    name,
    examples=("-n orders",),
    notes=f"It does not ask for confirmation, like the original rsmqctl. {NO_JOURNAL} rsmq-tui queues delete previews "
    "the deletion and can be undone.",
)
def _delete(server: Server, options: Options) -> None:
    beginning = f"Failed to delete queue: {shown(options.name)}"
    with server.calls(beginning, options.name, changing="queue delete") as rsmq:
        rsmq.delete_queue(options.name)
