"""The commands that are needed here, and for what: the list that permissions are checked against."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rsmq_tui.protocol.keys import Keys

# No queue can be called so by the canonical client before it is there: what is asked of it changes nothing.
_NOBODYS = "rsmq-tui-doctor"


class Need(StrEnum):
    """What a command is needed for."""

    POLL = "the state of all queues"
    LOOK = "messages, searches and audits"
    SCRIPTS = "scripts"
    NAMESPACES = "finding namespaces"
    CHANGE = "changes"


@dataclass(frozen=True, slots=True)
class Command:
    """One command in the words that it would be sent in; ``name`` is the one that an ACL knows."""

    need: Need
    words: Sequence[bytes | str | int]

    @property
    def name(self) -> str:
        """The command's name in lower case."""
        return str(self.words[0]).lower()

    @property
    def writes(self) -> bool:
        """Whether it would change something."""
        return self.need is Need.CHANGE


def commands_for(ns: str, queue: str | None) -> tuple[Command, ...]:
    """Return what is needed on the keys of a namespace: reads of ``queue`` if there is one, changes of nobody's."""
    keys = Keys(ns)
    zset, attributes = keys.messages(queue or _NOBODYS), keys.attributes(queue or _NOBODYS)
    made, made_of = keys.messages(_NOBODYS), keys.attributes(_NOBODYS)
    needed: dict[Need, tuple[Sequence[bytes | str | int], ...]] = {
        Need.POLL: (
            ("TIME",),
            ("SMEMBERS", keys.index),
            ("HMGET", attributes, "vt"),
            ("ZCARD", zset),
            ("ZCOUNT", zset, 0, 1),
            ("ZRANGE", zset, 0, 0),
        ),
        Need.LOOK: (
            ("HGET", attributes, "vt"),
            ("HEXISTS", attributes, "vt"),
            ("HSTRLEN", attributes, "vt"),
            ("ZRANK", zset, "m"),
            ("ZSCORE", zset, "m"),
            ("ZSCAN", zset, 0),
            ("TYPE", zset),
            ("HLEN", attributes),
            ("HSCAN", attributes, 0, "COUNT", 1),
            ("SISMEMBER", keys.index, _NOBODYS),
            ("SCARD", keys.index),
            ("SSCAN", keys.index, 0, "COUNT", 1),
        ),
        Need.SCRIPTS: (("EVAL", "return 1", 1, zset), ("EVALSHA", "0" * 40, 1, zset)),
        Need.NAMESPACES: (("SCAN", 0),),
        Need.CHANGE: (
            ("SADD", keys.index, _NOBODYS),
            ("SREM", keys.index, _NOBODYS),
            ("HSET", made_of, "vt", 30),
            ("HINCRBY", made_of, "totalsent", 1),
            ("HDEL", made_of, "vt"),
            ("ZADD", made, 1, "m"),
            ("ZREM", made, "m"),
            ("SET", keys.marker("doctor"), "1"),
            ("GET", keys.marker("doctor")),
            ("EXISTS", keys.marker("doctor")),
            ("DEL", made),
        ),
    }
    return tuple(Command(need, words) for need, commands in needed.items() for words in commands)
