"""Histories: polls recorded as rows of Parquet files, and reading them. Nothing here uses Spark.

analysis    reads the tables that the pipeline computes from a history
changes     changes made with this program beside an analysis, and the figures that contain them
compaction  joins the many small files of a day
names       places, stored names and errors of a history; does not import Arrow
poll_log    the open segment of polls: what differs from the poll before
reading     reads a history: its places, its time range, and its polls in order
recorder    records polls and inventories of messages
replay      the dashboard on recorded time: the snapshot of any moment
report      the report of a time range, as HTML or Markdown
rows        from states and messages to columns and rows
schema      the tables of a history, their columns, and the layout of files
store       where sealed files are stored, and how long they are kept
synthetic   generates a history without a recording
writer      writes polls and messages to segments, seals segments into Parquet files, removes old days
"""
