"""Replays in the dashboard.

banner    the line that says that this is not live
controls  what the keys of a replay do: play, and move in time
screens   two times side by side, and the dialog that asks for a time
session   a replay: its player, its servers, and the marked time
"""
