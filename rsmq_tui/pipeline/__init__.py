"""Spark at work on queues: the data source `rsmq`, and recorded history turned into answers."""
