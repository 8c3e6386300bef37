"""An in-memory server for list queues, with blocking commands, a clock that tests control, and injected faults.

Read ``resp``, ``command``, ``store`` and ``list_commands`` first, then ``blocking``, ``engine``, ``faults`` and
``server``. The other commands have the form of those of lists.

blocking             the clients that wait for lists, their order and their deadlines
collection_commands  hashes, sets and sorted sets
command              the table of commands, and how arguments are read
engine               connections, and the state that they share
faults               the clock, and injected faults: late, broken and missing replies
key_commands         keys of any type, and strings
list_commands        lists, blocking pops and moves
pytest_plugin        the fixture ``list_server``
resp                 parses requests, encodes replies
scripting_commands   EVAL, EVALSHA and SCRIPT
server               ``ListServer``: listens, and serves from one thread
server_commands      INFO, CONFIG, COMMAND, DEBUG, databases
session_commands     HELLO, AUTH, transactions, CLIENT
store                databases, keys and values
"""

from rsmq_tui.listserver.server import ListServer

__all__ = ["ListServer"]
