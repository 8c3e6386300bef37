"""Real servers of every kind for tests: plain, with TLS, sentinels and what they watch, clusters."""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis

from rsmq_tui.cli.demo.server import find_server, let_go, spawn_guarded, tell_gone
from tests.waiting import wait_until

HOST = "127.0.0.1"


def server_program() -> str:
    """Debian's redis-server where there is one, else the embedded one: both can be a sentinel and a cluster's node."""
    return shutil.which("redis-server") or str(find_server())


def free_ports(count: int) -> list[int]:
    """Ports that are free now, and that no ephemeral connection is given; all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


@dataclass
class RealServer:
    """A server process; ``options`` is what redis-py's client of it takes."""

    port: int
    folder: Path
    process: "subprocess.Popen[bytes]"
    options: dict[str, Any] = field(default_factory=dict)

    def client(self) -> redis.Redis:
        return redis.Redis(HOST, self.port, socket_timeout=5, **self.options)

    def call(self, *command: Any) -> Any:
        """Send one command."""
        with self.client() as client:
            return client.execute_command(*command)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()


@contextmanager
def real_server(
    *extra: str,
    port: int | None = None,
    conf: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    program: str | None = None,
) -> Iterator[RealServer]:
    """Run a server; ``conf`` are the lines of a file that it may write to."""
    folder = Path(tempfile.mkdtemp(prefix="rsmq-tui-"))
    (given,) = [port] if port is not None else free_ports(1)
    file = folder / "server.conf"
    lines = [f"bind {HOST}", f"dir {folder}", 'save ""', f"port {0 if '--tls-port' in extra else given}", *conf]
    file.write_text("\n".join(lines) + "\n")
    with (folder / "log").open("wb") as log:
        process = spawn_guarded([program or server_program(), str(file), *extra], folder=folder, log=log)
    server = RealServer(given, folder, process, options or {})
    try:
        wait_until(lambda: server.call("PING"), what=(folder / "log").read_text())
        yield server
    finally:
        process.kill()
        tell_gone(process)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
        let_go(process)


@dataclass
class Watched:
    """A master with a replica, and the sentinels that watch them."""

    servers: list[RealServer]
    sentinels: list[RealServer]
    service: str

    @property
    def master(self) -> RealServer:
        """The one that the first sentinel takes for it."""
        _, port = self.sentinels[0].call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
        return next(server for server in self.servers if server.port == int(port))

    def fail_over(self) -> None:
        """Kill the master, and wait until the replica has taken its place."""
        before = self.master
        before.kill()
        wait_until(lambda: self.master is not before and self.master.call("ROLE")[0] == b"master", what="a new master")


@contextmanager
def watched(service: str, *, password: str | None = None) -> Iterator[Watched]:
    """Run a master, its replica and one sentinel that decides alone and soon; ``password`` is the sentinel's."""
    with ExitStack() as stack:
        quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        first = stack.enter_context(real_server(*quick))
        second = stack.enter_context(real_server(*quick, "--replicaof", f"{HOST} {first.port}"))
        wait_until(partial(_is_following, second), what="the replica to follow")
        conf = [
            f"sentinel monitor {service} {HOST} {first.port} 1",
            f"sentinel down-after-milliseconds {service} 200",
            f"sentinel failover-timeout {service} 1000",
        ]
        if password is not None:
            conf.append(f"requirepass {password}")
        options = {} if password is None else {"password": password}
        sentinel = stack.enter_context(real_server("--sentinel", conf=conf, options=options))
        found = Watched([first, second], [sentinel], service)
        wait_until(lambda: len(sentinel.call("SENTINEL", "REPLICAS", service)) == 1, what="the replica to be known")
        yield found


def _is_following(replica: RealServer) -> bool:
    with replica.client() as client:
        return bool(client.info("replication").get("master_link_status") == "up")


SLOTS = 16384


