"""Reads an analysis: the tables that the pipeline computes from a history.

reading  queues, lines, heat maps and episodes, as values
schema   the tables of an analysis, their columns, and the layout of files
tables   the manifest, and reading tables by column and time
values   the values that a reader returns
"""
