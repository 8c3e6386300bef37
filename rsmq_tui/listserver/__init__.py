"""A server for queues on lists: RESP, lists, and clients that wait; in memory, with its clock and its faults in hand.

blocking             clients that wait for lists: who, in which order, until when
client               one connection: requests, transaction, replies
clock                the server's clock, which a tester can stop and move
collection_commands  hashes, sets and sorted sets
command              the table of commands, and how arguments are read
faults               late, broken and missing replies that a tester orders
key_commands         keys of any type, and strings
list_commands        lists
resp                 requests out of bytes, replies into bytes
server               ``ListServer``: listens, and keeps databases, clients and time
server_commands      INFO, CONFIG, COMMAND, DEBUG, databases
session_commands     greeting, password, transaction, CLIENT
store                databases, keys and values
"""

from rsmq_tui.listserver.server import ListServer

__all__ = ["ListServer"]
