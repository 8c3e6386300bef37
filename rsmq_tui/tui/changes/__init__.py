"""Changes: forms, confirmation, and their progress.

- confirm: A change before it happens: what it is for, in exact numbers, and a button that makes it.
- controller: From a key to a change: ask, preview, run, and report.
- forms: Forms of changes: what is asked, how answers become actions, and the screen of a form.
- list_forms: What a change of a list queue has to be asked for, where that is not what is asked of RSMQ's queues.
"""
