"""The history: what recorders write down of every poll, as Parquet files, and what reads it back. No Spark here."""
