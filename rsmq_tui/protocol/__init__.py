"""The protocol core: RSMQ queues and list queues over redis-py. The only importer of redis.

address      addresses and URLs of servers
connections  connections to servers, Sentinels and clusters, and running scripts on them
editing      applies guarded changes on a server, each exactly once
errors       RsmqError, and the sentence for each server or network error
keys         names of keys, and message ids
kinds        the table of the kinds of queues, and references to queues
lists        list queues
outcomes     what the server says of a guarded change, edit by edit
polling      incremental polls of both kinds: a row cache, CLIENT TRACKING, and when each queue is due
replies      decodes and checks replies
rsmq         RSMQ queues
server       a server itself: its clients, its status, and what its user may run
validation   which names, ids, times and sizes may be written

    from redis import Redis
    from rsmq_tui.protocol import Rsmq

    queues = Rsmq(Redis())
    queues.create_queue("orders")
    queues.send_message("orders", "hello")

Keys, fields, scores, ids and errors are those of the canonical client, rsmq 0.12.4 for Node.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rsmq_tui.protocol.address import (
    Address,
    Node,
    Password,
    Sentinels,
    Tls,
    check_url,
    server_label,
    socket_url_of,
    url_of,
)
from rsmq_tui.protocol.connections.connect import Traffic, connect, connect_async
from rsmq_tui.protocol.connections.topology import slot_of
from rsmq_tui.protocol.errors import (
    ENDED,
    REPLY_ERRORS,
    SERVER_ERRORS,
    ExplainedError,
    Failure,
    RsmqError,
    defect_of,
    failure_of,
    rsmq_error,
)
from rsmq_tui.protocol.keys import make_id, name_bytes, name_of, sent_ms
from rsmq_tui.protocol.lists.naming import LISTS_NS, End, ListNames
from rsmq_tui.protocol.polling import Index
from rsmq_tui.protocol.replies import leading_int
from rsmq_tui.protocol.rsmq.pages import (
    PREVIEW_BYTES,
    Anchor,
    PageRequest,
    Part,
    PeekedMessage,
    RawPage,
    WholeMessage,
)
from rsmq_tui.protocol.rsmq.reader import Flight, MessagePage, Namespaces, PageLook, RsmqReader
from rsmq_tui.protocol.rsmq.scripts import MICROSECONDS_FROM, SECONDS_BELOW, TIME_FROM, Row

if TYPE_CHECKING:
    from rsmq_tui.protocol.lists.client import AsyncListQueue, AsyncReaper, ListQueue, Reaper
    from rsmq_tui.protocol.lists.operations import Lease, Popped, Reaped
    from rsmq_tui.protocol.rsmq.client import AsyncRsmq, Rsmq
    from rsmq_tui.protocol.rsmq.operations import Message, QueueAttributes, RawMessage, StoredMessage
    from rsmq_tui.protocol.rsmq.scan import ReadField, ScanChunk

__all__ = [
    "ENDED",
    "LISTS_NS",
    "MICROSECONDS_FROM",
    "PREVIEW_BYTES",
    "REPLY_ERRORS",
    "SECONDS_BELOW",
    "SERVER_ERRORS",
    "TIME_FROM",
    "Address",
    "Anchor",
    "AsyncListQueue",
    "AsyncReaper",
    "AsyncRsmq",
    "End",
    "ExplainedError",
    "Failure",
    "Flight",
    "Index",
    "Lease",
    "ListNames",
    "ListQueue",
    "Message",
    "MessagePage",
    "Namespaces",
    "Node",
    "PageLook",
    "PageRequest",
    "Part",
    "Password",
    "PeekedMessage",
    "Popped",
    "QueueAttributes",
    "RawMessage",
    "RawPage",
    "ReadField",
    "Reaped",
    "Reaper",
    "Row",
    "Rsmq",
    "RsmqError",
    "RsmqReader",
    "ScanChunk",
    "Sentinels",
    "StoredMessage",
    "Tls",
    "Traffic",
    "WholeMessage",
    "check_url",
    "connect",
    "connect_async",
    "defect_of",
    "failure_of",
    "leading_int",
    "make_id",
    "name_bytes",
    "name_of",
    "rsmq_error",
    "sent_ms",
    "server_label",
    "slot_of",
    "socket_url_of",
    "url_of",
]

# Imported on first use, so that programs that only read queues start faster.
_LATER = dict.fromkeys(("AsyncListQueue", "AsyncReaper", "ListQueue", "Reaper"), "lists.client")
_LATER |= dict.fromkeys(("Lease", "Popped", "Reaped"), "lists.operations")
_LATER |= dict.fromkeys(("Message", "QueueAttributes", "RawMessage", "StoredMessage"), "rsmq.operations")
_LATER |= dict.fromkeys(("AsyncRsmq", "Rsmq"), "rsmq.client") | dict.fromkeys(("ReadField", "ScanChunk"), "rsmq.scan")


def __getattr__(name: str) -> Any:
    """Import a client, its values, or a reader of whole queues, on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rsmq_tui.protocol.{_LATER[name]}"), name)
    return value
