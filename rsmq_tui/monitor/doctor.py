"""Diagnoses whether a server can be monitored: what prevents it, and how to fix it."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rsmq_tui.files import reason_of
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.monitor.model import Snapshot, Verdict
from rsmq_tui.monitor.poller import RsmqPoller
from rsmq_tui.monitor.server import CheckResult, fail, ok, status_results, warn
from rsmq_tui.monitor.text import SENTENCE_MAX, and_more, duration, lists_hint, plural, printable
from rsmq_tui.protocol import SERVER_ERRORS, Address, Failure, Namespaces, RsmqReader, failure_of
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.server.diagnosis import ConnectStep, Diagnosis, Need, Permissions, Skew

_LISTS_SHOWN = 5
# What a new journal takes, with its log and index.
_JOURNAL_BYTES = 100_000


async def diagnose_lists(
    reader: ListReader, patterns: Sequence[str], *, interval_s: float = 1.0
) -> AsyncIterator[CheckResult]:
    """Yield results about the lists that match the reader's ``patterns``; the caller closes the reader."""
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
    # The first poll loads the scripts; the second is typical.
    await poller.poll()
    snapshot = await poller.poll()
    for result in list_results(snapshot, patterns, interval_s, reader.scripts_refused):
        yield result


def list_results(
    snapshot: Snapshot, patterns: Sequence[str], interval_s: float, scripts_refused: str | None
) -> Iterator[CheckResult]:
    """Yield results about a poll of the lists."""
    if failure := snapshot.connection.failure:
        yield fail("lists.poll", f"lists cannot be read: {failure.sentence}", failure.hint)
        return
    number = plural(len(snapshot.queues), "list")
    meant = printable(", ".join(patterns), SENTENCE_MAX)
    if snapshot.queues:
        yield ok("lists.found", f"{number} found for {meant}")
    else:
        hint = "Redis has no key for an empty list: name it (--lists KEY) to see it, or try another pattern"
        yield warn("lists.found", f"no list matches {meant}", hint)
    yield _poll_speed("lists.speed", number, snapshot, interval_s)
    if scripts_refused is not None:
        words = "scripts are refused: polls of lists take more commands, and nothing can be changed"
        yield warn("lists.scripts", words, "grant +eval and +evalsha")
    broken = [queue for queue in snapshot.queues if queue.verdict is Verdict.BROKEN]
    if broken:
        names = and_more((printable(queue.name, 40) for queue in broken[:_LISTS_SHOWN]), len(broken))
        yield warn(
            "lists.broken",
            f"{plural(len(broken), 'list queue')} cannot be read completely: {names}: {broken[0].broken}",
            "rsmq-tui audit --lists gives details; lists_processing and lists_leases of a profile name the keys",
        )


def _poll_speed(name: str, number: str, snapshot: Snapshot, interval_s: float) -> CheckResult:
    words = f"a poll of {number} takes {snapshot.cost.poll_ms:.1f} ms"
    if snapshot.cost.poll_ms > interval_s * 1000:
        return warn(name, f"{words}, longer than its interval of {interval_s:g} s", "raise --interval")
    return ok(name, words)


_ROUND_TRIPS = 20
_SLOW_MS = 50.0
_SKEW_MS = 1_000.0
_NAMES_SHOWN = 10
_DONE = {
    "dns": "the host name was resolved: ",
    "tcp": "connected to ",
    "socket": "connected to ",
    "tls": "encrypted: ",
    "auth": "access granted ",
    "redis": "the server ",
}
_UNDONE = {
    "dns": "the host name cannot be resolved",
    "tcp": "no connection",
    "socket": "no connection",
    "route": "no sentinel or node gives the server's address",
    "tls": "no encryption",
    "auth": "access refused",
    "redis": "no Redis reply",
}


