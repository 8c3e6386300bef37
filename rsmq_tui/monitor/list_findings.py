"""What an audit finds in list queues: each kind of it, what probably made it, what it does, and what helps."""

from enum import StrEnum

from rsmq_tui.monitor.audit_words import Severity, Words


class ListFindingKind(StrEnum):
    """What does not fit together in a list queue; the names are those of ``--kind``."""

    TYPE = "list-type"
    UNLEASED = "unleased"
    OVERDUE = "overdue"
    UNIT = "lease-unit"
    ORPHAN = "orphan-lease"
    FORM = "lease-form"
    UNWATCHED = "unwatched"


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
LIST_WORDS = {
    ListFindingKind.TYPE: Words(
        _ERROR,
        "a key of the list queue is of another type",
        "keys of the list queue are of other types",
        "another program that uses the same names",
        "calls on the queue fail with WRONGTYPE",
        None,
        "rename one of them, or let lists_processing and lists_leases of a profile name the right keys",
    ),
    ListFindingKind.UNLEASED: Words(
        _ERROR,
        "item in processing without a lease",
        "items in processing without leases",
        "a consumer that died between its BLMOVE and the lease, or one that takes items without leases",
        "nobody can tell for how long it has lain there, and it is given to nobody until a reaper has adopted it",
        None,
        "a reaper gives it a grace lease and then brings it back; `rsmq-tui messages requeue list:KEY --filter "
        "state:unleased` does it now, `messages ack` removes it",
    ),
    ListFindingKind.OVERDUE: Words(
        _ERROR,
        "lease that ended more than a minute ago",
        "leases that ended more than a minute ago",
        "a consumer that died, and no reaper that works on this queue",
        "the item is given to nobody, although it was not acknowledged in time",
        None,
        "run a reaper, which brings such items back; `rsmq-tui messages requeue list:KEY --filter state:expired` does "
        "it now",
    ),
    ListFindingKind.UNIT: Words(
        _ERROR,
        "lease whose deadline is not in milliseconds",
        "leases whose deadlines are not in milliseconds",
        "a consumer that counts in seconds or microseconds",
        "reapers count in milliseconds: seconds are long over, and the item is given away while it is worked on; "
        "microseconds and infinity never come",
        None,
        "change that consumer; ZADD with XX and the time in ms mends a lease",
    ),
    ListFindingKind.ORPHAN: Words(
        _WARNING,
        "lease of an item that is not in processing",
        "leases of items that are not in processing",
        "LREM or DEL of the processing list by hand, or a consumer that acknowledges by LREM alone",
        "none on consumers: it takes memory, and counts as expired once its deadline is over",
        None,
        "a reaper drops it; so does ZREM",
    ),
    ListFindingKind.FORM: Words(
        _WARNING,
        "member of the leases that is of another form than TOKEN:ITEM, with 22 letters or digits",
        "members of the leases that are of another form than TOKEN:ITEM, with 22 letters or digits",
        "another program that keeps leases in its own way, or ZADD by hand",
        "reapers leave it alone: its item counts as one without a lease, is adopted, and may be given to two consumers",
        None,
        "let lists_leases of a profile name another key, or remove it by ZREM",
    ),
    ListFindingKind.UNWATCHED: Words(
        _WARNING,
        "processing list of a queue that is not watched",
        "processing lists of queues that are not watched",
        "consumers of a queue that neither --lists nor the profile means",
        "no screen and no alert tells of what happens to it",
        None,
        "add its key to --lists, or to lists of the profile",
    ),
}
