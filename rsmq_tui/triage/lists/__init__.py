"""Changes of list queues.

backend   the entry point: preview, plan and export
batches   batches of edits as rows of the journal, and their inverse
plan      from an action to batches of guarded edits
select    selects items, and finds them again by value
transfer  moves between list queues and RSMQ queues
"""