async def diagnose(
    address: Address, ns: str, *, read_only: bool = False, interval_s: float = 1.0, timeout_s: float = 5.0
) -> AsyncIterator[CheckResult]:
    """Yield results as they are made; a failed connection ends them."""
    diagnosis = Diagnosis(address, ns, timeout_s=timeout_s)
    try:
        async for step in diagnosis.connect():
            yield step_result(step)
            if step.failure:
                return
        try:
            async for result in _of_server(diagnosis):
                yield result
            reader = RsmqReader(address, ns, timeout_s=timeout_s)
            try:
                async for result in _of_queues(diagnosis, reader, read_only=read_only, interval_s=interval_s):
                    yield result
            finally:
                await reader.aclose()
        except SERVER_ERRORS as error:
            failure = failure_of(error)
            yield fail("connection.kept", f"the connection was lost: {failure.sentence}", failure.hint)
    finally:
        await diagnosis.aclose()


async def _of_server(diagnosis: Diagnosis) -> AsyncIterator[CheckResult]:
    for result in status_results(await diagnosis.status()):
        yield result
    yield speed_result(await diagnosis.round_trips_ms(_ROUND_TRIPS))
    yield skew_result(await diagnosis.skew())


async def _of_queues(
    diagnosis: Diagnosis, reader: RsmqReader, *, read_only: bool, interval_s: float
) -> AsyncIterator[CheckResult]:
    # The first poll connects and loads the scripts; the second is typical.
    poller = RsmqPoller(reader)
    await poller.poll()
    snapshot = await poller.poll()
    queue = snapshot.queues[0].name if snapshot.queues else None
    for result in permission_results(await diagnosis.permissions(queue), reader.ns, read_only=read_only):
        yield result
    if await diagnosis.tracks():
        yield ok("speed.tracking", "the server reports which queues have changed: polls read only these")
    else:
        words = "the server does not report which queues have changed (CLIENT TRACKING): each poll reads all of them"
        yield warn("speed.tracking", words, "this needs Redis or Valkey 7.2 or later, +client|tracking, and no proxy")
    if failure := snapshot.connection.failure:
        yield fail("queues.poll", f"the queues cannot be read: {failure.sentence}", failure.hint)
        return
    for result in poll_results(snapshot, interval_s, reader.scripts_refused):
        yield result
    namespaces = await reader.namespaces()
    yield namespaces_result(snapshot, namespaces)


def step_result(step: ConnectStep) -> CheckResult:
    """Return the result for one step of the connection."""
    name = f"connection.{step.name}"
    if step.failure is None:
        return ok(name, f"{_DONE.get(step.name, '')}{step.result}")
    return fail(
        name, f"{_UNDONE.get(step.name, 'failed')}: {step.failure.sentence} ({step.result})", _hint(step, step.failure)
    )


def _hint(step: ConnectStep, failure: Failure) -> str:
    match step.name, failure.kind:
        case "redis", "timeout":
            return "something listens there but does not answer: is it Redis, overloaded, or a TLS port (rediss://)?"
        case "redis", "closed" | "error":
            return f"{failure.hint} If it speaks TLS: rediss://" if failure.hint.endswith("?") else failure.hint
        case "tcp", "timeout":
            return "no reply at all: is the host up, and does a firewall block the port?"
    return failure.hint


def permission_results(found: Permissions, ns: str, *, read_only: bool) -> Iterator[CheckResult]:
    """Yield what the user may do, and the permissions that are missing."""
    refused = {need: [(c, f) for c, f in found.refused if c.need is need] for need in Need}
    allowed = {need: any(command.need is need for command in found.allowed) for need in Need}
    user = found.user or "NAME"

    def grant(need: Need) -> str:
        commands = " ".join(dict.fromkeys(f"+{command.name}" for command, _ in refused[need]))
        return f"ACL SETUSER {user} ~{ns}:* {commands}"

    def names(need: Need) -> str:
        return ", ".join(dict.fromkeys(command.name.upper() for command, _ in refused[need]))

    if refused[Need.POLL]:
        yield fail(
            "permissions.poll", f"the state of queues may not be read: {names(Need.POLL)} refused", grant(Need.POLL)
        )
    else:
        yield ok("permissions.poll", "the state of queues may be read")
    if refused[Need.LOOK]:
        words = f"some reads of messages are refused: {names(Need.LOOK)} refused"
        yield warn("permissions.look", words, grant(Need.LOOK))
    else:
        yield ok("permissions.look", "messages may be read and searched")
    if refused[Need.SCRIPTS]:
        words = f"scripts are refused ({names(Need.SCRIPTS)}): polls take more commands, and nothing can be changed"
        yield warn("permissions.scripts", words, grant(Need.SCRIPTS))
    else:
        yield ok("permissions.scripts", "scripts may be run")
    if refused[Need.NAMESPACES]:
        yield warn("permissions.namespaces", "this user may not search for namespaces (SCAN)", grant(Need.NAMESPACES))
    yield _change_result(refused[Need.CHANGE], read_only, allowed[Need.CHANGE], grant(Need.CHANGE), names(Need.CHANGE))


