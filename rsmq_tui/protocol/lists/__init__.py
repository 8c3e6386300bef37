"""List queues: queues that are Redis Lists, with the reliable pattern of leases.

client        ListQueue and AsyncListQueue, and the reapers, which return items whose lease has expired
editor        reads what a change needs, and applies guarded changes on one server
edits         guarded changes as values, their inverse, and their Lua: delete, move, requeue, lease
inspection    the leases of a queue, and the clients that wait
naming        the keys of a list queue, and the ids of its items
operations    each operation as a value that both clients run, including the reliable pattern with leases
pages         reads ranges, pages and single items
reader        the read side of the list queues of one server, and their poll rows
scan          reads every item of a list once, without blocking the server
scripts       the Lua of operations, polls and reads
"""
