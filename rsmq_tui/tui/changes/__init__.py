"""From a key to a change: the form, the preview, the progress; and the journal of changes.

command_line  the command that does the same as a dialog
confirm       the preview: exact numbers, and the button that starts the change
controller    the sequence: form, preview, run, report
forms         the forms of changes, their fields, and the screen of a form
journal       the screen of the journal: undo and redo of any change
messages      the screen of a change: its messages, and the undo of those that are marked
"""
