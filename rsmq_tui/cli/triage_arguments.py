"""The arguments of `rsmq-tui messages`, `queues`, `undo` and `journal`."""

import argparse
from typing import Any

from rsmq_tui.cli.command_parser import Commands, Group, Parents, count, leaf, seconds
from rsmq_tui.cli.list_commands import add_list_commands


def add_commands(commands: Commands, common: Parents) -> None:
    """Add the four commands."""
    words = "look at, send, hide, release, move, copy, redrive, delete, export and import messages; and those of lists"
    Group(commands, common, "messages", words, _fill_messages)
    Group(commands, common, "queues", "list, create, change, empty and delete queues", _fill_queues)
    _add_undo(commands, common)
    Group(commands, common, "journal", "the changes made from here, and what is kept of each", _fill_journal)


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
    listed.add_argument("--group-by", metavar="BY", help="count instead: by shape, or by a place such as json.type")
    _add_json(listed)
    got = group.add(
        "get",
        "print messages whole",
        examples=("orders hoco5b5x55Dc9r4FfmKqsaDQEYVAbYLN", "orders ID --raw > body.bin"),
    )
    got.add_argument("ids", nargs="+", metavar="ID")
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
        help="a message that is this file, byte for byte (- is standard input); may be repeated",
    )
    sent.add_argument("--lines", metavar="PATH", help="a message for each line that is not empty")
    sent.add_argument("--front", action="store_true", help="to a list queue: taken next, and not last")
    sent.add_argument("--delay", type=seconds, metavar="S", help="visible after S seconds (default: the queue's delay)")
    group.add(
        "delete",
        "remove messages",
        scope,
        _changing(),
        filters=True,
        examples=("orders --filter 'json.type=test'", "orders --id ID ID --yes"),
    )
    hidden = group.add(
        "hide",
        "make messages invisible for some time, whatever they were",
        scope,
        _changing(),
        filters=True,
        examples=("orders --filter 'rc>=5' --seconds 3600 --yes",),
    )
    hidden.add_argument("--seconds", type=seconds, metavar="N", required=True, help="from now on")
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
        "send dead letters back to where they came from, or to a queue",
        scope,
        _changing(),
        filters=True,
        examples=("orders-dlq --all --yes", "dead --all --origin meta.queue --yes"),
    )
    again.add_argument(
        "--to", metavar="QUEUE", help="all of them go there (default: what the journal or the name says)"
    )
    again.add_argument("--origin", metavar="PATH", help="a place in the JSON body that names the queue: meta.queue")
    add_list_commands(group, scope, _changing)
    exported = group.add(
        "export",
        "write messages as lines of JSON, which import reads",
        reading,
        filters=True,
        examples=("orders -o orders.jsonl", "orders --filter state:poison | jq .id"),
    )
    exported.add_argument("-o", "--output", metavar="FILE", default="-", help="written whole or not at all")
    imported = group.add(
        "import",
        "put exported messages back, every field as it was",
        _changing(),
        examples=("orders orders.jsonl --yes",),
    )
    imported.add_argument("file", metavar="FILE", help="what export wrote")


def _fill_queues(group: Group) -> None:
    _add_json(group.add("list", "print all queues, worst first; as JSON, by name", queue=False, examples=("",)))
    made = group.add("create", "make a queue", _changing(), examples=("orders --vt 60 --maxsize -1 --yes",))
    _add_attributes(made, vt=30, delay=0, maxsize=65536)
    changed = group.add("set", "change a queue's attributes", _changing(), examples=("orders --vt 120 --yes",))
    _add_attributes(changed, vt=None, delay=None, maxsize=None)
    group.add("delete", "remove a queue and its messages", _changing(), examples=("orders-test", "orders-test --yes"))
    purged = group.add(
        "purge",
        "remove all messages of a queue",
        _changing(),
        examples=("orders-test --yes", "list:queue:orders --processing --yes"),
    )
    purged.add_argument("--processing", action="store_true", help="of a list queue: what is in processing as well")


def _add_undo(commands: Commands, common: Parents) -> None:
    undo = leaf(
        commands,
        "undo",
        "take back what a change did, as far as nobody has touched it since",
        [*common, _changing()],
        ("rsmq-tui undo", "rsmq-tui undo 12 --yes"),
    )
    undo.add_argument("change", nargs="?", type=count, metavar="CHANGE", help="its number (default: the last change)")
    undo.add_argument("--queue", metavar="QUEUE", help="the last change of this queue")


def _fill_journal(group: Group) -> None:
    listed = group.add(
        "list",
        "print the changes, newest first: also without this word",
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
    shown = group.add("show", "print what is kept of a change, as lines of JSON", queue=False, examples=("12",))
    restored = group.add("restore", "undo a change", _changing(), queue=False, examples=("12", "12 --yes"))
    for parser in (shown, restored):
        parser.add_argument("change", type=count, metavar="CHANGE", help="its number")


class _Once(argparse.Action):
    """An option that is refused when it is given twice: the last one alone would be taken for both."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Take the value."""
        if getattr(namespace, self.dest, None) is not None:
            parser.error(f"{option} was given twice: put both into one, with a space between them")
        setattr(namespace, self.dest, values)


def _filter(*, required: bool) -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    which = parent.add_mutually_exclusive_group(required=required)
    which.add_argument("--filter", action=_Once, metavar="F", help="those that match; see below")
    if required:
        which.add_argument("--id", dest="ids", nargs="+", action="extend", metavar="ID", help="those of these ids")
        which.add_argument("--all", action="store_true", help="every message of the queue")
    limit = "at most N of them"
    if required:
        limit += ": those due first, to release of the hidden ones; "
        limit += "of a list queue those taken next, or with --filter any"
    parent.add_argument("--limit", type=count, metavar="N", help=limit)
    return parent


def _scope() -> argparse.ArgumentParser:
    return _filter(required=True)


def _target() -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    words = "the queue that they go to; list:KEY is a list queue, and from one, rsmq:QUEUE (or rsmq:NS/QUEUE) is none"
    parent.add_argument("--to", metavar="QUEUE", required=True, help=words)
    parent.add_argument("--create", action="store_true", help="make it, with the same attributes, where there is none")
    return parent


def _changing() -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    which = parent.add_mutually_exclusive_group()
    which.add_argument("--yes", action="store_true", help="do it; without, the change is only previewed")
    which.add_argument("--dry-run", action="store_true", help="only preview the change, which is the default")
    _add_json(parent)
    return parent


def _add_json(parser: argparse.ArgumentParser, **default: Any) -> None:
    words = "lines of JSON, as where the output is no terminal"
    parser.add_argument("--json", action="store_true", help=words, **default)


def _add_attributes(parser: argparse.ArgumentParser, *, vt: int | None, delay: int | None, maxsize: int | None) -> None:
    for name, default, metavar, words in (
        ("--vt", vt, "S", "seconds that a received message stays hidden"),
        ("--delay", delay, "S", "seconds until a new message becomes visible"),
        ("--maxsize", maxsize, "N", "longest body, 1024 to 65536, or -1 for no limit"),
    ):
        told = words if default is None else f"{words} (default {default})"
        parser.add_argument(name, type=int, metavar=metavar, default=default, help=told)
