"""A log of events: what happened to queues and servers, found by comparing polls, and kept in a file.

alerts    rules of the configuration file, applied to polls, and the messages that they send
detector  compares successive snapshots of a place, and what a server says of itself, and returns events
known     troubles of queues that somebody has acknowledged, with a note and an end
model     Event, its kinds and severities, as JSON, and as a row of the file
recorder  a thread that detects the events of a dashboard and writes them
store     the SQLite file of events: its limit, and what several writers see at once
"""
