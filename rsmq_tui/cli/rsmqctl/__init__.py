"""`rsmqctl`, a program with the options of the original of that name.

- arguments: The commands and options of `rsmqctl`, and its parser.
- main: `rsmqctl`: queues and messages from the command line, as the program of that name by Keith Sharp has them.
- message: `rsmqctl message`: send, receive, pop, delete, visibility, peek and list.
- queue: `rsmqctl queue`: list, describe, create, set and delete.
- server: The server of one `rsmqctl` command, and its output.
"""
