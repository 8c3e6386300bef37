"""Pure functions from DataFrame to DataFrame: from a history to the tables of an analysis.

columns      the column types of tables, and sentences as column expressions
inventories  inventories, how long messages waited and were held, and poison messages
outlook      tables over all days: queues, episodes, baselines, anomalies, forecasts and advice
places       the roll-up of places: all queues of a place together
samples      from rows to deduplicated samples with rates, and their roll-ups and runs of verdicts, by day
"""
