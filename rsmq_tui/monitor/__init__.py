"""Monitors queues: polls, rates, verdicts, peek, search and audit. It only reads.

audit         finds keys, messages and fields that are inconsistent
changes       changes made with this program, as the audit log has them: lines, reading, what undos undid
checks        one check of queues for a monitoring system: limits, results and state of earlier checks
doctor        diagnoses whether a server can be monitored: what prevents it, and how to fix it
filters       the filter language, matching, search and grouping
fleet         combines the snapshots of several servers into one
incidents     troubles that belong together; thresholds for their end and for flapping
list_poller   polls the list queues of one server, and reads their items
messages      pages of messages, their fields and states, and decoded bodies
model         Snapshot, QueueState and Verdict: one poll as immutable values
moments       times that users type: 21:50, -10m, 2031-05-17 21:50, ms since 1970; days of the week
poller        polls one namespace of one server; what all sources of snapshots are, and the retries that they share
server        results of checks of a server's status, for its screen and for doctor
slo           service level objectives: what a profile promises of its server and its queues
text          numbers, times and untrusted text in words
tracking      from poll rows to the states of queues: recent history, rates, verdicts, forecasts
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rsmq_tui.monitor.messages.peek import MessageRow, MessageState, MessageView, Page, PeekError
from rsmq_tui.monitor.model import Connection, Cost, Drain, QueueState, Snapshot, Totals, Verdict
from rsmq_tui.monitor.poller import RsmqPoller, Source
from rsmq_tui.monitor.tracking.reasons import needed_deletes, outlook, reason
from rsmq_tui.monitor.tracking.trend import QueuePoint, TotalsPoint, Trend
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.protocol import PageRequest

if TYPE_CHECKING:
    from rsmq_tui.monitor.filters.language import Filter, FilterError, parse_filter
    from rsmq_tui.monitor.filters.search import GroupingError, MessageGroup, MessageGroups, SearchProgress, search

__all__ = [
    "Connection",
    "Cost",
    "Drain",
    "Filter",
    "FilterError",
    "GroupingError",
    "MessageGroup",
    "MessageGroups",
    "MessageRow",
    "MessageState",
    "MessageView",
    "Page",
    "PageRequest",
    "PeekError",
    "QueuePoint",
    "QueueState",
    "RsmqPoller",
    "SearchProgress",
    "Snapshot",
    "Source",
    "Thresholds",
    "Totals",
    "TotalsPoint",
    "Trend",
    "Verdict",
    "needed_deletes",
    "outlook",
    "parse_filter",
    "reason",
    "search",
]

# Imported on first use: a poll, and the first paint of the dashboard, search for nothing.
_OF_FILTERS = dict.fromkeys(("Filter", "FilterError", "parse_filter"), "language")
_OF_FILTERS |= dict.fromkeys(("MessageGroup", "GroupingError", "MessageGroups", "SearchProgress", "search"), "search")


def __getattr__(name: str) -> Any:
    """Import the names of the package ``filters`` on first use."""
    if name not in _OF_FILTERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"rsmq_tui.monitor.filters.{_OF_FILTERS[name]}")
    value = globals()[name] = getattr(module, name)
    return value
