"""Pure functions from DataFrames to DataFrames: recorded history turned into the tables of an analysis.

- columns: Columns of the tables, and sentences made by column expressions.
- episodes: Episodes: every period in which a queue was in trouble, and its cause.
- inventories: Inventories, the life of messages, and poison messages.
- outlook: The tables over all days: queues, baselines, anomalies, forecasts and advice.
- rollups: Roll-ups, percentile sketches and runs of verdicts: the tables kept by day.
- samples: From the rows of a history to its samples, and rates between them.
"""
