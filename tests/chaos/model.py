"""The model: what lies in the server, who else works there, and what operators asked for and did.

It reads and writes with plain commands, by the protocols of both kinds of queues as their documentation has them, and
shares no code with the program.
"""

import random
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rsmq_tui.triage.actions import Action
from tests.clocked_server import ClockedServer, Word

QUEUES = ("a", "b", "new")
A, B = "queue:a", "queue:b"
WORKING, LEASES = "queue:a:processing", "queue:a:leases"
LISTS = (A, B, WORKING)
_ATTRIBUTES = {"vt": 1000, "delay": 0, "maxsize": 65536, "totalsent": 0, "totalrecv": 0}
_ID_CHARACTERS = string.ascii_letters + string.digits
_TOKEN_LENGTH = 22
FAR_MS = 1_000_000
# How much the server's clock may differ from that of the model, which does not see the time that commands take: what
# others make ready was ready before, so that it makes no difference.
CLOCK_MS = 5_000

# A message is at a place: its queue and its id.
Place = tuple[str, bytes]
Item = tuple[str, bytes]


class Message(NamedTuple):
    """A message as it lies in a queue."""

    score: float
    body: bytes | None
    rc: bytes | None
    fr: bytes | None


class State(NamedTuple):
    """All that lies in the server, except what the program leaves there of its calls.

    ``fields`` are those of the hashes that belong to no message, ``listed`` the queues in the index. Lists are as the
    server has them.
    """

    messages: dict[Place, Message]
    fields: dict[Place, bytes]
    listed: frozenset[bytes]
    lists: dict[str, tuple[bytes, ...]]
    leases: dict[bytes, float]


@dataclass(eq=False)
class Ask:
    """What an operator asked for, what lay there while it was previewed, and what was done for it since.

    ``how`` is the guard: "every", "named", "ready" or "received". ``seen`` has, by place, the scores and receive counts
    that a message had during the preview, which ended at ``seen_ms`` of the server's clock, ``items`` how often each
    item was there at most. ``effects`` has, for each thing that it changed, what that was before and is after; ``came``
    and ``gone`` are items of lists. ``back`` and ``removed`` are the items that undos have put back and removed.
    ``fields`` and ``leases`` have the values that each of them had, and ``is_lost`` is True if the server has lost data
    since. ``part`` are the ids and the items to which an undo is limited, None if it is not.
    """

    operator: str
    action: Action
    how: str
    undoes: "Ask | None" = None
    unsettled: bool = False
    number: int | None = None
    units: int = 0
    previewed: int = 0
    is_previewed: bool = False
    is_reported: bool = False
    seen: dict[Place, set[tuple[float, bytes | None]]] = field(default_factory=dict)
    seen_ms: int = 0
    bodies: dict[Place, bytes | None] = field(default_factory=dict)
    items: Counter[Item] = field(default_factory=Counter)
    effects: dict[tuple[str, Any], list[Any]] = field(default_factory=dict)
    came: Counter[Item] = field(default_factory=Counter)
    gone: Counter[Item] = field(default_factory=Counter)
    back: Counter[Item] = field(default_factory=Counter)
    removed: Counter[Item] = field(default_factory=Counter)
    fields: dict[Place, set[bytes]] = field(default_factory=dict)
    leases: dict[bytes, set[float]] = field(default_factory=dict)
    is_lost: bool = False
    part: frozenset[bytes] | None = None

    @property
    def title(self) -> str:
        """Name it for people."""
        undoes = f" of {self.undoes.title}" if self.undoes else ""
        return f"{self.action.name} {self.action.queue} ({self.how}){undoes}, change {self.number}"

    @property
    def original(self) -> "Ask":
        """The change that undos and redos are about, or itself."""
        return self if self.undoes is None else self.undoes.original

    @property
    def is_undo(self) -> bool:
        """Whether it undoes a change; a redo, the undo of an undo, does not."""
        return self.undoes is not None and not self.undoes.is_undo

    @property
    def taken(self) -> set[Place]:
        """The places of the messages that it has deleted or moved away."""
        messages = ((place, both) for (what, place), both in self.effects.items() if what == "message")
        return {place for place, (found, left) in messages if found is not None and left is None}

    def look(self, state: State, at_ms: int) -> None:
        """Add what lies there now to what the preview, and fields and leases to what the change, may have seen."""
        bodies = {place: message.body for place, message in state.messages.items() if message.body is not None}
        # Of a message that was sent while its queue is being deleted, the change knows the body as a field.
        for place, value in (state.fields | bodies).items():
            self.fields.setdefault(place, set()).add(value)
        for member, deadline_ms in state.leases.items():
            self.leases.setdefault(member, set()).add(deadline_ms)
        if self.is_previewed:
            return
        self.seen_ms = max(self.seen_ms, at_ms)
        for place, message in state.messages.items():
            self.seen.setdefault(place, set()).add((message.score, message.rc))
            self.bodies[place] = message.body
        self.items |= Counter((key, item) for key, items in state.lists.items() for item in items)


