"""Dialogs that any screen can open.

demo     the control pane of a demo
palette  the command palette: every action, queue, page and saved filter by name
screens  help, pages for users, choice of a namespace, columns, a saved filter
tour     the tour of the demo: its steps, and their checks
"""
