"""Every change of a queue: previewed, guarded, journaled, undoable. Nothing else writes to queues.

actions     the actions that people can ask for, as values: delete, move, hide, purge ...
change      a change in the journal, and its report
errors      the errors of changes, as sentences
execute     runs a change batch by batch; progress, and recovery after a crash
export      exports messages to a file; changes nothing on the server
fixes       fixes what an audit found
journal     the journal: records changes before they are sent, marks their outcome; the audit log
journal_db  the journal's SQLite file: tables, transactions and checksums
jsonl       messages as JSON lines, and back, without loss
lists       the parts of this that differ for list queues
plan        from an action to batches of guarded edits, a chunk at a time
preview     which messages a change selects, and what each of them is now
scope       the selected messages, their guards, and the numbers of a preview
service     the entry point: preview, run, undo and recovery, for each kind of queue
undo        the inverse of a change, batch by batch, guarded in the same way
"""
