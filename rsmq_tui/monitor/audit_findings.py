"""What an audit finds: each kind of it, what it is, what probably made it, what it does, and what mends it."""

from dataclasses import dataclass
from enum import StrEnum

from rsmq_tui.monitor.audit_words import Severity, Words
from rsmq_tui.monitor.list_findings import LIST_WORDS, ListFindingKind
from rsmq_tui.monitor.wording import count


class FindingKind(StrEnum):
    """What does not fit together; the names are those of ``--kind``."""

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
    """One kind of trouble in one queue.

    ``count`` says how often it was found, ``ids`` are some of the ids (or fields) that have it, ``detail`` is what
    only this finding knows.
    """

    kind: FindingKind | ListFindingKind
    queue: str
    count: int = 1
    ids: tuple[str, ...] = ()
    detail: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return _words_of(self.kind).severity

    @property
    def what(self) -> str:
        """What it is, with its number."""
        words = _words_of(self.kind)
        told = words.one if self.count == 1 else f"{count(self.count)} {words.many}"
        return f"{told}: {self.detail}" if self.detail else told

    @property
    def maker(self) -> str:
        """What probably made it."""
        return _words_of(self.kind).maker

    @property
    def effect(self) -> str:
        """What it does to consumers."""
        return _words_of(self.kind).effect

    @property
    def fix(self) -> str | None:
        """What a fix would do, or None where there is none."""
        return _words_of(self.kind).fix

    @property
    def hint(self) -> str | None:
        """What helps where there is no fix, if anything is known to."""
        return _words_of(self.kind).hint

    @property
    def asks(self) -> bool:
        """Whether it is fixed only when its kind is named: who else reads the queue decides whether it is wrong."""
        return self.kind in NAMED_ONLY


