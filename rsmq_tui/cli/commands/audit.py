"""`rsmq-tui audit`: reports keys of queues that do not agree, and fixes them."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field

import click

from rsmq_tui.cli.changes import make_change
from rsmq_tui.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PREVIEW, UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.options import changing, complete_queues, with_read_only
from rsmq_tui.cli.output import ProgressLine, fields_json, print_words, say, wants_json
from rsmq_tui.cli.parsing import Command, Options, option, positive, span
from rsmq_tui.cli.places import LISTS_HINT, KindPlace, no_queue_words, place_of, places_of, waiting
from rsmq_tui.cli.queue_names import reference_of
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.monitor.audit.findings import NAMED_ONLY, Finding, FindingKind, ListFindingKind
from rsmq_tui.monitor.audit.rsmq import AuditProgress
from rsmq_tui.monitor.messages.peek import PeekError
from rsmq_tui.monitor.text import count, plural, printable, printable_name
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.triage.actions import Fix
from rsmq_tui.triage.errors import NO_LIST

EXIT_FOUND = 1
EXIT_UNSEEN = 2
_LABEL = 9
# If stderr is not a terminal, the progress of an audit is printed at this interval.
_SAID_EVERY_S = 10.0
_ID_MAX = 60
_LINE_MAX = 120


@dataclass
class _Looked:
    """What was checked in all namespaces, and what is wrong there; ``unseen`` says what was not checked."""

    namespaces: Sequence[str]
    queues: int = 0
    examined: int = 0
    young: int = 0
    unseen: list[str] = field(default_factory=list)
    findings: int = 0
    fixable: bool = False
    places: set[tuple[str, str]] = field(default_factory=set)
    # All findings, if they are to be fixed: there may be millions.
    found: list[tuple[str, Finding]] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status of an audit."""
        return EXIT_FOUND if self.findings else EXIT_UNSEEN if self.unseen else 0

    def add(self, ns: str, last: AuditProgress) -> None:
        """Add the counts of the audit of a namespace."""
        self.queues += last.queues
        self.examined += last.examined
        self.young += last.young
        self.unseen += [f"ns {ns}: {sentence}" if len(self.namespaces) > 1 else sentence for sentence in last.unseen]


_NOTES = """\
It finds ids without bodies, bodies without ids, queues that are missing from the index, and more. It reads the id and
the counters of every message, and no bodies if the server can omit them, in calls of one or two milliseconds; consumers
and producers can keep working. Each finding says what it is, its probable cause, its effect on consumers, and what
--fix would do. Messages sent within the last minute are not judged, because their sender may still be writing the other
half; if ids carry no time, the audit checks them again some seconds later. During the audit, stderr shows the progress,
the rate and the remaining time. --limit and --for stop it early; stderr then says that not everything was checked. The
audit covers all namespaces of the profile, or the one of --ns.

For list queues (--lists, or lists in the profile) the audit compares the processing lists with the leases. It finds
items without a lease, leases without an item, leases that expired long ago, unusual deadlines and members, keys of
other types, and processing lists of queues that are not watched. Doubtful items are checked again for two seconds.
--fix does not repair list queues: their reaper does, and each finding says what else helps."""
_STATUSES = {
    0: "nothing found, or all findings are fixed",
    1: "findings (with --fix --yes: some are left, or the fix of a queue was refused)",
    2: "a usage error, the server cannot be read, or nothing (more) was found but not everything was checked: stderr "
    "says why, such as --limit, --for, or a permission to grant",
    3: "only a preview of a fix: nothing was changed; if there is nothing to fix, --fix without --yes ends with 0, 1 "
    "or 2",
    130: "interrupted",
}
_KINDS = [kind.value for kind in FindingKind]
_LIST_KINDS = [kind.value for kind in ListFindingKind]


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=(
        "",
        "--queue orders --json | jq .kind",
        "--lists 'queue:*' --kind unleased --kind overdue",
        "--fix",
        "--queue orders --fix --kind dangling --kind leaked --yes",
    ),
    sections={
        "Kinds": (
            ("RSMQ", " ".join(_KINDS)),
            ("lists", " ".join(_LIST_KINDS)),
            ("only with --kind", f"fixed only when named, because some clients write them on purpose: "
                                 f"{' '.join(kind for kind in _KINDS if kind in NAMED_ONLY)}"),
        )
    },
    statuses=_STATUSES,
)  # fmt: skip
@option(
    "--queue QUEUE",
    "only this queue, even if it is missing from the index: QUEUE, or list:KEY for a list queue; may be repeated "
    "(default: all queues, including those missing from the index)",
    name="queues",
    multiple=True,
    shell_complete=complete_queues,
)
@option(
    "--kind KIND",
    "only this kind of finding; may be repeated",
    click.Choice([*_KINDS, *_LIST_KINDS]),
    name="kinds",
    multiple=True,
)
@option("--limit N", "check at most N queues per namespace", positive)
@option("--for SPAN", "stop after this time: 30s, 10m", span(1, 10**9), name="longest_ms")
@option("--fix", "preview the fixes, queue by queue; with --yes, apply them")
@changing
@with_read_only
def command(options: Options) -> int:
    """Audit, fix if requested, and return the exit status; raises ``UsageError``."""
    if (options.yes or options.dry_run) and not options.fix:
        raise UsageError("--yes and --dry-run need --fix")
    profile = profile_of(options)
    if options.fix and profile.read_only:
        raise UsageError("read-only: nothing can be fixed; without --fix, audit only reads")
    looked = _Looked(tuple(dict.fromkeys((*_own_places(profile), *_named_places(options, profile)))))
    status = run_interruptibly(lambda _: _audit(options, profile, looked))
    if status == EXIT_INTERRUPTED or not options.fix:
        return status
    fixes = _fixes(options, looked.found)
    return _fix(options, profile, fixes, looked) if fixes else status


