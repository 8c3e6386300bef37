"""Audits: which keys, messages and fields of a queue do not agree.

findings  the kinds of findings: cause, effect and fix of each
lists     audits list queues: processing lists against leases
rsmq      audits a namespace: index, zset and hash of each queue
"""
