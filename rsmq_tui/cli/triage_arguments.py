"""The arguments of `rsmq-tui messages`, `queues`, `undo` and `journal`."""

import argparse
from typing import Any

from rsmq_tui.cli.command_parser import Commands, Group, Parents, count, leaf, seconds
from rsmq_tui.cli.list_commands import add_list_commands


def add_commands(commands: Commands, common: Parents) -> None:
    """Add the four commands."""
    words = "read, send, hide, release, move, copy, redrive, delete, export and import messages of RSMQ and list queues"
    Group(commands, common, "messages", words, _fill_messages)
    Group(commands, common, "queues", "list, create, change, purge and delete queues", _fill_queues)
    _add_undo(commands, common)
    Group(
        commands,
        common,
        "journal",
        "list the changes made from this machine, and show their details",
        _fill_journal,
    )


def _fill_messages(group: Group) -> None:
    reading, scope, to = _filter(required=False), _scope(), _target()
    listed = group.add(
        "list",
        "print the messages that match, as they are found",
        reading,
        examples=(
            "orders",
            "orders --filter 'state:ready age>10m' --limit 20",
            "orders --group-by json.type",
            "orders --filter 'rc>=5' --json | jq .body",
        ),
        filters=True,
    )
    listed.add_argument(
        "--group-by", metavar="BY", help="count the messages instead: by shape, or by a JSON field such as json.type"
    )
    _add_json(listed)
    got = group.add(
        "get",
        "print whole messages, by id or filter",
        reading,
        examples=(
            "orders hoco5b5x55Dc9r4FfmKqsaDQEYVAbYLN",
            "orders --filter 'rc>=5' --limit 1",
            "orders ID --raw > body.bin",
        ),
        filters=True,
    )
    got.add_argument("ids", nargs="*", metavar="ID")
    got.add_argument("--raw", action="store_true", help="only the bodies, byte for byte")
    _add_json(got)
    sent = group.add(
        "send",
        "send new messages",
        _changing(),
        examples=(
            "orders '{\"id\": 1}' --yes",
            "orders --file body.bin --delay 60 --yes",
            "orders --lines many.txt --yes",
        ),
    )
    sent.rest = "bodies"
    sent.add_argument("bodies", nargs="*", metavar="BODY", help="each is one message")
    sent.add_argument(
        "--file",
        dest="files",
        action="append",
        metavar="PATH",
        help="send the content of this file, unchanged (- for standard input); may be repeated",
    )
    sent.add_argument("--lines", metavar="PATH", help="send each line that is not empty as a message")
    sent.add_argument(
        "--front", action="store_true", help="to a list queue: put them at the end that consumers take from"
    )
    sent.add_argument(
        "--delay", type=seconds, metavar="T", help="visible after this time: 60, 10m (default: the queue's delay)"
    )
    group.add(
        "delete",
        "delete messages",
        scope,
        _changing(),
        filters=True,
        examples=("orders --filter 'json.type=test'", "orders --id ID ID --yes"),
    )
    hidden = group.add(
        "hide",
        "hide messages for some time, whatever their state",
        scope,
        _changing(),
        filters=True,
        examples=("orders --filter 'rc>=5' --for 1h --yes",),
    )
    hidden.add_argument(
        "--for", "--seconds", dest="seconds", type=seconds, metavar="T", required=True, help="from now on: 600, 10m, 1h"
    )
    group.add(
        "release",
        "make messages visible now",
        scope,
        _changing(),
        filters=True,
        examples=("orders --filter state:delayed --yes",),
    )
    group.add(
        "move",
        "move messages to another queue as they are: body, rc, fr and sent time",
        scope,
        to,
        _changing(),
        filters=True,
        examples=("orders --filter state:poison --to orders-dlq --create --yes",),
    )
    group.add(
        "copy",
        "put copies that were never received into a queue",
        scope,
        to,
        _changing(),
        filters=True,
        examples=("orders --all --limit 100 --to orders-test --yes",),
    )
    again = group.add(
        "redrive",
        "send dead letters back to their original queues, or to another queue",
        scope,
        _changing(),
        filters=True,
        examples=("orders-dlq --all --yes", "dead --all --origin meta.queue --yes"),
    )
    again.add_argument(
        "--to",
        metavar="QUEUE",
        help="send all of them to this queue (default: the origin according to the journal or the queue's name)",
    )
    again.add_argument("--origin", metavar="PATH", help="a field of the JSON body that names the queue: meta.queue")
    add_list_commands(group, scope, _changing)
    exported = group.add(
        "export",
        "write messages as JSON lines, which import reads",
        reading,
        filters=True,
        examples=("orders -o orders.jsonl", "orders --filter state:poison | jq .id"),
    )
    exported.add_argument(
        "-o", "--output", metavar="FILE", default="-", help="a new file, written completely or not at all"
    )
    exported.add_argument("--force", action="store_true", help="overwrite FILE")
    imported = group.add(
        "import",
        "import exported messages with all their fields",
        _changing(),
        examples=("orders orders.jsonl --yes",),
    )
    imported.add_argument("file", metavar="FILE", help="a file written by export")


