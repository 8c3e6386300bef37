"""The journal of changes: what is written before a change is sent, and its outcome.

audit_log  a line for each change that has ended
batches    batches of edits as rows of the journal, and back
database   the SQLite file: tables, versions and checksums
journal    records changes before they are sent, and their outcomes
"""
