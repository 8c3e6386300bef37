"""The Textual app: screens, widgets, keys and themes. It knows snapshots, not servers.

- app: The dashboard's app: its start, its end, its command palette and the output filters.
- audit: The audit screen: findings in a table, their details, and fixes.
- changes: Changes: forms, confirmation, and their progress.
- columns: The columns of the two tables: what each shows of a queue or of a message, and how queues are sorted.
- dialogs: Dialogs of all screens.
- history: The history screen.
- keys: Every key of the dashboard: bindings, hints, help and palette are made from this registry.
- navigation: Navigation between screens, screenshots and the clipboard.
- overview: The overview: all queues, what is wrong now, and whether it is getting better.
- queue: One queue and its messages.
- replay: Replays in the dashboard.
- screen: What all full screens share: the snapshot, the line at the top, and what is told of a change at the bottom.
- servers: The servers that the dashboard watches, and what screens may ask of their app.
- theme: Themes, signs and colours of states, and where theme files are.
- widgets: The dashboard's widgets; each paints lines and repaints only the cells that changed.
"""
