"""Whatever one call can carry out."""

from rsmq_tui.protocol.edits import FieldBatch, LooseBatch, MessageBatch
from rsmq_tui.protocol.lists.edits import ListBatch

Batch = MessageBatch | FieldBatch | LooseBatch | ListBatch
