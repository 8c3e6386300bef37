"""The overview, and the screens of a server or a whole place, not of one queue.

audit    the audit screen
columns  the columns of the table of queues, such as DRAINS IN, and their cells
events   the log of events: its screen, and the last three on the overview
groups   groups of queues whose names have a prefix in common
known    troubles without alerts: how they are shown, and the form that acknowledges one
rows     the rows of the overview: which queues or groups of queues are shown, and in which order
screen   the overview: the table of queues, their totals, and the pane of the queue under the cursor
search   the search over queues: one filter for many queues, and changes of several at once
server   the server screen: memory, clients, replication, disk and latency of one server
totals   the totals of all queues: current numbers, and the chart of their rates
"""
