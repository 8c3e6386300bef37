"""What the pipeline makes of a history: its tables, where their files lie, and how to read them. No Spark here.

- reading: Reading an analysis: queues, lines, heat maps and episodes, as values.
- schema: What an analysis holds: its tables, what each column means, and where the files lie. A promise to whoever
  reads it.
- tables: The files of an analysis: its manifest, and its tables.
- values: What an analysis tells, as values: small, immutable, and without a trace of the files that they come from.
"""
