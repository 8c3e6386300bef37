"""A server itself, and not its queues. It only reads.

clients    the clients that work on a queue: by CLIENT LIST, and by MONITOR for a moment
diagnosis  diagnoses a server, and which commands its user may run
status     the status of a server: INFO, slow log, latency events
"""
