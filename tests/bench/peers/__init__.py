"""Programs that the bench runs in terminals of their own: what it compares with, and our app under its eyes."""
