"""Changes of list queues.

plan      from an action to batches of guarded edits
preview   what a change selects, and what one call costs
select    finds the items that a change names by value
service   preview, run and export for list queues
transfer  moves between list queues and RSMQ queues
undo      the inverse of a change of a list queue
"""
