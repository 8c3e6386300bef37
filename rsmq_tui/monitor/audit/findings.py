"""The kinds of findings of an audit: cause, effect and fix of each."""

from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from typing import NamedTuple

from rsmq_tui.monitor.text import count


class FindingSeverity(StrEnum):
    """An error prevents messages from being consumed correctly; a warning is anything less."""

    ERROR = "error"
    WARNING = "warning"


class Words(NamedTuple):
    """The texts of a kind: ``one`` and ``many`` say what was found, ``maker`` what probably caused it.

    ``fix`` says what an automatic fix does, None if no fix is safe; ``hint`` then says what to do instead.
    """

    severity: FindingSeverity
    one: str
    many: str
    maker: str
    effect: str
    fix: str | None
    hint: str | None = None


class ListFindingKind(StrEnum):
    """The problems of list queues; the values are those of ``--kind``."""

    TYPE = "list-type"
    UNLEASED = "unleased"
    OVERDUE = "overdue"
    UNIT = "lease-unit"
    ORPHAN = "orphan-lease"
    FORM = "lease-form"
    UNWATCHED = "unwatched"


_ERROR, _WARNING = FindingSeverity.ERROR, FindingSeverity.WARNING
LIST_WORDS = {
    ListFindingKind.TYPE: Words(
        _ERROR,
        "a key of the list queue is of another type",
        "keys of the list queue are of other types",
        "another program that uses the same names",
        "calls on the queue fail with WRONGTYPE",
        None,
        "rename one of them, or set lists_processing and lists_leases in a profile to the right keys",
    ),
    ListFindingKind.UNLEASED: Words(
        _ERROR,
        "item in processing without a lease",
        "items in processing without leases",
        "a consumer that died between its BLMOVE and the lease, or one that takes items without leases",
        "how long it has been there is unknown, and no consumer gets it until a reaper adopts it",
        None,
        "a reaper gives it a grace lease and returns it when that ends; `rsmq-tui messages requeue list:KEY --filter "
        "state:unleased` does it now, `messages ack` removes it",
    ),
    ListFindingKind.OVERDUE: Words(
        _ERROR,
        "lease that ended more than a minute ago",
        "leases that ended more than a minute ago",
        "a consumer that died, and no reaper for this queue",
        "no consumer gets the item, although it was not acknowledged in time",
        None,
        "run a reaper, which returns such items; `rsmq-tui messages requeue list:KEY --filter state:expired` does "
        "it now",
    ),
    ListFindingKind.UNIT: Words(
        _ERROR,
        "lease whose deadline is not in milliseconds",
        "leases whose deadlines are not in milliseconds",
        "a consumer that counts in seconds or microseconds",
        "reapers count in milliseconds: with seconds, the item is returned while it is still in processing; "
        "with microseconds or infinity, the lease never ends",
        None,
        "change that consumer; ZADD XX with the time in ms corrects a lease",
    ),
    ListFindingKind.ORPHAN: Words(
        _WARNING,
        "lease of an item that is not in processing",
        "leases of items that are not in processing",
        "a manual LREM or DEL of the processing list, or a consumer that acknowledges by LREM alone",
        "none for consumers: it takes memory, and counts as expired after its deadline",
        None,
        "a reaper removes it, and so does ZREM",
    ),
    ListFindingKind.FORM: Words(
        _WARNING,
        "lease whose member is not TOKEN:ITEM with a token of 22 letters or digits",
        "leases whose members are not TOKEN:ITEM with a token of 22 letters or digits",
        "another program with its own form of leases, or a manual ZADD",
        "reapers ignore it: its item counts as unleased, is adopted, and may go to two consumers",
        None,
        "set lists_leases in a profile to another key, or remove the member with ZREM",
    ),
    ListFindingKind.UNWATCHED: Words(
        _WARNING,
        "processing list of a queue that is not watched",
        "processing lists of queues that are not watched",
        "consumers of a queue that neither --lists nor the profile includes",
        "no screen and no alert shows it",
        None,
        "add its key to --lists, or to lists of the profile",
    ),
}


