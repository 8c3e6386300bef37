"""Whether a server can be watched, what keeps it from being watched, and what to do about it."""

from collections.abc import AsyncIterator, Iterator, Sequence
from statistics import median

from rsmq_tui.monitor.diagnoses import Finding, fail, ok, warn
from rsmq_tui.monitor.poller import LivePoller
from rsmq_tui.monitor.server_findings import server_findings
from rsmq_tui.monitor.snapshot import Snapshot
from rsmq_tui.monitor.wording import SENTENCE_MAX, duration, plural, printable
from rsmq_tui.protocol import SERVER_ERRORS, Address, Failure, QueueReader, failure_of
from rsmq_tui.protocol.diagnosis import Diagnosis, Permissions, Skew, Step
from rsmq_tui.protocol.permissions import Need

_ROUND_TRIPS = 20
_SLOW_MS = 50.0
_SKEW_MS = 1_000.0
_NAMES_SHOWN = 10
_DONE = {
    "dns": "the host is known: ",
    "tcp": "connected to ",
    "socket": "connected to ",
    "tls": "encrypted: ",
    "auth": "access granted ",
    "redis": "the server ",
}
_UNDONE = {
    "dns": "the host cannot be found",
    "tcp": "no connection",
    "socket": "no connection",
    "route": "no sentinel or node gives the server's address",
    "tls": "no encryption",
    "auth": "access refused",
    "redis": "no Redis reply",
}


async def diagnose(
    address: Address, ns: str, *, read_only: bool = False, interval_s: float = 1.0, timeout_s: float = 5.0
) -> AsyncIterator[Finding]:
    """Yield what is found, as it is found; what comes after a failure of the connection is left out."""
    diagnosis = Diagnosis(address, ns, timeout_s=timeout_s)
    try:
        async for step in diagnosis.approach():
            yield step_finding(step)
            if step.failure:
                return
        try:
            async for finding in _of_server(diagnosis):
                yield finding
            reader = QueueReader(address, ns, timeout_s=timeout_s)
            try:
                async for finding in _of_queues(diagnosis, reader, read_only=read_only, interval_s=interval_s):
                    yield finding
            finally:
                await reader.aclose()
        except SERVER_ERRORS as error:
            failure = failure_of(error)
            yield fail("connection.kept", f"the connection was lost: {failure.sentence}", failure.hint)
    finally:
        await diagnosis.aclose()


async def _of_server(diagnosis: Diagnosis) -> AsyncIterator[Finding]:
    try:
        info = await diagnosis.info()
    except SERVER_ERRORS as error:
        if failure_of(error).kind not in ("noperm", "error"):
            raise
        words = "this user may not read the version, role, memory and disk of the server (INFO)"
        yield warn("server.kind", words, "the dashboard works without it; grant +info to let doctor check them")
    else:
        for finding in server_findings(info, await diagnosis.saves()):
            yield finding
    yield speed_finding(await diagnosis.round_trips_ms(_ROUND_TRIPS))
    yield skew_finding(await diagnosis.skew())


async def _of_queues(
    diagnosis: Diagnosis, reader: QueueReader, *, read_only: bool, interval_s: float
) -> AsyncIterator[Finding]:
    # The first poll connects and teaches the server the scripts: the second is as all others will be.
    poller = LivePoller(reader)
    await poller.poll()
    snapshot = await poller.poll()
    queue = snapshot.queues[0].name if snapshot.queues else None
    for finding in permission_findings(await diagnosis.permissions(queue), reader.ns, read_only=read_only):
        yield finding
    if await diagnosis.tracks():
        yield ok("speed.tracking", "the server reports which queues have changed: polls read only these")
    else:
        words = "the server does not report which queues have changed (CLIENT TRACKING): each poll reads all of them"
        yield warn("speed.tracking", words, "this needs Redis or Valkey 7.2 or later, +client|tracking, and no proxy")
    if failure := snapshot.link.failure:
        yield fail("queues.poll", f"the queues cannot be read: {failure.sentence}", failure.hint)
        return
    for finding in poll_findings(snapshot, interval_s, reader.scripts_refused):
        yield finding
    namespaces = await reader.namespaces()
    yield namespaces_finding(snapshot, namespaces.names, complete=namespaces.complete)


