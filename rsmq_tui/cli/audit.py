"""`rsmq-tui audit`: what does not fit together in the keys of queues, and mending it."""

import argparse
import shutil
import textwrap
from collections.abc import Sequence
from contextlib import aclosing

from rsmq_tui.cli.changing import EXIT_PREVIEW, make_change
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import EXIT_INTERRUPTED, run_interruptibly
from rsmq_tui.cli.output import ProgressLine, fields_json, print_words, say, wants_json
from rsmq_tui.cli.target import profile_of, reader_of
from rsmq_tui.monitor.audit_findings import Finding, FindingKind
from rsmq_tui.monitor.auditing import AuditProgress, audit
from rsmq_tui.monitor.peek import PeekError
from rsmq_tui.monitor.wording import count, plural, printable
from rsmq_tui.profiles import Profile
from rsmq_tui.triage.actions import Fix

EXIT_FOUND = 1
_LABEL = 9
_ID_MAX = 60
_LINE_MAX = 120


def run(options: argparse.Namespace) -> int:
    """Audit, fix where that is asked for, and return the exit status; raises ``UsageError``."""
    if (options.yes or options.dry_run) and not options.fix:
        raise UsageError("--yes and --dry-run go with --fix")
    profile = profile_of(options)
    if options.fix and profile.read_only:
        raise UsageError("this is read-only: nothing can be fixed here; without --fix, audit only looks")
    found: list[Finding] = []
    status = run_interruptibly(lambda _: _audit(options, profile, found))
    if status == EXIT_INTERRUPTED or not options.fix:
        return status
    fixes = _fixes(options, found)
    ended = 0
    for fix in fixes:
        ended = max(ended, make_change(options, fix))
        if ended == EXIT_INTERRUPTED:
            return ended
    if not fixes or not options.yes:
        return EXIT_PREVIEW if fixes else status
    is_left = len(found) > sum(len(fix.findings) for fix in fixes)
    return EXIT_FOUND if is_left else ended


def _fixes(options: argparse.Namespace, found: Sequence[Finding]) -> list[Fix]:
    """Return what there is to be fixed, one for each queue."""
    queues: dict[str, list[Finding]] = {}
    for finding in found:
        if finding.fix is not None and (not finding.asks or options.kinds):
            queues.setdefault(finding.queue, []).append(finding)
    return [Fix(queue=queue, findings=tuple(findings)) for queue, findings in queues.items()]


async def _audit(options: argparse.Namespace, profile: Profile, found: list[Finding]) -> int:
    """Print what is found as it is found, and add it to ``found``."""
    reader = reader_of(profile)
    line = ProgressLine()
    kinds = {FindingKind(kind) for kind in options.kinds or FindingKind}
    printer = _Printer(wants_json(options), by_yes=bool(options.kinds))
    progress = AuditProgress(None, 0, 0, 0, 0)
    try:
        async with aclosing(audit(reader, options.queues)) as steps:
            async for progress in steps:
                findings = [finding for finding in progress.findings if finding.kind in kinds]
                if findings:
                    line.clear()
                    printer.print(findings)
                    found += findings
                line.show(_progress_words(progress, len(found)))
    except PeekError as error:
        raise UsageError(
            str(error) if reader.label in str(error) else f"cannot read {reader.label}: {error}"
        ) from error
    finally:
        line.clear()
        await reader.aclose()
    for sentence in progress.unseen:
        say(sentence)
    say(_summary(options, progress, found))
    return EXIT_FOUND if found else 0


class _Printer:
    """Prints findings as they come: grouped by queue for people, lines of JSON for everybody else."""

    def __init__(self, json: bool, by_yes: bool) -> None:
        self._json = json
        self._is_named = by_yes
        self._queue: str | None = None

    def print(self, findings: Sequence[Finding]) -> None:
        """Print some; those of one queue come one after the other."""
        for finding in findings:
            if self._json:
                self._print_json(finding)
                continue
            if finding.queue != self._queue:
                if self._queue is not None:
                    print_words("")
                print_words(finding.queue or "(no name)")
                self._queue = finding.queue
            self._print_words(finding)

    def _print_json(self, finding: Finding) -> None:
        fields_json(
            queue=finding.queue,
            kind=finding.kind.value,
            severity=finding.severity.value,
            count=finding.count,
            ids=list(finding.ids),
            what=finding.what,
            made_by=finding.maker,
            effect=finding.effect,
            fix=finding.fix,
            fix_needs_kind=finding.asks,
        )

    def _print_words(self, finding: Finding) -> None:
        _print_row(finding.severity, f"{finding.what} ({finding.kind})")
        if finding.ids:
            more = ", …" if finding.count > len(finding.ids) else ""
            _print_row("", "which", ", ".join(printable(id, _ID_MAX) for id in finding.ids) + more)
        _print_row("", "made by", finding.maker)
        _print_row("", "effect", finding.effect)
        fix = finding.fix or "nothing: look at it by hand"
        named = f"with --kind {finding.kind}: " if finding.asks and not self._is_named else ""
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
    where = f"{count(progress.keys)} keys passed" if progress.queue is None else progress.queue
    return (
        f"{plural(progress.queues, 'queue')}, {count(progress.examined)} messages and fields looked at, "
        f"{plural(found, 'finding')}; {where}"
    )


def _summary(options: argparse.Namespace, progress: AuditProgress, found: Sequence[Finding]) -> str:
    looked = f"{plural(progress.queues, 'queue')}, {count(progress.examined)} messages and fields looked at"
    if not found:
        return f"{looked}: nothing found"
    queues = len({finding.queue for finding in found})
    told = f"{looked}: {plural(len(found), 'finding')} in {plural(queues, 'queue')}"
    return told if options.fix else f"{told}; --fix previews what would mend them"
