"""The days, places and queues of the analyses that are made by hand."""

from rsmq_tui.history.analysis.values import QueueRef
from rsmq_tui.history.names import Place
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS

# Wednesday 2031-05-14 00:00 UTC, and four days later.
START_MS = 1_936_483_200_000
END_MS = START_MS + 4 * DAY_MS
PROD = Place("prod", "redis://db1:6379/0", "rsmq")
EU = Place("", "redis://eu:6379/0", "jobs")
ORDERS, EMAILS, INVOICES = (QueueRef(*PROD, name) for name in ("orders", "emails", "invoices"))
WEBHOOKS = QueueRef(*EU, "webhooks")
REFS = (ORDERS, EMAILS, INVOICES, WEBHOOKS)
# Nobody recorded prod for ninety minutes of the third day, and it was down for twenty of the fourth.
GAP = (START_MS + 2 * DAY_MS + 6 * HOUR_MS, START_MS + 2 * DAY_MS + 6 * HOUR_MS + 90 * MINUTE_MS)
OUTAGE = (START_MS + 3 * DAY_MS + 10 * HOUR_MS, START_MS + 3 * DAY_MS + 10 * HOUR_MS + 20 * MINUTE_MS)
