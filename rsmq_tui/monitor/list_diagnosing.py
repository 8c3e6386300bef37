"""Whether the list queues of a server can be watched, and what to do where they cannot."""

from collections.abc import AsyncIterator, Iterator, Sequence

from rsmq_tui.monitor.diagnoses import Finding, fail, ok, warn
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.monitor.snapshot import Snapshot, Verdict
from rsmq_tui.monitor.wording import SENTENCE_MAX, plural, printable
from rsmq_tui.protocol import SERVER_ERRORS, failure_of
from rsmq_tui.protocol.lists.reader import ListReader

_NAMES_SHOWN = 5


async def diagnose_lists(
    reader: ListReader, patterns: Sequence[str], *, interval_s: float = 1.0
) -> AsyncIterator[Finding]:
    """Yield what is found about the lists that the reader's ``patterns`` mean; the reader is its owner's to close."""
    try:
        await reader.discovery.search()
    except SERVER_ERRORS as error:
        failure = failure_of(error)
        yield fail("lists.found", f"lists cannot be read: {failure.sentence}", failure.hint)
        return
    if note := reader.discovery.note:
        words = printable(note, SENTENCE_MAX)
        yield warn("lists.search", words, "name them (--lists KEY), narrow the pattern, or grant +scan")
    poller = ListPoller(reader, interval_s=interval_s, search_every_s=1e9)
    # The first poll teaches the server the scripts: the second is as all others will be.
    await poller.poll()
    snapshot = await poller.poll()
    for finding in list_findings(snapshot, patterns, interval_s, reader.scripts_refused):
        yield finding


def list_findings(
    snapshot: Snapshot, patterns: Sequence[str], interval_s: float, scripts_refused: str | None
) -> Iterator[Finding]:
    """Say what a poll of the lists brings and takes."""
    if failure := snapshot.link.failure:
        yield fail("lists.poll", f"lists cannot be read: {failure.sentence}", failure.hint)
        return
    number, poll_ms = plural(len(snapshot.queues), "list"), snapshot.cost.poll_ms
    meant = printable(", ".join(patterns), SENTENCE_MAX)
    if snapshot.queues:
        yield ok("lists.found", f"{number} of {meant}")
    else:
        hint = "Redis has no key for an empty list: name it (--lists KEY) to see it, or try another pattern"
        yield warn("lists.found", f"no list of {meant}", hint)
    words = f"a poll of {number} takes {poll_ms:.1f} ms"
    if poll_ms > interval_s * 1000:
        yield warn("lists.speed", f"{words}, longer than its interval of {interval_s:g} s", "raise --interval")
    else:
        yield ok("lists.speed", words)
    if scripts_refused is not None:
        words = "scripts are refused: polls of lists take more commands, and nothing can be changed"
        yield warn("lists.scripts", words, "grant +eval and +evalsha")
    broken = [queue for queue in snapshot.queues if queue.verdict is Verdict.BROKEN]
    if broken:
        names = ", ".join(printable(queue.name, 40) for queue in broken[:_NAMES_SHOWN])
        more = f" and {len(broken) - _NAMES_SHOWN} more" if len(broken) > _NAMES_SHOWN else ""
        yield warn(
            "lists.broken",
            f"{plural(len(broken), 'list queue')} cannot be read completely: {names}{more}: {broken[0].broken}",
            "rsmq-tui audit --lists gives details; lists_processing and lists_leases of a profile name the keys",
        )
