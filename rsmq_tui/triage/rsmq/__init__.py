"""Changes of RSMQ queues.

backend  the entry point: preview, plan and export
batches  batches of edits as rows of the journal, and their inverse, with the same guards
fixes    fixes what an audit found
plan     from an action on messages, or on a queue, to batches of guarded edits, a chunk at a time
redrive  the source queues of dead letters
"""