def _fix(options: Options, profile: Profile, fixes: Sequence[Fix], looked: _Looked) -> int:
    """Preview or apply these fixes one after the other; one that fails does not stop the others."""
    ended = 0
    refusals = []
    for fix in fixes:
        try:
            ended = max(ended, make_change(options, fix, place_of(profile, fix.ns)))
        except UsageError as error:
            refusals.append(f"queue {printable(fix.queue)} was not fixed: {error}")
        if ended == EXIT_INTERRUPTED:
            break
    for refusal in refusals:
        say(refusal)
    if ended == EXIT_INTERRUPTED:
        return ended
    if refusals:
        return EXIT_FAILED
    if not options.yes:
        return EXIT_PREVIEW
    is_left = looked.findings > sum(len(fix.findings) for fix in fixes)
    return EXIT_FOUND if is_left else ended or (EXIT_UNSEEN if looked.unseen else 0)


def _fixes(options: Options, found: Sequence[tuple[str, Finding]]) -> list[Fix]:
    """Return the fixes, one for each queue."""
    queues: dict[tuple[str, str], list[Finding]] = {}
    for ns, finding in found:
        if finding.fix is not None and (not finding.asks or options.kinds):
            queues.setdefault((ns, finding.queue), []).append(finding)
    return [Fix(queue=queue, findings=tuple(findings), ns=ns) for (ns, queue), findings in queues.items()]


async def _audit(options: Options, profile: Profile, looked: _Looked) -> int:
    """Print findings as they are found, and add them to ``looked``."""
    line = ProgressLine(_SAID_EVERY_S)
    printer = _Printer(as_json=wants_json(options), fixes_all=bool(options.kinds), names_ns=len(looked.namespaces) > 1)
    label = profile.address.label
    async with waiting(line, [label]), AsyncExitStack() as opened:
        places = [place_of(profile, ns) for ns in looked.namespaces]
        for place in places:
            opened.push_async_callback(place.aclose)
        try:
            for place, queues in await _chosen(places, options.queues):
                await _audit_place(options, place, queues, looked, printer, line)
        except PeekError as error:
            raise UsageError(str(error) if label in str(error) else f"cannot read {label}: {error}") from error
    for sentence in looked.unseen:
        say(sentence)
    say(_summary(options, looked))
    return looked.status


def _own_places(profile: Profile) -> tuple[str, ...]:
    """Return the places that are searched for a queue given by its name alone."""
    return tuple(place.ns for place in places_of(profile))


def _named_places(options: Options, profile: Profile) -> Iterator[str]:
    """Iterate over the places that the references of queues name; raises ``UsageError``."""
    for text in options.queues:
        found = reference_of(text, profile.ns)
        if found is not None:
            yield found.ns


def _name_at(place: KindPlace, text: str) -> str | None:
    """Return the name of a given queue if it may be in that place."""
    profile = place.profile
    is_own = place.ns in _own_places(profile)
    # A reference without a namespace means the queue of that name in each that the profile has.
    found = reference_of(text, place.ns)
    if found is None:
        return text if is_own else None
    is_meant = is_own or found == reference_of(text, profile.ns)
    return found.queue if is_meant and (found.kind, found.ns) == (place.kind, place.ns) else None


async def _chosen(places: Sequence[KindPlace], queues: Sequence[str]) -> list[tuple[KindPlace, Sequence[str] | None]]:
    """Return what to check in which place: of several places, those that have one of the given queues."""
    if not queues:
        return [(place, None) for place in places]
    chosen: list[tuple[KindPlace, Sequence[str] | None]] = []
    looked_in: dict[str, list[KindPlace]] = {text: [] for text in queues}
    found_texts: set[str] = set()
    for place in places:
        wanted = {text: name for text in looked_in if (name := _name_at(place, text)) is not None}
        absent = await place.missing(list(dict.fromkeys(wanted.values()))) if wanted else ()
        there = {text: name for text, name in wanted.items() if name not in absent}
        if there:
            chosen.append((place, list(dict.fromkeys(there.values()))))
        found_texts.update(there)
        for text in wanted:
            looked_in[text].append(place)
    for text in sorted(looked_in.keys() - found_texts):
        where = " or ".join(place.title for place in looked_in[text])
        reference = reference_of(text, places[0].ns)
        why = no_queue_words(where, text if reference is None else reference.queue)
        if not any(place.kind.has_namespaces for place in looked_in[text]):
            why = f"{NO_LIST}; {LISTS_HINT}"
        raise UsageError(f"{printable_name(text)} on {places[0].server}: {printable(why)}")
    return chosen


