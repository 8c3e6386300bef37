"""The invariants, by name. Each is checked by the model alone; a broken one is a ``Violation``.

only what was asked      A command of an operator changes what its change is for, as it was asked for, and nothing else.
guarded                  A message that was received or changed since the preview is changed only if that was asked for.
nothing lost             What is moved, hidden or put back is all there afterwards: each body, count and time.
nothing doubled          A message is not sent, copied or put back more often than asked for.
undo is the inverse      An undo turns things from what its change left into what its change found, and nothing else.
undo brings back         After all faults, an undo brings back all that nobody has touched since.
taken stays taken        What a consumer has taken does not come back, unless somebody asked for that.
order                    Items of a list that stay there keep their order.
told is done             The report, or after recovery the journal, counts what was changed in the server.
only told errors         An error is told in one printable line; no other exception comes out.
nobody stuck             Whatever is cut or lost, an operator gets an answer or an error.
recovered                After recovery no change is running or without an outcome.
every screen tells its age
                         While a server is silent or gone, it says how old its numbers are, or that it has none.
nothing left behind      What calls left in the server is gone a day after recovery, except what expires by itself.
"""

from collections import Counter
from collections.abc import Iterator, Set
from typing import Any, NamedTuple

from rsmq_tui.triage import actions
from tests.chaos.model import CLOCK_MS, LISTS, WORKING, A, Ask, B, Item, Message, Place, State

_COUNTERS = (b"totalsent", b"totalrecv")
_TOKEN_LENGTH = 22


class Violation(NamedTuple):
    """A broken invariant, and how it was broken."""

    law: str
    how: str


class Diff:
    """What differs between two states."""

    def __init__(self, before: State, after: State) -> None:
        self.before, self.after = before, after
        old, new = before.messages, after.messages
        self.gone = {place: message for place, message in old.items() if place not in new}
        self.came = {place: message for place, message in new.items() if place not in old}
        self.changed = {
            place: (message, new[place]) for place, message in old.items() if place in new and new[place] != message
        }
        self.fields = _different(before.fields, after.fields)
        self.leases = _different(before.leases, after.leases)
        self.listed = after.listed - before.listed
        self.unlisted = before.listed - after.listed
        self.items_gone: Counter[Item] = Counter()
        self.items_came: Counter[Item] = Counter()
        for key in LISTS:
            if before.lists[key] != after.lists[key]:
                there, now = Counter(before.lists[key]), Counter(after.lists[key])
                self.items_gone.update({(key, item): count for item, count in (there - now).items()})
                self.items_came.update({(key, item): count for item, count in (now - there).items()})

    @property
    def attributes(self) -> dict[Place, tuple[bytes | None, bytes | None]]:
        """The fields but the totals."""
        return {place: both for place, both in self.fields.items() if place[1] not in _COUNTERS}


def broken_by(ask: Ask | None, before: State, after: State, at_ms: int) -> Violation | None:
    """Return the first law that a command of an operator broke, and note in ``ask`` what the command did."""
    diff = Diff(before, after)
    if ask is None:
        return Violation("only what was asked", f"something was changed for nothing: {_shown(diff)}")
    found = next((found for found in _broken(ask, diff, at_ms) if found is not None), None)
    _note(ask, diff)
    if found is None:
        return None
    return Violation(found.law, f"{ask.title}: {found.how}; {_shown(diff)}")


def _broken(ask: Ask, diff: Diff, at_ms: int) -> Iterator[Violation | None]:
    yield _order(diff)
    yield _totals(ask, diff)
    if isinstance(ask.action, actions.Undo):
        yield from _undo(ask, diff)
        return
    action = ask.action
    is_list = action.queue in (A, B)
    yield _leases(ask, diff)
    # What is taken from a queue, or changed there.
    taken = {**diff.gone, **{place: old for place, (old, _) in diff.changed.items()}}
    for place, message in taken.items():
        if is_list or place[0] != action.queue:
            yield Violation("only what was asked", f"{place} is not in the queue")
        elif not _may_change(ask, place, message, at_ms):
            yield Violation("guarded", f"{place} {message} is not as it was previewed: {ask.seen.get(place)}")
    for item, count in diff.items_gone.items():
        if not is_list or item[0] not in (action.queue, WORKING):
            yield Violation("only what was asked", f"{item} is not in the queue")
        elif ask.gone[item] + count > ask.items[item]:
            yield Violation("guarded", f"{item} was not there at the preview")
    yield from _as_asked(ask, diff)


