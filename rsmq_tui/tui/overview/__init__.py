"""The overview: all queues of the servers that are watched.

groups  groups of queues whose names have a prefix in common
screen  the table of queues, their sums and charts, and the pane of the queue under the cursor
"""
