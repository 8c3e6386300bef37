"""`rsmqctl`: queues and messages, with the options of Keith Sharp's program of that name.

main       the entry point
message    `rsmqctl message`: send, receive, pop, delete, visibility, peek and list
parsing    the table of the commands, and options that all of them share
queue      `rsmqctl queue`: list, describe, create, set and delete
server     the server of a command, and its output
"""