def _as_asked(ask: Ask, diff: Diff) -> Iterator[Violation | None]:  # noqa: PLR0912 - a case for each action
    """Check what the action does to what it takes."""
    action = ask.action
    match action:
        case actions.Hide() | actions.Release() if action.queue not in (A, B):
            yield _nothing_else(diff, "changed")
            for place, (old, new) in diff.changed.items():
                if old._replace(score=0) != new._replace(score=0):
                    yield Violation("nothing lost", f"more than the time of {place} has changed")
        case actions.Hide():
            yield _nothing_else(diff, "leases")
        case actions.Requeue() | actions.Release():
            yield _nothing_else(diff, "items", "leases")
            moved = {(action.queue, item): count for (_, item), count in diff.items_gone.items()}
            if any(key != WORKING for key, _ in diff.items_gone) or Counter(moved) != diff.items_came:
                yield Violation("nothing lost", "what left processing is not in the queue")
        case actions.DeleteQueue():
            yield _nothing_else(diff, "gone", "fields", "unlisted")
            if any(queue != action.queue or new is not None for (queue, _), (_, new) in diff.fields.items()):
                yield Violation("only what was asked", "fields were changed")
        case actions.Delete() | actions.Pop() | actions.Trim() | actions.Ack():
            yield _nothing_else(diff, "gone", "items gone", "leases")
        case actions.Move(target=target) | actions.Redrive(target=target) if target is not None:
            yield from _moved(ask, diff, target.removeprefix("list:").removeprefix("rsmq:").removeprefix("rsmq/"))
        case actions.Send():
            yield _nothing_else(diff, "came", "items came", "totals")
            bodies = Counter(message.body for message in diff.came.values())
            bodies.update({item: count for (_, item), count in diff.items_came.items()})
            so_far = Counter(after.body for _, after in _messages(ask) if after is not None)
            so_far.update({item: count for (_, item), count in ask.came.items()})
            if so_far + bodies - Counter(action.bodies):
                yield Violation("nothing doubled", f"sent {so_far + bodies} of {action.bodies}")
        case actions.CreateQueue():
            yield _nothing_else(diff, "fields", "listed")
            if any(old is not None for old, _ in diff.attributes.values()):
                yield Violation("only what was asked", "attributes of a queue that was there")
        case actions.SetAttributes():
            yield _nothing_else(diff, "fields")
            allowed = {b"vt", b"delay", b"maxsize", b"modified"}
            if any(queue != action.queue or name not in allowed for queue, name in diff.fields):
                yield Violation("only what was asked", "other fields were changed")
        case _:
            yield Violation("only what was asked", f"the laws do not know {action.name}")


