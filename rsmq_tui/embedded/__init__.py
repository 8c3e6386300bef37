"""A server and a workload that need nothing installed: for the demo and for the tests."""

from rsmq_tui.embedded.server import EmbeddedError, EmbeddedServer, ServerNotFound, ServerStartError
from rsmq_tui.embedded.workload_process import WorkloadProcess

__all__ = ["EmbeddedError", "EmbeddedServer", "ServerNotFound", "ServerStartError", "WorkloadProcess"]