async def _audit_place(
    options: Options,
    place: KindPlace,
    queues: Sequence[str] | None,
    looked: _Looked,
    printer: "_Printer",
    line: ProgressLine,
) -> None:
    kinds = set(options.kinds or (*FindingKind, *ListFindingKind))
    progress = AuditProgress(None, 0, 0, 0, 0)
    ns = place.ns
    seconds = options.longest_ms and options.longest_ms / 1000
    auditing = place.source.audit(queues, limit=options.limit, seconds=seconds)
    async with aclosing(auditing) as steps:
        async for progress in steps:
            findings = [finding for finding in progress.findings if finding.kind in kinds]
            if findings:
                printer.print(ns, findings)
                looked.findings += len(findings)
                looked.places.update((ns, finding.queue) for finding in findings)
                looked.fixable = looked.fixable or any(finding.fix is not None for finding in findings)
                if options.fix:
                    looked.found += [(ns, finding) for finding in findings]
            line.show(_progress_words(progress, looked.findings))
    looked.add(ns, progress)


class _Printer:
    """Prints findings as they come: grouped by queue for people, or as JSON lines.

    With ``fixes_all``, --fix also fixes findings that need --kind, because it was given.
    """

    def __init__(self, *, as_json: bool, fixes_all: bool, names_ns: bool) -> None:
        self._as_json, self._fixes_all, self._names_ns = as_json, fixes_all, names_ns
        self._place: tuple[str, str] | None = None

    def print(self, ns: str, findings: Sequence[Finding]) -> None:
        """Print some; those of one queue come one after the other."""
        for finding in findings:
            if self._as_json:
                self._print_json(ns, finding)
                continue
            if (ns, finding.queue) != self._place:
                if self._place is not None:
                    print_words("")
                print_words(printable_name(finding.queue) + (self._where(ns) if self._names_ns else ""))
                self._place = (ns, finding.queue)
            self._print_words(finding)

    def _where(self, ns: str) -> str:
        return f" (ns {ns})" if kind_of(ns).has_namespaces else f" ({kind_of(ns).name})"

    def _print_json(self, ns: str, finding: Finding) -> None:
        fields_json(
            ns=ns,
            queue=finding.queue,
            kind=finding.kind.value,
            severity=finding.words.severity.value,
            count=finding.count,
            ids=list(finding.ids),
            what=finding.what,
            made_by=finding.words.maker,
            effect=finding.words.effect,
            fix=finding.fix,
            fix_needs_kind=finding.asks,
            hint=finding.hint,
        )

    def _print_words(self, finding: Finding) -> None:
        _print_row(finding.words.severity, f"{finding.what} ({finding.kind})")
        if finding.ids:
            more = ", …" if finding.count > len(finding.ids) else ""
            _print_row("", "ids", ", ".join(printable(id, _ID_MAX) for id in finding.ids) + more)
        _print_row("", "cause", finding.words.maker)
        _print_row("", "effect", finding.words.effect)
        if finding.hint is not None:
            _print_row("", "help", finding.hint)
            return
        fix = finding.fix or "no automatic fix; inspect it yourself"
        named = f"with --kind {finding.kind}: " if finding.asks and not self._fixes_all else ""
        _print_row("", "--fix", named + fix)


def _print_row(head: str, *parts: str) -> None:
    """Print a row, wrapped to the terminal under its first word."""
    start = f"  {head:{_LABEL}}" + (f"{parts[0]:{_LABEL}}" if len(parts) > 1 else "")
    text = parts[-1]
    width = max(40, min(_LINE_MAX, shutil.get_terminal_size().columns))
    wrapped = textwrap.wrap(printable(text), width - len(start), break_on_hyphens=False) or [""]
    for number, words in enumerate(wrapped):
        print_words((start if not number else " " * len(start)) + words)


def _progress_words(progress: AuditProgress, found: int) -> str:
    where = f"{count(progress.keys)} keys scanned" if progress.queue is None else progress.queue
    return f"{progress.words}, {plural(found, 'finding')}; {where}"


def _summary(options: Options, looked: _Looked) -> str:
    words = f"{plural(looked.queues, 'queue')}, {count(looked.examined)} messages and fields checked: "
    if looked.findings:
        words += f"{plural(looked.findings, 'finding')} in {plural(len(looked.places), 'queue')}"
    else:
        words += "nothing found"
    if looked.young:
        words += f"; {count(looked.young)} sent less than a minute ago: too recent to judge"
    if looked.unseen:
        words += "; not everything was checked, so there may be more findings"
    return f"{words}; --fix previews the fixes" if looked.fixable and not options.fix else words
