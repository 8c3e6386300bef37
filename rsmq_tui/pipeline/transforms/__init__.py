"""Pure functions from DataFrame to DataFrame: from a history to the tables of an analysis.

advice       visibility timeouts that cover the holding times of messages
baselines    what is usual at each hour of the week, and the hours that are not
columns      the column types of tables, and sentences as column expressions
episodes     periods in which a queue had one verdict of trouble
forecasts    when a queue reaches its limit, by the trend of its last hours
incidents    episodes of a queue that belong together, and those of a server that happen together: of rows, not frames
inventories  inventories, how long messages waited and were held, and poison messages
places       the roll-up of places: all queues of a place together
quantiles    percentiles of all values, and summaries of values that can be merged
samples      from rows to deduplicated samples with rates, and their roll-ups and runs of verdicts, by day
whole        all tables over all days
"""
