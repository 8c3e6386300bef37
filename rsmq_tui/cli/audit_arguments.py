"""The arguments of `rsmq-tui audit`."""

import argparse

from rsmq_tui.cli.command_parser import CommandParser, Commands, Parents

_DESCRIPTION = """\
Look for what does not fit together in the keys of queues: ids without bodies, bodies without ids, queues that the
index does not name, and more. It reads every message's id and counters, never a body where the server can leave them
out, in calls of a millisecond or two; consumers and producers may work on meanwhile. Each finding says what it is, what
probably made it, what it does to consumers, and what --fix would do. What was sent within the last minute is not
judged, since its sender may be about to write the other half; where ids do not say when, it looks again some seconds
later. All namespaces of the profile are audited, one after the other, or the one of --ns.

Of list queues (--lists, or lists of the profile) what lies in processing is compared with the leases: items without a
lease, leases without an item, leases that ended long ago, deadlines and members of another form, keys of other types,
and processing lists of queues that nobody watches. What is doubtful is looked at again for two seconds. --fix mends
nothing there: a reaper does, and each finding says what else helps."""
_EPILOG = """\
kinds:
  {kinds}
  Fixed only when they are named by --kind, since clients exist for which they are right:
  {named}
  Of list queues:
  {lists}

examples:
  rsmq-tui audit
  rsmq-tui audit --queue orders --json | jq .kind
  rsmq-tui audit --lists 'queue:*' --kind unleased --kind overdue
  rsmq-tui audit --fix
  rsmq-tui audit --queue orders --fix --kind dangling --kind leaked --yes

exit status: 0 nothing found, or all that was found is fixed; 1 findings (with --fix --yes: some are left, or the fix of
some queue was refused), 2 a usage error, the server cannot be read, or nothing (more) is wrong where this user may
look, and that is not everywhere: stderr says what to grant, 3 only a preview of a fix: nothing was changed, 130
interrupted. Where there is nothing to fix, --fix without --yes ends with 0, 1 or 2"""


def add_audit(commands: Commands, parents: Parents) -> None:
    """Add the command; its arguments are added when it is used."""
    parser: CommandParser = commands.add_parser(
        "audit",
        help="look for what does not fit together in the keys of queues, and mend it",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
        # What removes messages is spelled out.
        allow_abbrev=False,
    )
    parser.fill = lambda: _fill(parser)


def _fill(parser: CommandParser) -> None:
    # Only this command needs them.
    from rsmq_tui.monitor.audit_findings import NAMED_ONLY, FindingKind, ListFindingKind  # noqa: PLC0415

    kinds = [kind.value for kind in FindingKind]
    named = ", ".join(kind for kind in kinds if kind in NAMED_ONLY)
    of_lists = [kind.value for kind in ListFindingKind]
    told = "\n  ".join((" ".join(kinds[:8]), " ".join(kinds[8:])))
    parser.epilog = _EPILOG.format(kinds=told, named=named, lists=" ".join(of_lists))
    add = parser.add_argument
    queue = "only this queue, listed or not; may be repeated (default: all, those too that the index does not name)"
    add("--queue", dest="queues", action="append", metavar="QUEUE", help=queue)
    kind = "only this kind of finding; may be repeated"
    add("--kind", dest="kinds", action="append", choices=[*kinds, *of_lists], metavar="KIND", help=kind)
    add("--fix", action="store_true", help="preview, for each queue, what would mend it")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--yes", action="store_true", help="with --fix: do it; rsmq-tui undo takes it back")
    which.add_argument("--dry-run", action="store_true", help="with --fix: only preview it, which is the default")
    add("--json", action="store_true", help="lines of JSON, as where the output is no terminal")
