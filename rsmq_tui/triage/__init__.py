"""Every change to a queue: previewed, guarded, journaled, undoable. Nothing else changes anything.

- actions: What people may ask for, as values.
- change: A change as the journal knows it, and its report.
- errors: What went wrong with a change, in words for people.
- execute: Executing a change, its progress, and the recovery of interrupted ones.
- export: Exporting messages, or those that were marked; nothing on the server changes.
- fixes: Fixing what an audit found, and previewing it.
- journal: The journal, its readers, the heartbeat of programs that write it, and the audit log.
- journal_db: The journal's SQLite file: tables, transactions and checksums.
- jsonl: Messages as lines of JSON, and back, with every field as it was.
- lists: Changes of list queues.
- plan: From an action to the batches that the server is asked for, a chunk at a time.
- preview: Previewing a change: which messages it selects, and what each of them is now.
- scope: What a change is for and would do: its messages, their guards, and exact numbers.
- service: The service through which every change goes: preview, run, undo and recovery, for each kind of queue.
- undo: Taking a change back: its batches in reverse, each turned round and guarded as the change itself was.
"""
