"""Random faults against changes, and what must hold all along: ``python -m tests.chaos``.

A round is a seed: from it follow a server with known messages, consumers, producers, one or two operators with their
changes and undos, and the faults. What holds is checked against a model of its own, which reads the server with plain
commands and none of the program's readers.

__main__     the command: options, the table, and how to replay a violation
clock        the server, whose clock and data the rounds control
faults       the faults of cheap rounds, by name
laws         the invariants, by name
model        what lies in the server, who else works there, and what operators asked for
operators    operators in this process, with a loop and a connection that the round controls
processes    the rounds with real processes: kill -9, failover, full disk, slow links, dashboards
rounds       a cheap round, from its seed to its violations
"""
