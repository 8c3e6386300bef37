"""Dialogs of all screens.

- help: Dialogs of all screens: help and the choice of a namespace.
- page: A page for users, in a dialog.
"""
