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
