"""Pure functions from DataFrame to DataFrame: from a history to the tables of an analysis.

columns      the column types of tables, and sentences as column expressions
episodes     episodes: each period in which a queue had one verdict of trouble, and its cause
inventories  inventories, how long messages waited and were held, and poison messages
outlook      tables over all days: queues, baselines, anomalies, forecasts and advice
rollups      roll-ups, percentile sketches and runs of verdicts, by day
samples      from rows to deduplicated samples, and the rates between them
"""
