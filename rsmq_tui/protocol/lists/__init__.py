"""List queues: queues that are Redis Lists, and the reliable pattern on them.

- client: The clients of list queues, synchronous and asyncio.
- edit_scripts: The Lua of guarded changes of list queues, put together of where items come from and where they go.
- editor: Carrying out guarded changes of list queues on one server, and reading what they will change byte for byte.
- edits: Guarded changes of list queues as values, and the places of the items that they are for.
- inspection: Inspecting list queues: their leases, and the clients that wait on them.
- leases: The reliable pattern as values and flows: take, acknowledge, extend, give back, and reap.
- naming: The names of a list queue's keys, and ids of its items.
- operations: The list commands as values that a client runs, and what they take and give.
- pages: Peeking into list queues: pages of items, and single items.
- reader: The read side of the list queues of one server or cluster, and their polls.
- reaper: Loops that reap queues again and again.
- scan: Scanning list queues: every item, once, without holding the server up.
- scripts: The Lua of list queues: the reliable pattern, polls and reads.
"""
