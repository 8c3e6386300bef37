"""Replay: from recorded polls to the snapshots that a live poller would have made.

messages  the messages of a queue at its last inventory before a moment
player    play, pause, step, seek and speed; the places of a replay as sources of snapshots
polls     the recorded polls, the times at which a verdict changed, and incidents
replay    a position in recorded time, and its snapshot; differences between two moments
tracking  one place followed from poll to poll: rates, verdicts and recent history
"""
