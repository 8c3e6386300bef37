"""Changes of list queues.

batches   batches of edits as rows of the journal, and back
plan      from an action to batches of guarded edits
preview   what a change selects, and what one call costs
select    selects items, and finds them again by value
service   the entry point: preview, plan and export
transfer  moves between list queues and RSMQ queues
undo      the inverse of a batch of a list queue
"""