def _change_result(
    refused: Sequence[tuple[object, Failure]], read_only: bool, some_allowed: bool, grant: str, names: str
) -> CheckResult:
    name = "permissions.change"
    other = next((failure for _, failure in refused if failure.kind != "noperm"), None)
    if read_only:
        return ok(name, "nothing will be changed: read-only")
    if other is not None:
        return warn(name, f"changes will fail: {other.sentence}", other.hint)
    if refused:
        return warn(name, f"changes will fail: {names} refused", f"start with --read-only, or {grant}")
    if some_allowed:
        return ok(name, "queues may be changed (checked without changing any)")
    words = "whether changes are allowed cannot be checked without making one"
    return warn(
        name, words, "grant +multi +discard to let doctor check; --read-only makes sure that nothing is changed"
    )


def speed_result(took_ms: Sequence[float]) -> CheckResult:
    """Return the result for round-trip times."""
    ordered = sorted(took_ms)
    # With fewer than 100 samples, p99 is the slowest.
    p99_ms = ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
    words = f"a round trip takes {median(ordered):.1f} ms (min {ordered[0]:.1f}, p99 {p99_ms:.1f}, of {len(ordered)})"
    if median(ordered) > _SLOW_MS:
        return warn("speed.round_trip", words, "pages and changes will feel slow: run it closer to the server")
    return ok("speed.round_trip", words)


def skew_result(skew: Skew) -> CheckResult:
    """Return the result for the clock skew."""
    apart_ms = abs(skew.ahead_ms)
    where = "in step with" if apart_ms < 1 else f"{duration(apart_ms)} {'ahead of' if skew.ahead_ms > 0 else 'behind'}"
    words = f"the server's clock is {where} this machine's (± {skew.uncertainty_ms:.1f} ms)"
    if apart_ms - skew.uncertainty_ms > _SKEW_MS:
        hint = "synchronize both with NTP: the dashboard uses the server's clock, but some clients use their own"
        return warn("speed.clock", words, hint)
    return ok("speed.clock", words)


def poll_results(snapshot: Snapshot, interval_s: float, scripts_refused: str | None) -> Iterator[CheckResult]:
    """Yield results about a poll of all queues."""
    yield _poll_speed("speed.poll", plural(len(snapshot.queues), "queue"), snapshot, interval_s)
    for note in snapshot.notes[: len(snapshot.notes) - (scripts_refused is not None)]:
        yield fail("queues.index", note, "another program uses that key: choose another namespace (--ns)")


def namespaces_result(snapshot: Snapshot, found: Namespaces) -> CheckResult:
    """Return the result for the namespaces, and whether the watched one has queues."""
    names = found.names
    shown = and_more((printable(name, 40) for name in names[:_NAMES_SHOWN]), len(names))
    there = f"; namespaces on the server: {shown}" if names else ""
    there += "" if found.complete else " (not all keys were scanned)"
    here = f"{plural(len(snapshot.queues), 'queue')} in namespace {printable(snapshot.ns, 40)}{there}"
    if snapshot.queues:
        return ok("queues.found", here)
    others = [name for name in names if name != snapshot.ns]
    hint = f"--ns {others[0]}" if others else lists_hint(found.lists)
    hint = hint or "is it the right server, database and namespace? rsmq-tui queues create creates one"
    return warn("queues.found", printable(here, SENTENCE_MAX), hint)


