"""Watching queues: poll to snapshot, series and rates, verdicts, peek. It only reads."""

from rsmq_tui.monitor.filters import Filter, FilterError, parse_filter
from rsmq_tui.monitor.grouping import Group, GroupingError, Groups
from rsmq_tui.monitor.peek import MessageRow, MessageView, Page, PageRequest, PeekError
from rsmq_tui.monitor.poller import LivePoller
from rsmq_tui.monitor.search import Progress, search
from rsmq_tui.monitor.series import QueuePoint, TotalsPoint, Trend
from rsmq_tui.monitor.snapshot import Cost, Drain, Link, QueueState, Snapshot, Totals, Verdict
from rsmq_tui.monitor.source import Source
from rsmq_tui.monitor.states import MessageState
from rsmq_tui.monitor.verdicts import Thresholds, outlook, reason

__all__ = [
    "Cost",
    "Drain",
    "Filter",
    "FilterError",
    "Group",
    "GroupingError",
    "Groups",
    "Link",
    "LivePoller",
    "MessageRow",
    "MessageState",
    "MessageView",
    "Page",
    "PageRequest",
    "PeekError",
    "Progress",
    "QueuePoint",
    "QueueState",
    "Snapshot",
    "Source",
    "Thresholds",
    "Totals",
    "TotalsPoint",
    "Trend",
    "Verdict",
    "outlook",
    "parse_filter",
    "reason",
    "search",
]
