"""Replay in the dashboard.

banner    the line with time and speed, which marks the screen as not live
screens   the comparison of two times, the dialog that asks for a time, and the actions of the replay keys
session   a replay: its player, its servers, the marked time, and the events before a moment
"""