_GOOD_SIZE = (80, 24)


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal: whether input and output are one, its size in cells, its encoding, and the environment."""

    is_terminal: bool
    columns: int
    lines: int
    encoding: str
    environment: Mapping[str, str] = field(default_factory=dict)


def terminal_results(terminal: Terminal) -> Iterator[CheckResult]:
    """Yield results about the terminal."""
    if not terminal.is_terminal:
        words = "input or output is not a terminal: the dashboard needs one"
        yield warn(
            "terminal.tty", words, "run it in a terminal; `rsmq-tui snapshot` and the other commands do not need one"
        )
    else:
        yield _size(terminal)
    kind = terminal.environment.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        yield warn(
            "terminal.kind",
            f"TERM is {kind or 'not set'}: unknown terminal",
            "export TERM=xterm-256color",
        )
    else:
        yield ok("terminal.kind", f"TERM is {kind}, {_colours(kind, terminal.environment)}")
    if "utf" in terminal.encoding.lower() and kind != "linux":
        yield ok("terminal.encoding", f"encoding {terminal.encoding}")
    else:
        words = f"encoding {terminal.encoding or 'unknown'}{' on the Linux console' if kind == 'linux' else ''}"
        yield warn(
            "terminal.encoding",
            f"{words}: only ASCII characters are drawn",
            "export LANG=C.UTF-8, if the font has the characters",
        )
    yield _clipboard(kind, terminal.environment)


def _size(terminal: Terminal) -> CheckResult:
    words = f"{terminal.columns} by {terminal.lines} cells"
    if terminal.columns < _GOOD_SIZE[0] or terminal.lines < _GOOD_SIZE[1]:
        return warn("terminal.size", f"{words}: columns and charts will be left out", "make it 80 by 24 or larger")
    return ok("terminal.size", words)


def _colours(kind: str, environment: Mapping[str, str]) -> str:
    if environment.get("NO_COLOR"):
        return "no colours, because NO_COLOR is set"
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "24-bit colour"
    if "256" in kind or "direct" in kind:
        return "256 colours (set COLORTERM=truecolor if the terminal has more)"
    return "16 colours: --theme rsmq-ansi suits it"


def _clipboard(kind: str, environment: Mapping[str, str]) -> CheckResult:
    words = "copying (y) goes through the terminal, by OSC 52"
    if environment.get("TMUX"):
        return ok("terminal.clipboard", f"{words}, and here through tmux", "tmux needs `set -g set-clipboard on`")
    if kind.startswith("screen"):
        return warn("terminal.clipboard", f"{words}, which GNU screen does not support", "use tmux")
    return ok("terminal.clipboard", words)


def folder_results(state: Path, config: Path) -> Iterator[CheckResult]:
    """Yield results about the folders: whether the journal can be written, and the settings can be read."""
    if (reason := _why_unwritable(state)) is None:
        yield ok("folders.state", f"{state} is writable for the journal of changes")
    else:
        words = f"{state} cannot be written ({reason}): changes will be refused, because they could not be undone"
        yield warn("folders.state", words, "make it writable, or set XDG_STATE_HOME to a folder that is")
    if not config.exists():
        yield ok("folders.config", f"{config} does not exist: default settings are used")
    elif os.access(config, os.R_OK | os.X_OK):
        yield ok("folders.config", f"{config} holds your settings")
    else:
        yield warn("folders.config", f"{config} cannot be read", "make it readable, or set XDG_CONFIG_HOME")


def _why_unwritable(folder: Path) -> str | None:
    """Return why no file can be written in a folder, which need not exist yet; None if one can. Leaves nothing."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_JOURNAL_BYTES))
            file.flush()
            # Some file systems notice only now that they are full.
            os.fsync(file.fileno())
    except OSError as error:
        return reason_of(error)
    return None
