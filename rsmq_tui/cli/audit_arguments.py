"""The arguments of `rsmq-tui audit`."""

import argparse

from rsmq_tui.cli.command_parser import CommandParser, Commands, Parents, count, span

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
    from rsmq_tui.monitor.audit_findings import NAMED_ONLY, FindingKind, ListFindingKind  # noqa: PLC0415

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
