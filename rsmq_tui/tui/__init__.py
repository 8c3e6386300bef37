"""The Textual app: screens, widgets, keys and themes. It reads snapshots, not servers.

app          RsmqApp: start, polls, exit, and the guard against terminal escapes
app.tcss     the style sheet
changes      from a key to a change: forms, preview, progress
columns      the columns of the tables of queues and of messages, their order, and sorting
dashboard    what all screens share: servers or a replay, the last snapshot, navigation, changes
dialogs      dialogs that any screen can open: help, pages for users, choices, the commands by name
history      the history screen: the tables of an analysis
keys         every key: bindings, hints, help and commands come from this table
overview     the overview: all queues, and groups of them
place        the screens of a server: audit, events, known troubles, its status
preferences  the user's choices, kept for the next start in one file, which versions share
queue        the screens of one queue and of one message
replay       replays: banner, keys, and the comparison of two times
screen       the base of all screens: snapshot, status line, line of the running change
terminal     Textual's driver for a terminal that may be closed, stopped and continued
theme        themes, and the signs, words and colours of verdicts and states
web          the dashboard in a browser, and links to what it shows
widgets      widgets that send only the cells that changed
"""
