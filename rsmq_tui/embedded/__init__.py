"""A private server and a demo workload, for the demo and the tests.

scenarios         the scenario of each queue of the demo, as values: rates, faults and message bodies
server            a private Valkey server: finds its binary, starts and stops its process
workload          the producers and consumers that run the scenarios against a server
workload_process  the workload in a process of its own
"""

from rsmq_tui.embedded.server import EmbeddedError, EmbeddedServer, ServerNotFound, ServerStartError
from rsmq_tui.embedded.workload_process import WorkloadProcess

__all__ = ["EmbeddedError", "EmbeddedServer", "ServerNotFound", "ServerStartError", "WorkloadProcess"]
