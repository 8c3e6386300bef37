"""Every change to a queue: previewed, guarded, journaled, undoable. Nothing else changes anything."""
