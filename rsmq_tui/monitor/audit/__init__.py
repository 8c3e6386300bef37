"""Audits: find keys, messages and fields of a queue that are inconsistent.

findings  the kinds of findings: cause, effect and fix of each
lists     audits list queues: compares processing lists with leases
rsmq      audits a namespace: index, zset and hash of each queue
"""