class World:
    """A server with messages, and those who work there beside the operators.

    ``state`` is what lies there now. ``taken`` are the places of messages, and ``eaten`` the items, that consumers
    have removed.
    """

    def __init__(self, server: ClockedServer, chance: random.Random) -> None:
        self.server, self.chance = server, chance
        self.taken: set[Place] = set()
        self.eaten: set[bytes] = set()
        self.looking: list[Ask] = []
        self.saved: list[tuple[bytes, bytes, int]] | None = None
        self._number = 0
        self._lay()
        self.state = self.read()

    # Reading

    def read(self) -> State:
        """Read all of it."""
        asked: list[tuple[Word, ...]] = [("SMEMBERS", "rsmq:QUEUES")]
        for queue in QUEUES:
            asked += [("ZRANGE", f"rsmq:{queue}", 0, -1, "WITHSCORES"), ("HGETALL", f"rsmq:{queue}:Q")]
        asked += [("LRANGE", key, 0, -1) for key in LISTS]
        asked.append(("ZRANGE", LEASES, 0, -1, "WITHSCORES"))
        index, *rest = self.server.line.ask(*asked)
        messages: dict[Place, Message] = {}
        fields: dict[Place, bytes] = {}
        for number, queue in enumerate(QUEUES):
            scores, left = _pairs(rest[2 * number]), _pairs(rest[2 * number + 1])
            for id, score in scores.items():
                there = left.pop(id, None), left.pop(id + b":rc", None), left.pop(id + b":fr", None)
                messages[queue, id] = Message(float(score), *there)
            fields |= {(queue, name): value for name, value in left.items()}
        lists = rest[2 * len(QUEUES) : -1]
        return State(
            messages,
            fields,
            frozenset(index),
            {key: tuple(items) for key, items in zip(LISTS, lists, strict=True)},
            {member: float(score) for member, score in _pairs(rest[-1]).items()},
        )

    def changed(self) -> None:
        """Read it anew, for those that are just previewing too."""
        self.state = self.read()
        for ask in self.looking:
            ask.look(self.state, self.at_ms)

    @property
    def at_ms(self) -> int:
        """The server's time in milliseconds."""
        return self.server.at_us // 1000

    # What others do

    def act(self) -> str:
        """Let some consumer, producer or worker do one thing; returns what it was."""
        name, work = self.chance.choice(_WORK)
        work(self)
        self.changed()
        return name

    def send(self, queue: str | None = None, delay_ms: int = 0) -> None:
        """Send a message, as a producer does."""
        queue = queue or self.chance.choice("ab")
        if ("a", b"vt") not in self.state.fields and queue == "a":
            return
        id, body = self._new_id(), self._new_body()
        self._ask(
            ("ZADD", f"rsmq:{queue}", self.at_ms - CLOCK_MS + delay_ms, id),
            ("HSET", f"rsmq:{queue}:Q", id, body),
            ("HINCRBY", f"rsmq:{queue}:Q", "totalsent", 1),
        )

    def send_later(self) -> None:
        """Send a delayed message."""
        self.send(delay_ms=FAR_MS)

    def receive(self, *, deletes: bool = False) -> None:
        """Receive the message that is due first, as a consumer does; with ``deletes``, finish it too."""
        queue, at_ms = self.chance.choice("ab"), self.at_ms
        ready = sorted(
            (message.score, place[1])
            for place, message in self.state.messages.items()
            if place[0] == queue and message.score <= at_ms + CLOCK_MS
        )
        if not ready:
            return
        id, key = ready[0][1], f"rsmq:{queue}:Q"
        due_ms = at_ms + self.chance.choice((-CLOCK_MS, FAR_MS))
        self._ask(
            ("ZADD", f"rsmq:{queue}", due_ms, id),
            ("HINCRBY", key, id + b":rc", 1),
            ("HSETNX", key, id + b":fr", at_ms),
            ("HINCRBY", key, "totalrecv", 1),
        )
        if deletes:
            self._delete((queue, id))

    def receive_and_delete(self) -> None:
        """Do all of a consumer's work."""
        self.receive(deletes=True)

    def delete(self) -> None:
        """Delete a message that was received."""
        received = sorted(place for place, message in self.state.messages.items() if message.rc and place[0] != "new")
        if received:
            self._delete(self.chance.choice(received))

    def change_visibility(self) -> None:
        """Change when a message becomes ready."""
        places = sorted(self.state.messages)
        if places:
            queue, id = self.chance.choice(places)
            due_ms = self.at_ms + self.chance.choice((-CLOCK_MS, FAR_MS // 2))
            self._ask(("ZADD", f"rsmq:{queue}", "XX", due_ms, id))

    def push(self) -> None:
        """Push an item."""
        self._ask(("LPUSH", self.chance.choice((A, B)), self._new_body()))

    def take(self) -> None:
        """Take an item, and finish it."""
        (item,) = self._ask(("RPOP", self.chance.choice((A, B))))
        if item is not None:
            self.eaten.add(item)

    def work(self) -> None:
        """Take an item into processing, often with a lease."""
        (item,) = self._ask(("LMOVE", A, WORKING, "RIGHT", "LEFT"))
        if item is not None and self.chance.random() < 0.7:
            member = b"%0*d:%b" % (_TOKEN_LENGTH, self.chance.randrange(10**9), item)
            self._ask(("ZADD", LEASES, self.at_ms + self.chance.choice((-CLOCK_MS, FAR_MS)), member))

    def finish(self) -> None:
        """Finish an item in processing."""
        items = self.state.lists[WORKING]
        if items:
            item = self.chance.choice(items)
            members = [member for member in self.state.leases if member[_TOKEN_LENGTH + 1 :] == item]
            self._ask(("LREM", WORKING, -1, item), *(("ZREM", LEASES, member) for member in members))
            self.eaten.add(item)

    def recreate(self) -> None:
        """Delete queue a with all its messages, and create it anew."""
        self.taken.update(place for place in self.state.messages if place[0] == "a")
        self._ask(("DEL", "rsmq:a", "rsmq:a:Q"))
        self._create("a")
        self.changed()

    # What happens to the server

    def flush(self) -> None:
        """Lose all data."""
        self._ask(("FLUSHALL",))
        self.changed()

    def save(self) -> None:
        """Note what a replica has got so far."""
        (keys,) = self._ask(("KEYS", "*"))
        replies = self._ask(*(("DUMP", key) for key in keys), *(("PTTL", key) for key in keys))
        self.saved = list(zip(keys, replies[: len(keys)], replies[len(keys) :], strict=True))

    def rewind(self) -> None:
        """Be the replica, which had got no more than what was noted."""
        saved = self.saved or []
        restored = [("RESTORE", key, max(0, left_ms), dump) for key, dump, left_ms in saved]
        self._ask(("FLUSHALL",), ("SCRIPT", "FLUSH"), *restored)
        self.changed()

    # Small things

    def _lay(self) -> None:
        for queue in "ab":
            self._create(queue)
            for number in range(self.chance.randrange(3, 8)):
                id = self._new_id()
                is_hidden, rc = self.chance.random() < 0.3, self.chance.choice((0, 0, 1, 6))
                score = self.at_ms - 1_000_000 + number + (2 * FAR_MS if is_hidden else 0)
                fields: list[Word] = [id, self._new_body()]
                if rc:
                    fields += [id + b":rc", rc, id + b":fr", self.at_ms - 500_000]
                self._ask(("ZADD", f"rsmq:{queue}", score, id), ("HSET", f"rsmq:{queue}:Q", *fields))
        for key in (A, B):
            self._ask(("LPUSH", key, *(self._new_body() for _ in range(self.chance.randrange(3, 9)))))
        self.state = self.read()
        for _ in range(self.chance.randrange(3)):
            self.work()

    def _create(self, queue: str) -> None:
        seconds = self.at_ms // 1000
        words: list[Word] = [word for pair in _ATTRIBUTES.items() for word in pair]
        self._ask(
            ("HSET", f"rsmq:{queue}:Q", *words, "created", seconds, "modified", seconds),
            ("SADD", "rsmq:QUEUES", queue),
        )

    def _delete(self, place: Place) -> None:
        queue, id = place
        self._ask(("ZREM", f"rsmq:{queue}", id), ("HDEL", f"rsmq:{queue}:Q", id, id + b":rc", id + b":fr"))
        self.taken.add(place)

    def _ask(self, *requests: Sequence[Word]) -> list[Any]:
        replies = self.server.line.ask(*requests)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _new_id(self) -> bytes:
        self._number += 1
        us, digits = self.server.at_us + self._number, ""
        while us:
            us, digit = divmod(us, 36)
            digits = (string.digits + string.ascii_lowercase)[digit] + digits
        return (digits.rjust(10, "0") + "".join(self.chance.choices(_ID_CHARACTERS, k=22))).encode()

    def _new_body(self) -> bytes:
        self._number += 1
        return b"theirs %d" % self._number


_WORK = tuple(
    (work.__name__.replace("_", " "), work)
    for work, weight in (
        (World.send, 2),
        (World.send_later, 1),
        (World.receive, 4),
        (World.receive_and_delete, 3),
        (World.delete, 3),
        (World.change_visibility, 2),
        (World.push, 2),
        (World.take, 3),
        (World.work, 2),
        (World.finish, 2),
    )
    for _ in range(weight)
)


def _pairs(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