class FindingKind(StrEnum):
    """The problems of RSMQ queues; the values are those of ``--kind``."""

    WRONG_TYPE = "wrong-type"
    RESERVED = "reserved-name"
    NO_HASH = "no-hash"
    ATTRIBUTES = "attributes"
    REMAINS = "remains"
    GHOST = "ghost"
    UNLISTED = "unlisted"
    BAD_RC = "bad-rc"
    DANGLING = "dangling"
    FOREIGN_ID = "foreign-id"
    SECONDS = "score-seconds"
    MICROSECONDS = "score-microseconds"
    NEVER = "score-never"
    NO_FR = "no-fr"
    LEAKED = "leaked"
    STRAY = "stray"
    UNKNOWN = "unknown-field"


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of problem in one queue.

    ``count`` is how often it was found, ``ids`` are some of the affected ids (or fields), ``detail`` applies only to
    this finding.
    """

    kind: FindingKind | ListFindingKind
    queue: str
    count: int = 1
    ids: tuple[str, ...] = ()
    detail: str = ""

    @property
    def words(self) -> Words:
        """The severity and the texts of its kind."""
        return LIST_WORDS[self.kind] if isinstance(self.kind, ListFindingKind) else _WORDS[self.kind]

    @property
    def what(self) -> str:
        """What was found, with its count."""
        text = self.words.one if self.count == 1 else f"{count(self.count)} {self.words.many}"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def fix(self) -> str | None:
        """What a fix would do, or None if there is none."""
        return self.words.fix

    @property
    def hint(self) -> str | None:
        """What to do if there is no fix, or None."""
        hint = self.words.hint
        return hint and hint.replace("list:KEY", quote(f"list:{self.queue}"))

    @property
    def asks(self) -> bool:
        """Whether it is fixed only if its kind is named: it is a problem only for some clients."""
        return self.kind in NAMED_ONLY


# Some clients write these on purpose: if only such clients use the queue, nothing needs to be fixed.
NAMED_ONLY = frozenset({FindingKind.FOREIGN_ID, FindingKind.SECONDS, FindingKind.MICROSECONDS, FindingKind.NEVER})

_KEPT = "the journal keeps what is removed"
_WORDS = {
    FindingKind.WRONG_TYPE: Words(
        _ERROR,
        "a key of the queue is of another type",
        "keys of the queue are of other types",
        "another program that uses the same names, or galadd/rsmq-go, which uses another layout",
        "every call on the queue fails with WRONGTYPE",
        None,
    ),
    FindingKind.RESERVED: Words(
        _ERROR,
        "a queue has the name of the index, QUEUES",
        "queues have the name of the index, QUEUES",
        "createQueue with that name: clients accept it",
        "messages sent to it reach no consumer, and deleting it deletes the index of all queues",
        f"removes the name from the index, and its hash; {_KEPT}",
    ),
    FindingKind.NO_HASH: Words(
        _ERROR,
        "message id without the queue's hash",
        "message ids without the queue's hash",
        "expiry or eviction of the :Q key, deleteQueue of grafana/go-rsmq, deleteQueue or EXPIRE of rsmq-rb",
        "clients report queueNotFound; the bodies are lost",
        f"removes the ids, and the name from the index; {_KEPT}",
    ),
    FindingKind.ATTRIBUTES: Words(
        _ERROR,
        "the queue's attributes are incomplete",
        "queues with incomplete attributes",
        "a send during deleteQueue, a manual HDEL, or a client with other attributes",
        "clients report queueNotFound, and its messages cannot be received",
        "adds the missing attributes (vt 30, delay 0, maxsize 65536), and the name to the index",
    ),
    FindingKind.REMAINS: Words(
        _WARNING,
        "only a part of the queue's hash is left",
        "queues with only a part of the hash left",
        "a send or a change of attributes during deleteQueue, or PyRSMQ setting attributes of a missing queue",
        "clients report queueNotFound; createQueue takes over its messages",
        f"removes it; {_KEPT}",
    ),
    FindingKind.GHOST: Words(
        _WARNING,
        "the index names a queue that has no keys",
        "names in the index without keys",
        "a manual DEL, or expiry or eviction of its keys",
        "every client lists it, and reports queueNotFound for every call on it",
        "removes the name from the index",
    ),
    FindingKind.UNLISTED: Words(
        _WARNING,
        "the index does not name the queue",
        "queues that the index does not name",
        "an interrupted createQueue, or one on half a queue, rsmq-rb, or deleteQueue of rsmqCsharp or ebuckley/rsmq",
        "it works, but no client lists it and no dashboard shows it",
        "adds the name to the index (to remove the queue instead: `rsmq-tui queues delete`)",
    ),
    FindingKind.BAD_RC: Words(
        _ERROR,
        "message whose receive count is not a whole number",
        "messages whose receive counts are not whole numbers",
        "a manual edit, or a client that stores other data in <id>:rc",
        "each receive hides the message and then fails: it is never delivered",
        "removes the count, so that the next receive counts from 1",
    ),
    FindingKind.DANGLING: Words(
        _ERROR,
        "message id without a body",
        "message ids without bodies",
        "a manual HDEL, or a client that deletes in two steps (rsmqCsharp, rsmq-rb)",
        "consumers receive only an id and may crash; rsmq_async receives nothing while such an id is first",
        f"removes the ids and their counts; {_KEPT}",
    ),
    FindingKind.FOREIGN_ID: Words(
        _WARNING,
        "message whose id the canonical client cannot delete",
        "messages whose ids the canonical client cannot delete",
        "rsmq_async before 16, rsmq-rb, rsmq4s or ebuckley/rsmq, whose ids are not 32 letters and digits",
        "canonical consumers cannot delete or hide them (invalidFormat), and receive them again and again",
        "replaces ids with canonical ones of the same time, except in flight; the old ids stop working",
    ),
    FindingKind.SECONDS: Words(
        _WARNING,
        "message whose score is in seconds",
        "messages whose scores are in seconds",
        "rsmq_async 7 or rsmq-rb",
        "clients that write milliseconds see it as ready since 1970: never hidden or delayed, and always first",
        "writes the same time in milliseconds; wrong if all consumers of the queue count in seconds",
    ),
    FindingKind.MICROSECONDS: Words(
        _WARNING,
        "message whose score is in microseconds",
        "messages whose scores are in microseconds",
        "rsmq_async with break-js-comp",
        "clients that write milliseconds see it as hidden for thousands of years",
        "writes the same time in milliseconds; wrong if all consumers of the queue count in microseconds",
    ),
    FindingKind.NEVER: Words(
        _WARNING,
        "message whose score is infinite",
        "messages whose scores are infinite",
        "a manual ZADD",
        "the message never becomes visible",
        "makes it visible now; wrong if it was parked there on purpose",
    ),
    FindingKind.NO_FR: Words(
        _WARNING,
        "message without the time of its first receive",
        "messages without the time of their first receive",
        "moves of rsmq_async before 17.4, or rsmq-rb, which leave out <id>:fr",
        "the canonical client reports 1970; PyRSMQ hides the message and raises TypeError",
        "sets it to now",
    ),
    FindingKind.LEAKED: Words(
        _WARNING,
        "body without a message",
        "bodies without messages",
        "deleteMessage of ebuckley/rsmq, or a manual ZREM",
        "no client sees them; they fill the server's memory until the queue is deleted",
        f"removes them and their counts; {_KEPT}",
    ),
    FindingKind.STRAY: Words(
        _WARNING,
        "counter without a message (rc, fr or meta)",
        "counters without messages (rc, fr or meta)",
        "deleteMessage of PyRSMQ up to 0.6.0 or dvdplm/rsmq-rust, or apalis-rsmq (others leave its <id>:meta)",
        "no client sees them; they fill the server's memory until the queue is deleted",
        f"removes them; {_KEPT}",
    ),
    FindingKind.UNKNOWN: Words(
        _WARNING,
        "unknown field",
        "unknown fields",
        "a manual edit, a program that keeps its own data in the queue's hash, or a client with another id format",
        "none: no client reads them; deleting the queue deletes them",
        None,
    ),
}
