"""The Textual app: screens, widgets, keys and themes. It reads snapshots, not servers.

app          RsmqApp: start, polls, exit
app.tcss     the style sheet
changes      from a key to a change: forms, preview, progress
dashboard    what all screens share: servers or a replay, the last snapshot, navigation, changes
dialogs      dialogs that any screen can open: help, pages for users, choices, the commands by name
drivers      Textual's drivers, for a terminal that may be closed, stopped and continued, and for a page
garbage      the garbage collector: off until the first numbers, and run for what closed screens leave
history      the history screen: the tables of an analysis
keys         every key: bindings, hints, help and commands come from this table
links        links to what the dashboard shows: a queue, a filter, a moment of a replay
output       filters of all that goes to the terminal: the guard against escapes, ASCII for those that need it
overview     the overview: all queues; the screens of a server: audit, events, known troubles, search, status
preferences  the user's choices, kept for the next start in one file, which versions share
queue        the screens of one queue and of one message
replay       replays: banner, keys, and the comparison of two times
screen       the base of all screens: snapshot, status line, line of the running change
servers      the servers that the dashboard watches
theme        themes, and the signs, words and colours of verdicts and states
type_ahead   what is typed waits until the key before has had its effect
watching     the log of events, alerts and what is usual, which get each snapshot of live servers
widgets      widgets that send only the cells that changed
"""
