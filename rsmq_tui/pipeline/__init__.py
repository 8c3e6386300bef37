"""Spark: the data source `rsmq`, and the batch job that computes an analysis from a history.

batch_job   the tables of a work plan, computed with Spark in parts
datasource  the data source `rsmq`: queues read, streamed and written by Spark
delta       the tables as Delta tables, for Spark, Trino and others
folder      one folder, accessed as files, by the store of the history, and by Spark's URL
run         one run, from the search for new files to the publication; what a killed run leaves
script      the pipeline as a script for spark-submit
sources     the files of a history: new ones, their footers, and those that cannot be read
spark       Spark sessions, local and remote: Java, scratch folders and logs
state       settings, progress and errors
tables      the rows of a run's tables, and their publication
transforms  pure functions from DataFrame to DataFrame
work_plan   which hours and days a run has to compute, and to read for that
"""
