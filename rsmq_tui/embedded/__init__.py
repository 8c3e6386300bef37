"""A private server and a demo workload, for the demo and the tests.

scenarios  the scenario of each queue of the demo, as values: rates, faults and message bodies
server     a private Valkey server, and the workload in a process of its own: starts and stops both
workload   the producers and consumers that run the scenarios against a server
"""

from rsmq_tui.embedded.server import EmbeddedError, EmbeddedServer, ServerNotFound, ServerStartError, WorkloadProcess

__all__ = ["EmbeddedError", "EmbeddedServer", "ServerNotFound", "ServerStartError", "WorkloadProcess"]