def _moved(ask: Ask, diff: Diff, target: str) -> Iterator[Violation | None]:
    """Check what was moved or copied to a target: each is there once, as it was."""
    action = ask.action
    if isinstance(action, actions.Move) and action.create and diff.listed:
        # The target is created first.
        yield _nothing_else(diff, "fields", "listed")
        return
    yield _nothing_else(diff, "came", "gone", "items came", "items gone", "totals", "leases")
    came = Counter(message.body for message in diff.came.values())
    came.update({item: count for (_, item), count in diff.items_came.items()})
    where = {place[0] for place in diff.came} | {key for key, _ in diff.items_came}
    if where - {target}:
        yield Violation("only what was asked", f"something came to {where}")
    if isinstance(action, actions.Copy):
        if diff.gone or diff.items_gone:
            yield Violation("nothing lost", "a copy took something away")
        so_far = Counter(after.body for _, after in _messages(ask) if after is not None)
        so_far.update({item: count for (_, item), count in ask.came.items()})
        there = Counter(ask.bodies[place] for place in ask.seen if place[0] == action.queue)
        there.update({item: count for (key, item), count in ask.items.items() if key in (action.queue, WORKING)})
        if so_far + came - there:
            yield Violation("nothing doubled", "something was copied more often than it was there")
        return
    gone = Counter(message.body for message in diff.gone.values())
    gone.update({item: 0 for _, item in diff.items_gone})
    for (_, item), count in diff.items_gone.items():
        gone[item] += count
    if came - gone:
        yield Violation("nothing doubled", "something came that did not go")
    if gone - came:
        yield Violation("nothing lost", "something went that did not come")
    if (
        isinstance(action, actions.Move)
        and diff.gone
        and diff.came
        and Counter(diff.gone.values()) != Counter(diff.came.values())
    ):
        yield Violation("nothing lost", "something was moved otherwise than as it was")


def _undo(ask: Ask, diff: Diff) -> Iterator[Violation | None]:
    """Check that what an undo changes was as its change had left it, and is as its change had found it."""
    undone = ask.undoes
    assert undone is not None
    yield _of_part(ask, diff)
    for place in {*diff.gone, *diff.came, *diff.changed}:
        old, new = diff.before.messages.get(place), diff.after.messages.get(place)
        found, left = undone.effects.get(("message", place), (None, None))
        if ("message", place) not in undone.effects:
            if not (ask.unsettled and old is None and place in undone.seen):
                yield Violation("undo is the inverse", f"{place} was not the change's: {old} -> {new}")
        elif not (_is_same(old, left) and _is_again(found, new)):
            yield Violation("undo is the inverse", f"{place}: {found} -> {left}, undone {old} -> {new}")
    for place, (old_field, new_field) in diff.attributes.items():
        found, left = undone.effects.get(("field", place), (None, None))
        if (left, found) != (old_field, new_field) and not _is_of_lost_data(undone, place, old_field, new_field):
            yield Violation(
                "undo is the inverse", f"field {place}: {found!r} -> {left!r}, {old_field!r} -> {new_field!r}"
            )
    for queue in diff.listed | diff.unlisted:
        is_back = queue in diff.listed and undone.is_lost and isinstance(undone.action, actions.DeleteQueue)
        if ("index", queue) not in undone.effects and not is_back:
            yield Violation("undo is the inverse", f"the index was not changed for {queue!r}")
    is_moved_back = ask.unsettled and _is_moved_back(undone, diff)
    may_be_back = is_moved_back or (ask.unsettled and undone.is_lost and not isinstance(undone.action, _MOVES))
    for member, (old_lease, new_lease) in diff.leases.items():
        found, left = undone.effects.get(("lease", member), (None, None))
        is_back = may_be_back and old_lease is None and new_lease in undone.leases.get(member, ())
        if (left, found) != (old_lease, new_lease) and not is_back:
            yield Violation("undo is the inverse", f"lease {member!r}: {found} -> {left}, {old_lease} -> {new_lease}")
    allowed = undone.gone | undone.items if ask.unsettled or is_moved_back else undone.gone
    if excess := diff.items_came + undone.back - allowed:
        law = "nothing doubled" if undone.back else "undo is the inverse"
        yield Violation(law, f"items were put back that the change had not taken: {excess}")
    put = undone.came | undone.items if ask.unsettled else undone.came
    if (excess := diff.items_gone + undone.removed - put) and not is_moved_back:
        yield Violation("undo is the inverse", f"items were removed that the change had not put there: {excess}")


def _of_part(ask: Ask, diff: Diff) -> Violation | None:
    """Check that the undo of a part changes nothing else."""
    if ask.part is None:
        return None
    moved = [(place[1], message.body) for place, message in (*diff.gone.items(), *diff.came.items())]
    changed = {id for id, _ in moved} | {place[1] for place in diff.changed}
    changed |= {item for _, item in diff.items_came + diff.items_gone}
    # A redrive gives a message another id: each of the two names it.
    bodies = {body for id, body in moved if id in ask.part}
    others = changed - ask.part - {id for id, body in moved if body in bodies}
    return Violation("only what was asked", f"{others} are not of the part") if others else None