@dataclass
class Cluster:
    """Some masters with the slots shared out among them, each with as many replicas as were asked for."""

    masters: list[RealServer]
    replicas: list[RealServer]

    @property
    def nodes(self) -> list[RealServer]:
        return [*self.masters, *self.replicas]

    def owner(self, slot: int) -> RealServer:
        """The node that takes the slot for its own."""
        return next(node for node in self.nodes if _owns(node, slot))

    def move(self, slot: int, to: RealServer) -> None:
        """Move an empty slot, or one with a few keys, to another master."""
        for _ in self.moving(slot, to):
            pass

    def moving(self, slot: int, to: RealServer) -> Iterator[list[bytes]]:
        """Move a slot to another master, and yield the keys that are left: at the beginning, and after each key."""
        source = self.owner(slot)
        ids = {node.port: node.call("CLUSTER", "MYID").decode() for node in (source, to)}
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to.port])
        while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 100):
            yield keys
            source.call("MIGRATE", HOST, to.port, "", 0, 5000, "KEYS", keys[0])
        yield keys
        others = [node for node in self.nodes if node not in (to, source) and node.call("ROLE")[0] == b"master"]
        for node in (to, source, *others):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", ids[to.port])


def _owns(node: RealServer, slot: int) -> bool:
    with suppress(redis.RedisError, OSError):
        me = node.call("CLUSTER", "MYID")
        return any(first <= slot <= last and owner[2] == me for first, last, owner, *_ in node.call("CLUSTER", "SLOTS"))
    return False


@contextmanager
def cluster(*, masters: int = 3, replicas: int = 0, program: str | None = None) -> Iterator[Cluster]:
    """Run a cluster; each of the first masters gets one replica until there are so many."""
    with ExitStack() as stack:
        # The bus has a port of its own: by default it is 10,000 above the other, which need not exist.
        ports = free_ports(2 * (masters + replicas))
        nodes = [
            stack.enter_context(
                real_server(
                    "--cluster-enabled", "yes",
                    "--cluster-port", str(bus),
                    "--cluster-node-timeout", "500",
                    "--cluster-require-full-coverage", "no",
                    "--repl-diskless-sync-delay", "0",
                    port=port,
                    program=program,
                )
            )
            for port, bus in zip(ports[::2], ports[1::2], strict=True)
        ]  # fmt: skip
        found = Cluster(nodes[:masters], nodes[masters:])
        for number, node in enumerate(found.masters):
            first, after = (SLOTS * step // masters for step in (number, number + 1))
            node.call("CLUSTER", "ADDSLOTSRANGE", first, after - 1)
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        wait_until(partial(_have_met, nodes, ports[1::2]), what="the nodes to know each other")
        for master, replica in zip(found.masters, found.replicas, strict=False):
            replica.call("CLUSTER", "REPLICATE", master.call("CLUSTER", "MYID"))
            wait_until(partial(_is_following, replica), what="a replica to follow")
        wait_until(lambda: all(_is_ready(node, masters) for node in nodes), what="the cluster to be ready")
        yield found


def _have_met(nodes: Sequence[RealServer], buses: Sequence[int]) -> bool:
    """Return whether all nodes know each other; if not, ask the first to meet the others.

    A node forgets one that has not answered within a second, as on a busy machine, and does not ask again.
    """
    known = _nodes(nodes[0])
    for node, bus in zip(nodes[1:], buses[1:], strict=True):
        if f":{node.port}@".encode() not in known:
            nodes[0].call("CLUSTER", "MEET", HOST, node.port, bus)
    return all(_knows(node, len(nodes)) for node in nodes)


def _knows(node: RealServer, count: int) -> bool:
    with node.client() as client:
        state = client.cluster("INFO")
    return int(state["cluster_known_nodes"]) == count and b"handshake" not in _nodes(node)


def _nodes(node: RealServer) -> bytes:
    return bytes(repr(node.call("CLUSTER", "NODES")), "utf-8")


def _is_ready(node: RealServer, masters: int) -> bool:
    with node.client() as client:
        state = client.cluster("INFO")
    return (
        state["cluster_state"] == "ok"
        and int(state["cluster_size"]) == masters
        and int(state["cluster_slots_assigned"]) == SLOTS
    )
