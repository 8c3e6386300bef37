"""Audits: what does not agree in the keys of queues.

- findings: What an audit finds: each kind, its cause, its effect, and its fix.
- lists: Auditing list queues: what lies in processing and the leases compared, as far as they disagree. It only
  reads.
- rsmq: Auditing a namespace: whether every queue's keys, messages and fields agree.
"""
