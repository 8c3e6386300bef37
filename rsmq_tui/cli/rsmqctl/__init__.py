"""`rsmqctl`: queues and messages, with the options of the program of that name by Keith Sharp.

arguments  commands, options and the parser
main       the entry point, and its exit statuses
message    `rsmqctl message`: send, receive, pop, delete, visibility, peek and list
queue      `rsmqctl queue`: list, describe, create, set and delete
server     the server of a command, and its output
"""
