"""A private server and a demo workload, for the demo and the tests.

control    what the user of the demo can do to the server and to the clients of a queue, such as crash a consumer
scenarios  the scenario of each queue as a value, such as a list whose worker crashes (``CRASHING``); and whole demos
server     a private Valkey server, and the workload in a process of its own: starts and stops both
workload   the producers and consumers that run the scenarios against a server
"""

from rsmq_tui.cli.demo.server import EmbeddedError, EmbeddedServer, ServerNotFound, ServerStartError, WorkloadProcess

__all__ = ["EmbeddedError", "EmbeddedServer", "ServerNotFound", "ServerStartError", "WorkloadProcess"]
