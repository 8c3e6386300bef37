"""Replays in the dashboard.

- banner: What is said of a replay, and the line that says: this is not live.
- host: What an app can do with a replay: show it in place of what it watches, and move about in it.
- screens: The screens of a replay: two times side by side, and the dialog that asks for a time.
- session: A replay as the dashboard shows it: opened for the command, or at a moment from any screen.
"""