def _is_of_lost_data(undone: Ask, place: Place, old: bytes | None, new: bytes | None) -> bool:
    """Return whether an undo changes a field of which the server has lost who changed it.

    It restores a field of a deleted queue; or, if an undo is undone, changes the field as the first change did.
    """
    if not undone.is_lost:
        return False
    if isinstance(undone.action, actions.DeleteQueue):
        return old is None and new in undone.fields.get(place, ())
    return undone.undoes is not None and undone.undoes.effects.get(("field", place)) == [old, new]


_MOVES = (actions.Move, actions.Redrive, actions.Requeue, actions.Release)


def _is_moved_back(undone: Ask, diff: Diff) -> bool:
    """Return whether an undo moves items back of which the server has lost who moved them; each is there once."""
    moves = isinstance(undone.action, _MOVES)
    gone: Counter[bytes] = Counter()
    came: Counter[bytes] = Counter()
    for bodies, items in ((gone, diff.items_gone), (came, diff.items_came)):
        for (_, body), count in items.items():
            bodies[body] += count
    return undone.is_lost and moves and not isinstance(undone.action, actions.Copy) and gone == came


def _note(ask: Ask, diff: Diff) -> None:
    things: dict[tuple[str, Any], tuple[Any, Any]] = {}
    for place in {*diff.gone, *diff.came, *diff.changed}:
        things["message", place] = diff.before.messages.get(place), diff.after.messages.get(place)
    things |= {("field", place): both for place, both in diff.fields.items()}
    things |= {("lease", member): both for member, both in diff.leases.items()}
    things |= {("index", queue): (False, True) for queue in diff.listed}
    things |= {("index", queue): (True, False) for queue in diff.unlisted}
    for thing, (old, new) in things.items():
        ask.effects.setdefault(thing, [old, new])[1] = new
    ask.came += diff.items_came
    ask.gone += diff.items_gone
    if isinstance(ask.action, actions.Copy | actions.Send):
        ask.units += len(diff.came) + diff.items_came.total()
    else:
        ask.units += len({*diff.gone, *diff.changed}) + diff.items_gone.total()
    if (undone := ask.undoes) is not None:
        undone.back += diff.items_came
        undone.removed += diff.items_gone
        if (first := undone.undoes) is not None:
            # Made again: it can be undone once more.
            first.back -= diff.items_gone
            first.removed -= diff.items_came


def _may_change(ask: Ask, place: Place, message: Message, at_ms: int) -> bool:
    """Return whether a message still is what the change was asked for."""
    seen = ask.seen.get(place)
    if seen is None:
        return False
    match ask.how:
        case "named":
            return (message.score, message.rc) in seen
        case "ready":
            # The clock may have been set back since the preview.
            return message.score <= at_ms + CLOCK_MS and any(score <= ask.seen_ms + CLOCK_MS for score, _ in seen)
        case "received":
            return message.rc is not None and any(rc is not None for _, rc in seen)
    return True


def _is_same(now: Message | None, left: Message | None) -> bool:
    if now is None or left is None:
        return now is left
    return (now.score, now.rc) == (left.score, left.rc)


def _is_again(found: Message | None, new: Message | None) -> bool:
    return found == new


def _messages(ask: Ask) -> list[tuple[Message | None, Message | None]]:
    return [(before, after) for (what, _), (before, after) in ask.effects.items() if what == "message"]


def _order(diff: Diff) -> Violation | None:
    for key in LISTS:
        old, new = diff.before.lists[key], diff.after.lists[key]
        if old != new:
            # Of equal items nobody can tell which is which.
            both = {item for item in old if old.count(item) == new.count(item) == 1}
            if [item for item in old if item in both] != [item for item in new if item in both]:
                return Violation("order", f"{key}: {old} -> {new}")
    return None


