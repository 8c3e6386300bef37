"""RSMQ queues.

client           Rsmq and AsyncRsmq, and idempotent sends
editor           reads what a change needs, and applies guarded changes on one server
edits            guarded changes as values, their inverse, and their Lua: delete, move, hide and edit messages
inspection       whether the keys of a namespace are consistent
operations       each operation as a value that both clients run
pages            peek: pages of messages, and single messages
reader           the read side of one namespace on one server, and its poll rows
scan             reads every message of a queue once, in chunks, also in parts for several readers
scan_strategies  scans in other orders: by scores, by bodies
scripts          the Lua of operations such as deleteMessage, of polls and of reads
"""
