"""A server and a workload that need nothing installed: for the demo and for the tests.

scenarios         what happens in each queue of the demo, as values: rates, faults and message bodies
server            a private Valkey server: its binary, its process, and its end
workload          the producers and consumers that run the scenarios against a server
workload_process  the workload in a process of its own
"""

from rsmq_tui.embedded.server import EmbeddedError, EmbeddedServer, ServerNotFound, ServerStartError
from rsmq_tui.embedded.workload_process import WorkloadProcess

__all__ = ["EmbeddedError", "EmbeddedServer", "ServerNotFound", "ServerStartError", "WorkloadProcess"]
