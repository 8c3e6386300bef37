"""Changes made with this program, as its audit log has them: a line of JSON for each change that ended.

``triage`` writes the lines. A recording shows only what a change did to the counters of a queue, as if consumers had
done it: reports, replays and the history screen read the log to say what was the work of a change.

A log may be of another version or of another machine, and is not trusted: lines that cannot be read are left out and
counted.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from rsmq_tui.files import JsonError, parse_json, reason_of, regular_file
from rsmq_tui.monitor.text import count, plural, printable
from rsmq_tui.protocol.kinds import Reference, kind_of, read_reference

# Of a longer log, the end is read: about 200,000 changes.
_LOG_BYTES = 100_000_000
# Names of queues may be long, and a byte may take six characters. A longer line was not written by this program.
_LINE_BYTES = 1_000_000
_CHANGES_MAX = 50_000
_NUMBER_MAX = 1 << 53
_NAME_MAX = 200
# How many queues a summary names that a redrive moved messages to.
_MOVED_SHOWN = 3

ON_REQUEST = "stopped on request"
"""How a change ended that its user stopped."""

# How a change ended whose batches all have an outcome. Earlier versions called one that was stopped cancelled.
_BETWEEN_BATCHES = frozenset(("done", ON_REQUEST, "cancelled"))
# What an action counts, if it is not messages; and those that take messages out of their queue.
_OF_QUEUES = frozenset(("create", "set", "fix"))
_OF_QUEUE_AND_MESSAGES = "delete-queue"
_DELETES = frozenset(("delete", "purge"))
_MOVES = frozenset(("move", "redrive"))


class ChangeCounts(NamedTuple):
    """By how much a change alters what the counters of an RSMQ queue say of the ``arrivals`` and ``deletes`` there.

    Deletes are arrivals minus the change of the depth: messages that are put back or moved there lower them.
    """

    queue: Reference
    arrivals: int
    deletes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedChange:
    """A change in the audit log. Its fields up to ``lasted_ms`` are those of its line.

    ``at_ms`` is when it began, by the server's clock; it took at most ``lasted_ms``, None if that is not known.
    ``filter`` says which messages were selected, and may quote bodies. ``part`` is True for an undo of some messages.
    ``ended`` is ``done``, or says why it did not go on. ``past`` is the verb for what was done to ``done`` messages.

    ``moved`` is for a redrive without a target, and for its undos: how many messages were moved, by the other queue.

    ``undone`` is how many of ``done`` are undone now, according to later lines, ``undone_ms`` when the last of them
    were. ``origin`` is the change that an undo or a redo has undone or made again in the end.
    """

    at_ms: int
    action: str
    who: str
    host: str
    profile: str
    server: str
    ns: str
    queue: str
    target: str | None
    filter: str
    planned: int
    done: int
    skipped: int
    failed: int
    ended: str
    change: int
    undoes: int | None
    past: str = ""
    part: bool = False
    lasted_ms: int | None = None
    moved: Mapping[str, int] = field(default_factory=dict, hash=False)
    undone: int = 0
    undone_ms: int | None = None
    origin: "AuditedChange | None" = None
    is_undo: bool = False

    @property
    def line(self) -> str:
        """Its line in the log, without the newline; in ASCII, because names may hold bytes that are not UTF-8."""
        return json.dumps({name: getattr(self, name) for name in _WRITTEN}, ensure_ascii=True)

    @property
    def queues(self) -> tuple[Reference, ...]:
        """Its queue, and those that messages were moved to; of an undo, those that it moved messages back from."""
        target = self.target if self.target is not None or self.origin is None else self.origin.target
        own = queues_of(self.ns, self.queue, target)
        return own if target is not None else (*own, *(own[0]._replace(queue=queue) for queue in self.moved))

    @property
    def subjects(self) -> tuple[tuple[str, str, str], ...]:
        """Its queue and its target, each as its server, namespace and name."""
        return tuple((self.server, one.ns, one.queue) for one in self.queues)

    @property
    def is_complete(self) -> bool:
        """True if it has come to its last message, even if it was stopped or its program ended just after that."""
        return self.ended == "done" or self.done + self.skipped + self.failed >= self.planned

    @property
    def is_certain(self) -> bool:
        """True if it ended between two batches: otherwise, some of ``done`` may be the work of another client."""
        return self.ended in _BETWEEN_BATCHES

    @property
    def amount(self) -> str:
        """What was done of what was planned: ``3 of 4 messages``."""
        done = f"{count(self.done)} of {count(self.planned)}"
        if self.undoes is not None and self.origin is None:
            # Messages or queues, like the change that it undoes.
            return done
        action = self.action if self.origin is None else self.origin.action
        if action == _OF_QUEUE_AND_MESSAGES:
            return f"{done}: the queue and its messages"
        what = "queue" if action in _OF_QUEUES else "message"
        return f"{count(self.done)} of {plural(self.planned, what)}"

    @property
    def summary(self) -> str:
        """What was done to how many messages, printable: ``move: moved 3 of 4 messages to dead, 1 skipped``."""
        to = to_words(self.target, self.moved if self.undoes is None else {}, _NAME_MAX)
        parts = (self.skipped, "skipped"), (self.failed, "failed")
        left = "".join(f", {count(number)} {word}" for number, word in parts if number)
        past = printable(self.past, 40)
        return f"{printable(self.action, 40)}: {f'{past} ' if past else ''}{self.amount}{to}{left}"

    def in_words(self, moment: Callable[[int], str]) -> str:
        """Return what was done, whether it ended early, and of an undo, of which change; ``moment`` formats a time."""
        of = "" if self.origin is None else f" (of the change of {moment(self.origin.at_ms)})"
        return f"{self.summary}{'' if self.is_complete else ', ended early'}{of}"

    def undone_words(self, moment: Callable[[int], str]) -> str:
        """Return when it was undone, and how much of it if not all of it was; empty if nothing was."""
        if self.undone_ms is None:
            return ""
        part = "" if self.undone >= self.done else f"{count(self.undone)} at "
        return f"{part}{moment(self.undone_ms)}"

    @property
    def counts(self) -> tuple[ChangeCounts, ...]:
        """How it shows in the counters of RSMQ queues, if that is known."""
        action, number = (self.action if self.origin is None else self.origin.action), self.done
        if not number or (self.undoes is not None and self.origin is None):
            return ()
        queue, *targets = self.queues
        found: list[ChangeCounts] = []
        if action == "send":
            found.append(ChangeCounts(queue, number, 0))
        elif action in _DELETES | _MOVES:
            found.append(ChangeCounts(queue, 0, number))
        elif action == "import":
            found.append(ChangeCounts(queue, 0, -number))
        if action == "copy":
            # Without another target, the copies are in the queue itself.
            targets = targets or [queue]
        if action in _MOVES | {"copy"}:
            # Items of a list count as sent to an RSMQ queue.
            is_sent = not queue.kind.counts_arrivals
            for to in targets:
                added = self.moved.get(to.queue, 0) if self.moved else number
                found.append(ChangeCounts(to, added if is_sent else 0, 0 if is_sent else -added))
        sign = -1 if self.is_undo else 1
        return tuple(
            ChangeCounts(one.queue, sign * one.arrivals, sign * one.deletes)
            for one in found
            if one.queue.kind.counts_arrivals
        )

    @property
    def _identity(self) -> tuple[object, ...]:
        # A new journal reuses numbers.
        return self.host, self.who, self.server, self.ns, self.change, self.at_ms


_FOUND_LATER = ("undone", "undone_ms", "origin", "is_undo")
_WRITTEN = tuple(one.name for one in fields(AuditedChange) if one.name not in _FOUND_LATER)
_TEXTS = ("action", "who", "host", "profile", "server", "ns", "queue", "filter", "ended", "past")
_NUMBERS = ("at_ms", "change", "planned", "done", "skipped", "failed")


def to_words(target: str | None, moved: Mapping[str, int], limit: int | None = None) -> str:
    """Return where messages went, as the end of a phrase: `` to dead``, or `` to orders (12), mail (3) and 2 more``.

    ``limit`` cuts each name to that many characters.
    """
    if target is not None:
        return f" to {printable(target, limit)}"
    greatest = sorted(moved, key=lambda queue: (-moved[queue], queue))[:_MOVED_SHOWN]
    shown = ", ".join(f"{printable(queue, limit)} ({count(moved[queue])})" for queue in greatest)
    rest = f" and {count(len(moved) - len(greatest))} more" if len(moved) > len(greatest) else ""
    return f" to {shown}{rest}" if shown else ""


def queues_of(ns: str, queue: str, target: str | None) -> tuple[Reference, ...]:
    """Return the queue of a change, and its target if that is another one; ``target`` may be any reference."""
    own = Reference(kind_of(ns), ns, queue)
    if target is None:
        return (own,)
    to = read_reference(target, ns) or own._replace(queue=target)
    return (own,) if to == own else (own, to)


def by_subject(changes: Iterable[AuditedChange]) -> Mapping[tuple[str, ...], Sequence[AuditedChange]]:
    """Return the changes of each queue, namespace and server, by the first three, two and one of its names."""
    found: dict[tuple[str, ...], list[AuditedChange]] = {}
    for change in changes:
        for subject in {subject[:names] for subject in change.subjects for names in (1, 2, 3)}:
            found.setdefault(subject, []).append(change)
    return found


@dataclass(frozen=True, slots=True)
class AuditedChanges:
    """The changes of some audit logs, in the order of time, and a sentence for each log that has other lines."""

    changes: Sequence[AuditedChange] = ()
    problems: Sequence[str] = ()


NO_CHANGES = AuditedChanges()


def read_changes(paths: Iterable[Path], wanted: Callable[[AuditedChange], bool] = lambda _: True) -> AuditedChanges:
    """Return the ``wanted`` changes of some logs; one that does not exist has none. Raises nothing.

    Lines that several logs have are one change. What an undo undoes is wanted with it, as it has the same server.
    """
    found: dict[tuple[object, ...], AuditedChange] = {}
    problems: list[str] = []
    for path in paths:
        try:
            problems += _read(path, wanted, found)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{_name(path)} cannot be read: {reason_of(error)}")
    changes = _linked(found.values())
    if len(changes) > _CHANGES_MAX:
        changes = changes[-_CHANGES_MAX:]
        problems.append(f"only the last {count(_CHANGES_MAX)} changes of the audit logs are shown")
    return AuditedChanges(tuple(changes), tuple(problems))


def logs_version(paths: Iterable[Path]) -> tuple[tuple[int, int] | None, ...]:
    """Return numbers that change whenever somebody writes to one of some logs."""
    return tuple(map(_version, paths))


def _version(path: Path) -> tuple[int, int] | None:
    try:
        status = regular_file(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read(
    path: Path, wanted: Callable[[AuditedChange], bool], found: dict[tuple[object, ...], AuditedChange]
) -> list[str]:
    """Add the wanted changes of a log, and return what is wrong with it, in sentences; raises OSError."""
    problems, left_out = [], 0
    size = regular_file(path).st_size
    with path.open("rb") as log:
        if size > _LOG_BYTES:
            log.seek(size - _LOG_BYTES)
            log.readline(_LINE_BYTES)
            problems.append(f"of {_name(path)}, only the last {count(_LOG_BYTES)} bytes were read")
        for line in _lines(log.readline):
            change = None if line is None else read_line(line)
            if change is None:
                left_out += 1
            elif wanted(change):
                # The last line of a change has its final result.
                found.pop(change._identity, None)
                found[change._identity] = change
    if left_out:
        were = "was" if left_out == 1 else "were"
        problems.append(
            f"{plural(left_out, 'line')} of {_name(path)} {were} left out: no change that this version can read"
        )
    return problems


def _lines(read: Callable[[int], bytes]) -> Iterator[bytes | None]:
    """Yield the lines that are not blank, None for one that is too long."""
    while line := read(_LINE_BYTES):
        is_long = len(line) >= _LINE_BYTES and not line.endswith(b"\n")
        rest = line
        while is_long and rest and not rest.endswith(b"\n"):
            rest = read(_LINE_BYTES)
        if is_long:
            yield None
        elif line.strip():
            yield line


def _name(path: Path) -> str:
    return f"the audit log {printable(path.name, 100)}"


def read_line(text: str | bytes) -> AuditedChange | None:
    """Return the change of a line of the log; None if it has none that this version can read."""
    try:
        found = parse_json(text)
    except JsonError:
        return None
    if not isinstance(found, dict):
        return None
    known: Mapping[str, Any] = {name: found[name] for name in _WRITTEN if name in found}
    if not _is_valid(known):
        return None
    try:
        return AuditedChange(**known)
    except TypeError:
        # A field is missing that every version writes.
        return None


def _is_valid(known: Mapping[str, Any]) -> bool:
    numbers = [known.get(name, 0) for name in _NUMBERS]
    numbers += [known[name] for name in ("undoes", "lasted_ms") if known.get(name) is not None]
    return (
        all(type(known.get(name, "")) is str for name in _TEXTS)
        and all(type(number) is int and 0 <= number < _NUMBER_MAX for number in numbers)
        and isinstance(known.get("target"), str | None)
        and isinstance(known.get("part", False), bool)
        and _is_moved(known.get("moved", {}))
    )


def _is_moved(moved: object) -> bool:
    numbers = moved.values() if isinstance(moved, dict) else [None]
    return all(type(number) is int and 0 < number < _NUMBER_MAX for number in numbers)


def _linked(changes: Iterable[AuditedChange]) -> list[AuditedChange]:
    """Return the changes in the order of time, each with what became of it, and undos with what they undo."""
    ordered = sorted(changes, key=lambda one: (one.at_ms, one.change))
    # The last change with each number, of each user and host.
    latest: dict[tuple[str, int, str | None, str | None], int] = {}
    undoes: dict[int, int] = {}
    for index, change in enumerate(ordered):
        # Each journal counts from 1: that of the same host is meant, or else that of the same user.
        owners = (change.host, change.who), (change.host, None), (None, change.who)
        if change.undoes is not None and change.undoes < change.change:
            earlier = (latest.get((change.server, change.undoes, *owner)) for owner in owners)
            undone_one = next((one for one in earlier if one is not None), None)
            if undone_one is not None:
                undoes[index] = undone_one
        latest.update(dict.fromkeys(((change.server, change.change, *owner) for owner in owners), index))
    undone: Counter[int] = Counter()
    undone_ms: dict[int, int] = {}
    # As the journal does: what a later change has undone of an undo is not undone by it.
    for undo in sorted(undoes, reverse=True):
        number = max(0, ordered[undo].done - undone[undo])
        undone[undoes[undo]] += number
        if number:
            undone_ms.setdefault(undoes[undo], ordered[undo].at_ms)
    linked: list[AuditedChange] = []
    for index, change in enumerate(ordered):
        found: dict[str, Any] = {}
        if index in undone_ms:
            found |= {"undone": min(undone[index], change.done), "undone_ms": undone_ms[index]}
        if index in undoes:
            before = linked[undoes[index]]
            found |= {"origin": before.origin or before, "is_undo": not before.is_undo}
        # Most have neither, and a log may have 200,000.
        linked.append(replace(change, **found) if found else change)
    return linked
