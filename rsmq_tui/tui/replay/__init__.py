"""Replay in the dashboard.

banner    the line with time and speed, which marks the screen as not live
controls  the actions of the replay keys: play, and move in time
events    what happened before a moment of the recording
screens   the comparison of two times, and the dialog that asks for a time
session   a replay: its player, its servers, and the marked time
"""
