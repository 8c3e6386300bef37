"""Replay: the dashboard on recorded time.

- diff: What is different between two moments: queue by queue, and in sum.
- messages: The messages that were in a queue when they were last written down before a moment, for screens to look
  at.
- player: Playing a replay: play, pause, step, seek and speed, its clock, and its places as sources.
- polls: The polls of a history to play, and the times at which verdicts changed.
- replay: Replaying a history: a moment of recorded time, and the dashboard's snapshot of it.
- tracking: One recorded place followed from poll to poll: its snapshots and recent history.
"""
