"""From the rows of polls to the states of queues.

drain          whether and when the ready messages of a queue are gone; the batches that fill it
forecast       when a growing queue reaches a limit, from the rates of the last ten minutes
list_tracker   from poll rows to the states of list queues: inputs of the verdicts
memory         keeps the last hour of a place across restarts
place_tracker  from the rows of a poll to the states of a place: trackers, sums, and the messages to be read next
reasons        why a queue has its verdict, and what it needs, in words; the text of the column DRAINS IN
rsmq_tracker   from poll rows to the states of RSMQ queues: totals, heads, inputs of the verdicts
series         the last hour of a queue, and rates between two samples
tracker        what the trackers of all kinds share
trend          the last hour of all queues and of their sums, and the last day of some
verdicts       thresholds, the conditions of the verdicts, and when each begins and ends
"""
