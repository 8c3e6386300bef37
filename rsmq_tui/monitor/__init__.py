"""Watching queues: poll to snapshot, series and rates, verdicts, peek. It only reads."""

from rsmq_tui.monitor.filters.language import Filter, FilterError, parse_filter
from rsmq_tui.monitor.filters.search import Group, GroupingError, Groups, Progress, search
from rsmq_tui.monitor.model import Cost, Drain, Link, QueueState, Snapshot, Totals, Verdict
from rsmq_tui.monitor.peek import MessageRow, MessageState, MessageView, Page, PageRequest, PeekError
from rsmq_tui.monitor.poller import LivePoller, Source
from rsmq_tui.monitor.series import QueuePoint, TotalsPoint, Trend
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
