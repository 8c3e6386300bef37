"""From a key to a change: the form, the preview, the progress.

confirm     the preview: exact numbers, and the button that starts the change
controller  the sequence: form, preview, run, report
forms       the forms of changes, and the screen of a form
"""
