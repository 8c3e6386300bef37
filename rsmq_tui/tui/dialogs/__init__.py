"""Dialogs that any screen can open.

help  the keys, and the choice of a namespace
page  one page for users
"""
