"""Changes of RSMQ queues.

backend  the entry point: preview, plan and export
batches  batches of edits as rows of the journal, and back
export   exports messages
fixes    fixes what an audit found
plan     from an action on messages to batches of guarded edits, a chunk at a time
preview  which messages a change selects, and their current state
queues   send, import, create and set: preview and plan of each
undo     the inverse of a batch, with the same guards
"""
