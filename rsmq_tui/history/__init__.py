"""The history: what recorders write down of every poll, as Parquet files, and what reads it back. No Spark here.

- analysis: What the pipeline makes of a history: its tables, where their files lie, and how to read them. No Spark
  here.
- moments: Moments as people write them: 21:50, 2031-05-17 21:50, -10m, +1h, seconds or ms since 1970. All are UTC.
- names: Places, stored names and errors of a history; nothing here needs Arrow.
- reading: Reading a history back: which places and times are in it, and its polls one after another.
- recorder: Recording polls and inventories of messages, each place by itself.
- replay: Replay: the dashboard on recorded time.
- report: A post-mortem of a range of time, for people without a terminal: what an analysis tells, as HTML or
  Markdown.
- rows: From snapshots and messages to rows and columns.
- schema: What a history holds: its tables, what each column means, and where the files lie. A promise to whoever
  reads it.
- store: Where sealed files are stored, and for how long.
- synthetic: A history that nobody recorded, in the recorder's layout: to look around in, to test with, to measure on.
- writer: Writing a history: rows go into segments, segments become sealed files, old days go.
"""