def step_finding(step: Step) -> Finding:
    """Say how a step on the way to the server went."""
    name = f"connection.{step.name}"
    if step.failure is None:
        return ok(name, f"{_DONE.get(step.name, '')}{step.told}")
    return fail(
        name, f"{_UNDONE.get(step.name, 'failed')}: {step.failure.sentence} ({step.told})", _hint(step, step.failure)
    )


def _hint(step: Step, failure: Failure) -> str:
    match step.name, failure.kind:
        case "redis", "timeout":
            return "something listens there but does not answer: is it Redis, overloaded, or a TLS port (rediss://)?"
        case "redis", "closed" | "error":
            return f"{failure.hint} If it speaks TLS: rediss://" if failure.hint.endswith("?") else failure.hint
        case "tcp", "timeout":
            return "no reply at all: is the host up, and does a firewall block the port?"
    return failure.hint


def permission_findings(found: Permissions, ns: str, *, read_only: bool) -> Iterator[Finding]:
    """Say what the user may do, and what he would have to be granted."""
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
    yield _change_finding(refused[Need.CHANGE], read_only, allowed[Need.CHANGE], grant(Need.CHANGE), names(Need.CHANGE))


def _change_finding(
    refused: Sequence[tuple[object, Failure]], read_only: bool, some_allowed: bool, grant: str, names: str
) -> Finding:
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


def speed_finding(took_ms: Sequence[float]) -> Finding:
    """Say how long round trips take."""
    ordered = sorted(took_ms)
    # Of a hundred or fewer the slowest is the 99th.
    p99_ms = ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
    words = f"a round trip takes {median(ordered):.1f} ms (min {ordered[0]:.1f}, p99 {p99_ms:.1f}, of {len(ordered)})"
    if median(ordered) > _SLOW_MS:
        return warn("speed.round_trip", words, "pages and changes will feel slow: run it closer to the server")
    return ok("speed.round_trip", words)


def skew_finding(skew: Skew) -> Finding:
    """Say how far apart the clocks are."""
    apart_ms = abs(skew.ahead_ms)
    where = "with" if apart_ms < 1 else f"{duration(apart_ms)} {'ahead of' if skew.ahead_ms > 0 else 'behind'}"
    words = f"the server's clock is {where} this machine's (± {skew.uncertainty_ms:.1f} ms)"
    if apart_ms - skew.uncertainty_ms > _SKEW_MS:
        hint = "synchronize both with NTP: the dashboard uses the server's clock, but some clients use their own"
        return warn("speed.clock", words, hint)
    return ok("speed.clock", words)


def poll_findings(snapshot: Snapshot, interval_s: float, scripts_refused: str | None) -> Iterator[Finding]:
    """Say what a poll of all queues brings and takes."""
    cost = snapshot.cost
    words = f"a poll of {plural(len(snapshot.queues), 'queue')} takes {cost.poll_ms:.1f} ms"
    if cost.poll_ms > interval_s * 1000:
        yield warn("speed.poll", f"{words}, longer than its interval of {interval_s:g} s", "raise --interval")
    else:
        yield ok("speed.poll", words)
    for note in snapshot.notes[: len(snapshot.notes) - (scripts_refused is not None)]:
        yield fail("queues.index", note, "another program uses that key: choose another namespace (--ns)")


def namespaces_finding(snapshot: Snapshot, names: Sequence[str], *, complete: bool) -> Finding:
    """Say which namespaces there are, and whether the one that is watched has queues."""
    shown = ", ".join(printable(name, 40) for name in names[:_NAMES_SHOWN])
    if len(names) > _NAMES_SHOWN:
        shown += f" and {len(names) - _NAMES_SHOWN} more"
    there = f"; namespaces on the server: {shown}" if names else ""
    there += "" if complete else " (not all keys were scanned)"
    here = f"{plural(len(snapshot.queues), 'queue')} in namespace {printable(snapshot.ns, 40)}{there}"
    if snapshot.queues:
        return ok("queues.found", here)
    others = [name for name in names if name != snapshot.ns]
    hint = (
        f"--ns {others[0]}"
        if others
        else "is it the right server, database and namespace? rsmq-tui queues create creates one"
    )
    return warn("queues.found", printable(here, SENTENCE_MAX), hint)
