"""Changes of list queues.

- plan: From an action on a list queue to the batches that the server is asked for.
- preview: Finding out what a change of a list queue would do: which items it is for, and what one call will cost.
- select: Selecting and finding the items of a list queue that a change is for.
- service: The service for changes and exports of list queues.
- transfer: Between list queues and RSMQ's: what goes from one to the other, both ways, is in one or the other at any
  time.
- undo: Taking changes of list queues back: in parts that one call can do, and what was not taken back before.
"""
