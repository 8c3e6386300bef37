"""A server for queues on lists: RESP, lists, and clients that wait; in memory, with its clock and its faults in hand.

blocking             clients that wait for lists: who, in which order, until when
collection_commands  hashes, sets and sorted sets
command              the table of commands, and how arguments are read
engine               connections, and what they share: one command after the other
faults               the time, and late, broken and missing replies, as a tester orders them
key_commands         keys of any type, and strings
list_commands        lists, blocking pops and moves
pytest_plugin        the fixture ``list_server``
resp                 requests out of bytes, replies into bytes
scripting_commands   EVAL and its family
server               ``ListServer``: listens, and serves from one thread
server_commands      INFO, CONFIG, COMMAND, DEBUG, databases
session_commands     greeting, password, transaction, CLIENT
store                databases, keys and values
"""

from rsmq_tui.listserver import (
    collection_commands,
    key_commands,
    list_commands,
    scripting_commands,
    server_commands,
    session_commands,
)
from rsmq_tui.listserver.server import ListServer

# Imported for the commands that they enter into the table.
_COMMANDS = (
    collection_commands,
    key_commands,
    list_commands,
    scripting_commands,
    server_commands,
    session_commands,
)

__all__ = ["ListServer"]
