"""Spark at work on queues: the data source `rsmq`, and recorded history turned into answers.

- datasource: The data source ``rsmq``: live queues read, watched and written by Spark.
- folder: A folder as three readers see it: our own store, the files in it one by one, and Spark by its URL.
- increment: Work plan: which hours of samples and days of messages a run has to compute again.
- job: The batch job of a run: new rows in, tables out, corrupt files left out.
- run: One run of the pipeline: preflight, new rows into tables, and publication.
- script: The pipeline as a script for spark-submit, with the options of `rsmq-tui pipeline run`.
- spark: Spark sessions, local and remote: Java, scratch folders and logs.
- state: The state between runs, settings, progress and errors of the pipeline.
- tables: The tables of a run: their rows, what is kept of earlier runs, and how they are published.
- transforms: Pure functions from DataFrames to DataFrames: recorded history turned into the tables of an analysis.
"""
