"""Changes of list queues.

backend   the entry point: preview, plan and export
batches   batches of edits as rows of the journal, and their inverse
select    selects items, and finds them again by value
transfer  moves between list queues and RSMQ queues
"""
