"""What the pipeline makes of a history: its tables, where their files lie, and how to read them. No Spark here."""
