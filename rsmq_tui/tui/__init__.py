"""The Textual app: screens, widgets, keys and themes. It reads snapshots, not servers.

app          RsmqApp: start, polls, command palette, exit, and the guard against terminal escapes
app.tcss     the style sheet
changes      from a key to a change: forms, preview, progress
columns      the columns of the tables of queues and of messages, sorting, and filtering by words
dashboard    what all screens share: servers or a replay, the last snapshot, navigation, changes
dialogs      dialogs of all screens: help, pages for users, and the choice of a namespace
history      the history screen: the tables of an analysis
keys         every key: bindings, hints, help and palette come from this table
overview     the overview: all queues
place        what is about a server: audit, events, known troubles, its status
preferences  what the user chose and finds again at the next start: one file, shared by versions
queue        the screens of one queue and of one message
replay       replays: banner, keys, and the comparison of two times
screen       the base of all screens: snapshot, status line, line of the running change
servers      the servers that the dashboard watches
theme        themes, and the signs, words and colours of verdicts and states
widgets      widgets that send only the cells that changed
"""