def _fill_queues(group: Group) -> None:
    _add_json(group.add("list", "print all queues, worst first; as JSON, by name", queue=False, examples=("",)))
    made = group.add("create", "create a queue", _changing(), examples=("orders --vt 60 --maxsize -1 --yes",))
    _add_attributes(made, vt=30, delay=0, maxsize=65536)
    changed = group.add("set", "change a queue's attributes", _changing(), examples=("orders --vt 120 --yes",))
    _add_attributes(changed, vt=None, delay=None, maxsize=None)
    group.add("delete", "delete a queue and its messages", _changing(), examples=("orders-test", "orders-test --yes"))
    purged = group.add(
        "purge",
        "delete all messages of a queue",
        _changing(),
        examples=("orders-test --yes", "list:queue:orders --processing --yes"),
    )
    purged.add_argument("--processing", action="store_true", help="of a list queue: also the processing list")


def _add_undo(commands: Commands, common: Parents) -> None:
    undo = leaf(
        commands,
        "undo",
        "undo a change; messages changed since are skipped and listed",
        [*common, _changing()],
        ("rsmq-tui undo", "rsmq-tui undo 12 --yes"),
    )
    undo.add_argument("change", nargs="?", type=count, metavar="CHANGE", help="its number (default: the last change)")
    undo.add_argument("--queue", metavar="QUEUE", help="the last change of this queue")
    _add_unsettled(undo)


def _fill_journal(group: Group) -> None:
    listed = group.add(
        "list",
        "print the changes, newest first (the default command)",
        queue=False,
        examples=("", "--limit 5 --json"),
    )
    own: list[tuple[argparse.ArgumentParser, dict[str, Any]]] = [
        (group.parser, {}),
        (listed, {"default": argparse.SUPPRESS}),
    ]
    for parser, default in own:
        parser.add_argument("--limit", type=count, metavar="N", help="at most N (default 100)", **default)
        _add_json(parser, **default)
    group.parser.set_defaults(limit=100)
    shown = group.add("show", "print the journal's entries of a change, as JSON lines", queue=False, examples=("12",))
    restored = group.add("restore", "undo a change", _changing(), queue=False, examples=("12", "12 --yes"))
    _add_unsettled(restored)
    for parser in (shown, restored):
        parser.add_argument("change", type=count, metavar="CHANGE", help="its number")


def _add_unsettled(parser: argparse.ArgumentParser) -> None:
    words = (
        "also put back messages that may have been consumed, because the change was interrupted and its "
        "outcome is unknown"
    )
    parser.add_argument("--unsettled", action="store_true", help=words)


class _Once(argparse.Action):
    """An option that is refused when it is given twice: the last one alone would be taken for both."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Take the value."""
        if getattr(namespace, self.dest, None) is not None:
            parser.error(f"{option} was given twice: combine both in one, separated by a space")
        setattr(namespace, self.dest, values)


def _filter(*, required: bool) -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    which = parent.add_mutually_exclusive_group(required=required)
    which.add_argument("--filter", action=_Once, metavar="F", help="messages that match this filter; see below")
    if required:
        which.add_argument("--id", dest="ids", nargs="+", action="extend", metavar="ID", help="messages with these ids")
        which.add_argument("--all", action="store_true", help="every message of the queue")
    limit = "at most N messages: those due first; of a list queue, those taken next"
    if required:
        limit = "at most N messages: those due first, for release among the hidden ones; "
        limit += "of a list queue, those taken next, or with --filter any that match"
    parent.add_argument("--limit", type=count, metavar="N", help=limit)
    if required:
        words = (
            "also messages received or changed after they were counted; only messages that have left the "
            "queue are skipped"
        )
        parent.add_argument("--even-if-received", action="store_true", help=words)
    return parent


def _scope() -> argparse.ArgumentParser:
    return _filter(required=True)


def _target() -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    words = (
        "the target queue: QUEUE, or list:KEY for a list queue; from a list queue, rsmq:QUEUE (or "
        "rsmq:NS/QUEUE) is an RSMQ queue"
    )
    parent.add_argument("--to", metavar="QUEUE", required=True, help=words)
    parent.add_argument(
        "--create", action="store_true", help="create the queue if it is missing, with the same attributes"
    )
    return parent


def _changing() -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    which = parent.add_mutually_exclusive_group()
    which.add_argument("--yes", action="store_true", help="apply the change; without it, the change is only previewed")
    which.add_argument("--dry-run", action="store_true", help="only preview the change (the default)")
    _add_json(parent)
    return parent


def _add_json(parser: argparse.ArgumentParser, **default: Any) -> None:
    words = "print JSON lines (the default when the output is not a terminal)"
    parser.add_argument("--json", action="store_true", help=words, **default)


def _add_attributes(parser: argparse.ArgumentParser, *, vt: int | None, delay: int | None, maxsize: int | None) -> None:
    for name, type_, default, metavar, words in (
        ("--vt", seconds, vt, "T", "how long a received message stays hidden: 30, 10m"),
        ("--delay", seconds, delay, "T", "how long until a new message becomes visible: 30, 10m"),
        ("--maxsize", int, maxsize, "N", "longest body, 1024 to 65536, or -1 for no limit"),
    ):
        told = words if default is None else f"{words} (default {default})"
        parser.add_argument(name, type=type_, metavar=metavar, default=default, help=told)