def _totals(ask: Ask, diff: Diff) -> Violation | None:
    """A total counts what came, or no longer counts what went; that of a queue comes and goes with the queue."""
    original = ask.original.action
    deleted = original.queue if isinstance(original, actions.DeleteQueue) else None
    for (queue, name), (old, new) in diff.fields.items():
        # A queue that has lost its attributes is not in the index.
        if name not in _COUNTERS or diff.unlisted or diff.listed or queue == deleted:
            continue
        delta = int(new or 0) - int(old or 0)
        came = sum(place[0] == queue for place in diff.came)
        gone = sum(place[0] == queue for place in diff.gone)
        if delta not in (0, came, -gone):
            return Violation("only what was asked", f"{name.decode()} of {queue}: {old!r} -> {new!r}")
    return None


def _leases(ask: Ask, diff: Diff) -> Violation | None:
    """A lease goes with its item only; a new one is asked for."""
    for member, (_, new) in diff.leases.items():
        is_asked = isinstance(ask.action, actions.Hide)
        if not is_asked and (new is not None or not diff.items_gone[WORKING, member[_TOKEN_LENGTH + 1 :]]):
            return Violation("only what was asked", f"the lease {member!r}")
    return None


def _nothing_else(diff: Diff, *allowed: str) -> Violation | None:
    parts: dict[str, Any] = {
        "gone": diff.gone,
        "came": diff.came,
        "changed": diff.changed,
        "fields": diff.attributes,
        "totals": {place for place in diff.fields if place[1] in _COUNTERS},
        "leases": diff.leases,
        "listed": diff.listed,
        "unlisted": diff.unlisted,
        "items gone": diff.items_gone,
        "items came": diff.items_came,
    }
    for name, part in parts.items():
        is_allowed = name in allowed or ("items" in allowed and name.startswith("items"))
        if part and not is_allowed and not (name == "totals" and "fields" in allowed):
            return Violation("only what was asked", f"{name}: {part}")
    return None


def _different(old: dict[Any, Any], new: dict[Any, Any]) -> dict[Any, tuple[Any, Any]]:
    if old == new:
        return {}
    return {name: (old.get(name), new.get(name)) for name in {*old, *new} if old.get(name) != new.get(name)}


def _shown(diff: Diff) -> str:
    parts = {name: value for name, value in vars(diff).items() if value and name not in ("before", "after")}
    return ", ".join(f"{name} {value}" for name, value in parts.items())


def not_brought_back(undone: Ask, before: State, after: State, taken: Set[Place]) -> Violation | None:
    """Return what an undo left that nobody had touched since the change; ``before`` and ``after`` are of the undo.

    ``taken`` are the places of messages that consumers or other changes have removed.
    """
    action = undone.original.action
    moves = isinstance(action, actions.Move | actions.Redrive) and not isinstance(action, actions.Copy)
    there = {item for key, item in undone.came if item in before.lists[key]}
    there |= {
        left.body or b""
        for (what, place), (_, left) in undone.effects.items()
        if what == "message" and left is not None and _is_same(before.messages.get(place), left)
    }
    occupied = {
        place[1]
        for (what, place), (found, left) in undone.effects.items()
        if what == "message" and found is not None and left is None and place in before.messages
    }
    for (what, place), (found, left) in undone.effects.items():
        if what != "message" or not _is_same(before.messages.get(place), left) or after.messages.get(place) == found:
            continue
        if moves and found is not None and left is None and (found.body or b"") not in there:
            # Somebody has taken it from where it was moved to.
            continue
        if moves and place[1] in occupied:
            # What another change has put there under its id, such as a copy, is still there: the undo says so.
            continue
        if left is None and place in taken:
            # An earlier undo, of a part or not to its end, has put it back, and somebody else has taken it.
            continue
        return Violation("undo brings back", f"{undone.title}: {place} is {after.messages.get(place)}, not {found}")
    return None
