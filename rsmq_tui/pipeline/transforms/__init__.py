"""Pure functions from DataFrame to DataFrame: from a history to the tables of an analysis.

baselines    what is usual at each hour of the week, and the hours that are not
columns      the column types of tables, and sentences as column expressions
episodes     periods in which a queue had one verdict of trouble
forecasts    when a growing queue will reach its limit
inventories  inventories, how long messages waited and were held, and poison messages
quantiles    percentiles of all values, and summaries of values that can be merged
samples      from rows to samples with rates, each once; by day, their roll-ups by queue and place, and runs of verdicts
whole        all tables over all days: advice on visibility timeouts, incidents of the episodes
"""