# Clients exist for which these are right: where all that read a queue are such clients, nothing is to be mended.
NAMED_ONLY = frozenset({FindingKind.FOREIGN_ID, FindingKind.SECONDS, FindingKind.MICROSECONDS, FindingKind.NEVER})

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_KEPT = "what it takes away stays in the journal"
_WORDS = {
    FindingKind.WRONG_TYPE: Words(
        _ERROR,
        "a key of the queue is of another type",
        "keys of the queue are of other types",
        "another program that uses the same names, or galadd/rsmq-go, whose queues are laid out otherwise",
        "every call on the queue fails with WRONGTYPE",
        None,
    ),
    FindingKind.RESERVED: Words(
        _ERROR,
        "a queue has the name of the index, QUEUES",
        "queues have the name of the index, QUEUES",
        "createQueue with that name: clients accept it",
        "what is sent to it is lost to every consumer, and deleting it deletes the index of all queues",
        f"takes the name out of the index and its hash away; {_KEPT}",
    ),
    FindingKind.NO_HASH: Words(
        _ERROR,
        "message id without the queue's hash",
        "message ids without the queue's hash",
        "expiry or eviction of the :Q key, deleteQueue of grafana/go-rsmq, deleteQueue or EXPIRE of rsmq-rb",
        "clients answer queueNotFound; the bodies are gone for good",
        f"takes the ids away, and the name out of the index; {_KEPT}",
    ),
    FindingKind.ATTRIBUTES: Words(
        _ERROR,
        "the queue's attributes are not whole",
        "queues whose attributes are not whole",
        "a send that raced deleteQueue, HDEL by hand, or a client that keeps other attributes",
        "clients answer queueNotFound, and what it holds cannot be received",
        "puts in what is missing (vt 30, delay 0, maxsize 65536) and its name into the index",
    ),
    FindingKind.REMAINS: Words(
        _WARNING,
        "half a hash is all that is left of the queue",
        "queues of which half a hash is all that is left",
        "a send or a change of attributes that raced deleteQueue, or PyRSMQ setting attributes of a missing queue",
        "clients answer queueNotFound; createQueue takes over what it holds",
        f"takes it away; {_KEPT}",
    ),
    FindingKind.GHOST: Words(
        _WARNING,
        "the index names a queue that has no keys",
        "names in the index without keys",
        "DEL by hand, or expiry or eviction of its keys",
        "every client lists it, and answers queueNotFound to every call on it",
        "takes the name out of the index",
    ),
    FindingKind.UNLISTED: Words(
        _WARNING,
        "the index does not name the queue",
        "queues that the index does not name",
        "createQueue that broke off or found half a queue, rsmq-rb, or deleteQueue of rsmqCsharp or ebuckley/rsmq",
        "it works, but no client lists it and no dashboard shows it",
        "puts the name into the index (where it was to be deleted: `rsmq-tui queues delete` takes it away whole)",
    ),
    FindingKind.BAD_RC: Words(
        _ERROR,
        "message whose receive count is no whole number",
        "messages whose receive counts are no whole numbers",
        "a hand, or a client that keeps something else in <id>:rc",
        "each receive fails after it has hidden the message: it is never delivered and never ends",
        "takes the count away, so that the next receive counts from 1",
    ),
    FindingKind.DANGLING: Words(
        _ERROR,
        "message id without a body",
        "message ids without bodies",
        "HDEL by hand, or a client that deletes in two steps (rsmqCsharp, rsmq-rb)",
        "consumers receive null and may crash; rsmq_async receives nothing while one is the first",
        f"takes the ids away with their counts; {_KEPT}",
    ),
    FindingKind.FOREIGN_ID: Words(
        _WARNING,
        "message whose id the canonical client cannot delete",
        "messages whose ids the canonical client cannot delete",
        "rsmq_async before 16, rsmq-rb, rsmq4s or ebuckley/rsmq, whose ids are not 32 letters and digits",
        "canonical consumers receive them, fail to delete or hide them (invalidFormat), and get them again for ever",
        "gives those that no consumer holds canonical ids of the same time; whoever kept an old id finds it no more",
    ),
    FindingKind.SECONDS: Words(
        _WARNING,
        "message whose score is in seconds",
        "messages whose scores are in seconds",
        "rsmq_async 7 or rsmq-rb",
        "clients that write milliseconds see it as ready since 1970: never hidden or delayed, and before all others",
        "writes the same time in milliseconds; wrong where all consumers of the queue count in seconds",
    ),
    FindingKind.MICROSECONDS: Words(
        _WARNING,
        "message whose score is in microseconds",
        "messages whose scores are in microseconds",
        "rsmq_async with break-js-comp",
        "clients that write milliseconds see it as hidden for thousands of years",
        "writes the same time in milliseconds; wrong where all consumers of the queue count in microseconds",
    ),
    FindingKind.NEVER: Words(
        _WARNING,
        "message whose score is infinite",
        "messages whose scores are infinite",
        "a hand",
        "it never becomes visible",
        "makes it visible now; wrong where somebody parked it there",
    ),
    FindingKind.NO_FR: Words(
        _WARNING,
        "message that was received, nobody knows when first",
        "messages that were received, nobody knows when first",
        "moves of rsmq_async before 17.4, or rsmq-rb, which leave out <id>:fr",
        "the canonical client says 1970, PyRSMQ raises a TypeError after it has hidden the message",
        "says that it was now",
    ),
    FindingKind.LEAKED: Words(
        _WARNING,
        "body of no message",
        "bodies of no message",
        "deleteMessage of ebuckley/rsmq, or ZREM by hand",
        "no client sees them; they fill the server's memory until the queue is deleted",
        f"takes them away with their counts; {_KEPT}",
    ),
    FindingKind.STRAY: Words(
        _WARNING,
        "counter of no message (rc, fr or meta)",
        "counters of no message (rc, fr or meta)",
        "deleteMessage of PyRSMQ up to 0.6.0 or dvdplm/rsmq-rust, or apalis-rsmq, whose <id>:meta nobody else deletes",
        "no client sees them; they fill the server's memory until the queue is deleted",
        f"takes them away; {_KEPT}",
    ),
    FindingKind.UNKNOWN: Words(
        _WARNING,
        "field that no client knows",
        "fields that no client knows",
        "a hand or a program that keeps something of its own in the queue's hash, or a client with ids of its own",
        "none: no client reads them; deleting the queue deletes them",
        None,
    ),
}


def _words_of(kind: FindingKind | ListFindingKind) -> Words:
    return LIST_WORDS[kind] if isinstance(kind, ListFindingKind) else _WORDS[kind]


__all__ = ["NAMED_ONLY", "Finding", "FindingKind", "ListFindingKind", "Severity"]
