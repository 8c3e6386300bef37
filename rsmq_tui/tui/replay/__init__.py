"""Replays in the dashboard.

banner   the line that says that this is not live
host     what an app does with a replay: show it, and move in time
screens  two times side by side, and the dialog that asks for a time
session  opens a replay, for the command or from any screen
"""
