"""Every change of a queue by the dashboard or ``rsmq-tui``: previewed, guarded, journaled, undoable.

``rsmqctl`` and the demo are clients like any other: they write through ``protocol``, without a journal.

actions    the actions, as values: delete, move, hide, purge ...
change     a change in the journal, its steps, and its report
errors     the errors of changes, as sentences
execute    runs a change batch by batch; progress, and recovery after a crash
export     exports messages to a file; changes nothing on the server
journal    what is written before a change is sent, and its outcome
jsonl      messages as JSON lines, and back, without loss
lists      changes of list queues
rsmq       changes of RSMQ queues
scope      the selected messages, their guards, and the numbers of a preview
service    the entry point: preview, run, undo and recovery, for each kind of queue
several    one change of several queues: a preview of all, then one change for each
undo       the inverse of a change or of a part of it, and its preview
"""
