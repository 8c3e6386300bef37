"""A log of events: what happened to queues and servers, found by comparing polls, and kept in a file.

alerts    rules of the configuration file, applied to polls, and the messages that they send
detector  compares successive snapshots of a place, and the INFO of a server, and returns events
known     queues whose trouble somebody has acknowledged, with a note and an end
model     Event, its kinds and severities, as JSON, and the words that filter events
recorder  a thread that detects the events of a dashboard and writes them
store     the SQLite file of events: its limit, and events that several writers see
"""
