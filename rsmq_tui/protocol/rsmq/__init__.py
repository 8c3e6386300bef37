"""RSMQ queues.

- client: The clients, synchronous and asyncio, and idempotent sends.
- edit_scripts: The Lua of guarded changes: each message, or field, changes only if it still is what somebody saw.
- editor: Carrying out guarded changes on one server, each exactly once, and reading what they will change byte for
  byte.
- edits: Guarded changes as values: what a message or field must be, what it becomes, and the way back.
- inspection: Inspections: whether the keys of a namespace agree with each other.
- operations: Every operation of RSMQ as a value that a client runs, and what operations take and give.
- pages: Peeking: one page of a queue's messages, or one message whole, read without changing anything.
- reader: The read side of one namespace on one server, and the rows that its polls read.
- scan: Scanning: every message of a queue, once, in chunks, and in shares for several readers.
- scan_strategies: Scans in other orders: from the front, by a range of scores, and by bodies.
- scripts: The Lua of operations and reads.
"""
