"""The arguments of `rsmq-tui messages`, `queues`, `undo`, `journal` and `audit`."""

import argparse
from collections.abc import Callable
from typing import Any

from rsmq_tui.cli.parsing import CommandParser, Commands, Group, Parents, count, leaf, seconds, span


def add_list_commands(
    group: Group, scope: argparse.ArgumentParser, changing: Callable[[], argparse.ArgumentParser]
) -> None:
    """Add them; ``changing`` makes what every change has."""
    popped = group.add(
        "pop",
        "remove the items of a list queue that consumers would take next; the journal keeps them",
        changing(),
        examples=("list:queue:orders", "list:queue:orders --count 100 --yes"),
    )
    popped.add_argument("--count", type=count, metavar="N", default=1, help="number of items (default 1)")
    trimmed = group.add(
        "trim",
        "keep only the newest N items of a list queue",
        changing(),
        examples=("list:queue:orders --keep 1000 --yes",),
    )
    trimmed.add_argument("--keep", type=_number, metavar="N", required=True, help="number of items to keep")
    trimmed.add_argument("--oldest", action="store_true", help="keep the items that consumers would take next")
    again = group.add(
        "requeue",
        "put items of a list queue that are in processing back into the queue, without their leases",
        scope,
        changing(),
        filters=True,
        examples=("list:queue:orders --filter state:expired --yes", "list:queue:orders --all --back --yes"),
    )
    again.add_argument("--back", action="store_true", help="to the end that is taken last, not next")
    group.add(
        "ack",
        "remove items of a list queue that are in processing, with their leases",
        scope,
        changing(),
        filters=True,
        examples=("list:queue:orders --filter 'json.id=42' --yes",),
    )


def _number(text: str) -> int:
    return 0 if text == "0" else count(text)


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


_DESCRIPTION = """\
Find inconsistent keys of queues: ids without bodies, bodies without ids, queues that are missing from the index, and
more. The audit reads the id and the counters of every message, and no bodies if the server can omit them, in calls of
one or two milliseconds; consumers and producers can keep working. Each finding says what it is, its probable cause, its
effect on consumers, and what --fix would do. Messages sent within the last minute are not judged, because their sender
may still be writing the other half; if ids carry no time, the audit checks them again some seconds later. During the
audit, stderr shows the progress, the rate and the remaining time. --limit and --for stop it early; stderr then says
that not everything was checked. The audit covers all namespaces of the profile, or the one of --ns.

For list queues (--lists, or lists in the profile) the audit compares the processing lists with the leases. It finds
items without a lease, leases without an item, leases that expired long ago, unusual deadlines and members, keys of
other types, and processing lists of queues that are not watched. Doubtful items are checked again for two seconds.
--fix does not repair list queues: their reaper does, and each finding says what else helps."""
_EPILOG = """\
kinds:
  {kinds}
  Fixed only when named with --kind, because some clients write them on purpose:
  {named}
  Of list queues:
  {lists}

examples:
  rsmq-tui audit
  rsmq-tui audit --queue orders --json | jq .kind
  rsmq-tui audit --lists 'queue:*' --kind unleased --kind overdue
  rsmq-tui audit --fix
  rsmq-tui audit --queue orders --fix --kind dangling --kind leaked --yes

exit status: 0 nothing found, or all findings are fixed; 1 findings (with --fix --yes: some are left, or the fix of a
queue was refused); 2 a usage error, the server cannot be read, or nothing (more) was found but this user may not read
everything: stderr says what to grant; 3 only a preview of a fix: nothing was changed; 70 a defect in rsmq-tui
itself; 130 interrupted. If there is
nothing to fix, --fix without --yes ends with 0, 1 or 2"""


def add_audit(commands: Commands, parents: Parents) -> None:
    """Add the command; its arguments are added when it is used."""
    parser: CommandParser = commands.add_parser(
        "audit",
        help="find inconsistent keys of queues, and fix them",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
        # What removes messages is spelled out.
        allow_abbrev=False,
    )
    parser.fill = lambda: _fill(parser)


def _fill(parser: CommandParser) -> None:
    # Only this command needs them.
    from rsmq_tui.monitor.audit.findings import NAMED_ONLY, FindingKind, ListFindingKind  # noqa: PLC0415

    kinds = [kind.value for kind in FindingKind]
    named = ", ".join(kind for kind in kinds if kind in NAMED_ONLY)
    of_lists = [kind.value for kind in ListFindingKind]
    told = "\n  ".join((" ".join(kinds[:8]), " ".join(kinds[8:])))
    parser.epilog = _EPILOG.format(kinds=told, named=named, lists=" ".join(of_lists))
    add = parser.add_argument
    queue = (
        "only this queue, even if it is missing from the index: QUEUE, or list:KEY for a list queue; may be repeated "
        "(default: all queues, including those missing from the index)"
    )
    add("--queue", dest="queues", action="append", metavar="QUEUE", help=queue)
    kind = "only this kind of finding; may be repeated"
    add("--kind", dest="kinds", action="append", choices=[*kinds, *of_lists], metavar="KIND", help=kind)
    add("--limit", type=count, metavar="N", help="check at most N queues per namespace")
    add("--for", dest="longest_ms", type=span(1, 10**9), metavar="SPAN", help="stop after this time: 30s, 10m")
    add("--fix", action="store_true", help="preview the fixes, queue by queue")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--yes", action="store_true", help="with --fix: apply the fixes; rsmq-tui undo reverts them")
    which.add_argument("--dry-run", action="store_true", help="with --fix: only preview the fixes (the default)")
    add("--json", action="store_true", help="print JSON lines (the default when the output is not a terminal)")
