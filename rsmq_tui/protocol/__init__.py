"""The protocol core: RSMQ queues over redis-py, for scripts, the dashboard, the command line and Spark alike.

    from redis import Redis
    from rsmq_tui.protocol import Rsmq

    queues = Rsmq(Redis())
    queues.create_queue("orders")
    queues.send_message("orders", "hello")

Keys, fields, scores, ids and errors are those of the canonical client, rsmq 0.12.4 for Node. It knows nothing of what
is above it.
"""

from rsmq_tui.protocol.address import Address, Node, Password, Sentinels, Tls, socket_url_of, url_of
from rsmq_tui.protocol.aio import AsyncRsmq
from rsmq_tui.protocol.client import Rsmq
from rsmq_tui.protocol.connection import connect, connect_async
from rsmq_tui.protocol.errors import RsmqError, rsmq_error
from rsmq_tui.protocol.failures import REPLY_ERRORS, SERVER_ERRORS, ExplainedError, Failure, failure_of
from rsmq_tui.protocol.ids import make_id, sent_ms
from rsmq_tui.protocol.keys import name_bytes, name_of
from rsmq_tui.protocol.messages import Message, QueueAttributes, RawMessage, StoredMessage
from rsmq_tui.protocol.metering import Traffic
from rsmq_tui.protocol.operations import leading_int
from rsmq_tui.protocol.pages import PREVIEW_BYTES, Anchor, Part, PeekedMessage, RawPage, Where, WholeMessage
from rsmq_tui.protocol.read_scripts import MICROSECONDS_FROM, SECONDS_BELOW, Row
from rsmq_tui.protocol.reader import Namespaces, QueueReader
from rsmq_tui.protocol.routes import slot_of
from rsmq_tui.protocol.rows import Index
from rsmq_tui.protocol.scan import ScanChunk
from rsmq_tui.protocol.urls import check_url, server_label

__all__ = [
    "MICROSECONDS_FROM",
    "PREVIEW_BYTES",
    "REPLY_ERRORS",
    "SECONDS_BELOW",
    "SERVER_ERRORS",
    "Address",
    "Anchor",
    "AsyncRsmq",
    "ExplainedError",
    "Failure",
    "Index",
    "Message",
    "Namespaces",
    "Node",
    "Part",
    "Password",
    "PeekedMessage",
    "QueueAttributes",
    "QueueReader",
    "RawMessage",
    "RawPage",
    "Row",
    "Rsmq",
    "RsmqError",
    "ScanChunk",
    "Sentinels",
    "StoredMessage",
    "Tls",
    "Traffic",
    "Where",
    "WholeMessage",
    "check_url",
    "connect",
    "connect_async",
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
