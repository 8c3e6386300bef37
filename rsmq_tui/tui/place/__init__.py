"""The screens of a server or a whole place, not of one queue.

audit    the audit screen
events   the log of events: its screen, and the last three on the overview
known    known troubles: how they are shown, and the form that acknowledges one
search   the search over queues: one filter for many queues, and changes of several at once
server   the server screen: memory, clients, replication, disk and latency of one server
servers  the servers that the dashboard watches
"""
