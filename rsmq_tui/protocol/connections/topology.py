"""Sentinels and cluster nodes: which server to connect to.

A search is a generator: it yields each question, is sent the reply or the error, and returns the server. It does no I/O
itself, so synchronous and asyncio clients use the same code.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from redis.crc import key_slot
from redis.exceptions import MovedError

from rsmq_tui.protocol.address import Address, Node, Sentinels
from rsmq_tui.protocol.errors import ExplainedError, Failure, failure_of
from rsmq_tui.protocol.keys import name_bytes

# How many discovered nodes to remember, to find the cluster again when the configured ones are gone.
_LEARNED_MAX = 30

T = TypeVar("T")


class Question(NamedTuple):
    """A command for one node or sentinel."""

    node: Node
    command: tuple[str, ...]
    to_sentinel: bool = False


Search = Generator[Question, Any, T]


class Topology(Protocol):
    """Finds the server for each new connection."""

    def find(self) -> Search[Node]:
        """Find the server; raises ``ExplainedError``."""
        ...


def slot_of(ns: str) -> int | None:
    """Return the cluster slot of all keys of a namespace; None if they are in several (no hash tag)."""
    _, opened, rest = ns.partition("{")
    tag, closed, _ = rest.partition("}")
    return int(key_slot(name_bytes(ns))) if opened and closed and tag else None


def topology_of(address: Address, ns: str | None) -> Topology | None:
    """Return the topology that finds the server of a namespace, or any node of a cluster if ``ns`` is None.

    Returns None if the address itself names the server.
    """
    if address.sentinels:
        return SentinelTopology(address.sentinels)
    if address.cluster:
        return ClusterTopology(address.cluster, ns)
    return None


class Slots(NamedTuple):
    """Which node of a cluster holds which slots."""

    ranges: tuple[tuple[range, Node], ...]

    def holder(self, key: bytes) -> Node | None:
        """Return the node that holds a key; None while no node serves its slot."""
        slot = key_slot(key)
        return next((node for slots, node in self.ranges if slot in slots), None)


@dataclass(frozen=True, slots=True)
class SingleServerTopology:
    """A node that is already known."""

    node: Node

    def find(self) -> Search[Node]:
        """Return the node, without a question."""
        yield from ()
        return self.node


class SentinelTopology:
    """Finds the master of a service; the sentinel that answered is asked first next time."""

    def __init__(self, sentinels: Sentinels) -> None:
        self._service = sentinels.service
        self._nodes = list(sentinels.nodes)

    def find(self) -> Search[Node]:
        """Ask one sentinel after another; raises ``ExplainedError``."""
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        silent: list[tuple[Node, Failure]] = []
        ignorant: Node | None = None
        for node in tuple(self._nodes):
            reply = yield Question(node, command, to_sentinel=True)
            if isinstance(reply, Exception):
                silent.append((node, _failure_by(reply, "sentinel|get-master-addr-by-name")))
            elif not _is_place(reply):
                ignorant = node
            else:
                self._nodes.remove(node)
                self._nodes.insert(0, node)
                return Node(_text(reply[0]), int(reply[1]))
        if ignorant is None:
            raise ExplainedError(_silence("no sentinel answers", silent, "the sentinels require", "sentinel_"))
        reply = yield Question(ignorant, ("SENTINEL", "MASTERS"), to_sentinel=True)
        names = sorted(_names(reply)) if isinstance(reply, list) else []
        raise ExplainedError(
            Failure(
                "no-service",
                f"the sentinels do not know the service {self._service}",
                f"known services: {', '.join(names)}" if names else "use the NAME of `sentinel monitor NAME …`",
            )
        )


class ClusterTopology:
    """Finds the cluster node that holds a namespace, or any node; the one that answered is asked first next time."""

    def __init__(self, seeds: Sequence[Node], ns: str | None) -> None:
        self._nodes = list(seeds)
        self._nodes_max = len(self._nodes) + _LEARNED_MAX
        self._ns = ns

    def find(self) -> Search[Node]:
        """Ask one node after another; raises ``ExplainedError``."""
        slot = None if self._ns is None else slot_of(self._ns)
        if self._ns is not None and slot is None:
            raise ExplainedError(_without_tag(self._ns))
        node, ranges = yield from self._ask(lambda ranges: slot is None or any(slot in each.slots for each in ranges))
        return next((each.master for each in ranges if slot in each.slots), node)

    def masters(self) -> Search[tuple[Node, ...]]:
        """Ask for every node that holds keys; raises ``ExplainedError``."""
        slots = yield from self.slots()
        return tuple(dict.fromkeys(node for _, node in slots.ranges))

    def slots(self) -> Search[Slots]:
        """Ask which node holds which slots; raises ``ExplainedError``."""
        _, ranges = yield from self._ask(bool)
        return Slots(tuple((each.slots, each.master) for each in ranges))

    def _ask(self, knows: Callable[[list["_Range"]], bool]) -> Search[tuple[Node, list["_Range"]]]:
        silent: list[tuple[Node, Failure]] = []
        for node in tuple(self._nodes):
            reply = yield Question(node, ("CLUSTER", "SLOTS"))
            if isinstance(reply, Exception):
                silent.append((node, _failure_by(reply, "cluster|slots")))
                continue
            ranges = list(_ranges(reply, node))
            if knows(ranges):
                self._learn(node, ranges)
                return node, ranges
            silent.append((node, Failure("clusterdown", "no node serves these keys", "check CLUSTER INFO")))
        raise ExplainedError(
            _silence("no node of the cluster gives the address of these keys", silent, "the cluster requires", "")
        )

    def _learn(self, knew: Node, ranges: list["_Range"]) -> None:
        others = [node for each in ranges for node in (each.master, *each.replicas)]
        self._nodes = list(dict.fromkeys([knew, *self._nodes, *others]))[: self._nodes_max]


class _Range(NamedTuple):
    slots: range
    master: Node
    replicas: tuple[Node, ...]


def _ranges(reply: Any, asked: Node) -> Iterator[_Range]:
    """Parse the reply to CLUSTER SLOTS; invalid entries are left out."""
    for entry in reply if isinstance(reply, list) else ():
        try:
            first, last, *nodes = entry
            master, *replicas = (_node(each, asked) for each in nodes)
            yield _Range(range(int(first), int(last) + 1), master, tuple(replicas))
        except (TypeError, ValueError, LookupError, AttributeError):
            continue


def _node(entry: list[Any], asked: Node) -> Node:
    host = _text(entry[0] or b"")
    if host in ("", "?"):
        # The entry names no usable host: take the ip of its metadata, or else the host of the node that was asked.
        others = [_text(each) for each in entry[3]] if len(entry) > 3 else []
        host = dict(zip(others[::2], others[1::2], strict=False)).get("ip") or asked.host
    return Node(host, int(entry[1]))


def _without_tag(ns: str) -> Failure:
    return Failure(
        "crossslot",
        f"a cluster spreads the keys of namespace {ns}, because its name has no hash tag",
        f"on a cluster, RSMQ needs one: {{{ns.replace('{', '').replace('}', '') or 'rsmq'}}}",
    )


def _failure_by(error: Exception, command: str) -> Failure:
    if "cluster support disabled" in str(error):
        return Failure("no-cluster", "it is not part of a cluster", "remove `cluster` from the profile")
    failure = failure_of(error)
    if failure.kind == "noperm":
        return Failure("noperm", "permission denied", f"grant it +{command}")
    return failure


def _silence(sentence: str, silent: list[tuple[Node, Failure]], wanting: str, prefix: str) -> Failure:
    """Combine the failures of all nodes into one."""
    reasons = ", ".join(f"{node}: {failure.sentence}" for node, failure in silent)
    kinds = {failure.kind for _, failure in silent}
    kind, hint = silent[0][1].kind, silent[0][1].hint
    if "noauth" in kinds:
        kind = "noauth"
        hint = f"{wanting} a password: {prefix}password_env, {prefix}password_file or {prefix}password_command"
    return Failure(kind, f"{sentence} ({reasons})", hint)


def _names(reply: list[Any]) -> Iterator[str]:
    for fields in reply:
        if isinstance(fields, list) and b"name" in fields[::2]:
            yield _text(fields[fields.index(b"name") + 1])


def _is_place(reply: Any) -> bool:
    is_pair = isinstance(reply, list) and len(reply) == 2 and all(isinstance(each, bytes) for each in reply)
    return is_pair and bool(reply[0]) and reply[1].isdigit()


def _text(raw: bytes) -> str:
    """Decode a name or a host for display: unprintable characters are replaced, because of terminal escapes."""
    text = raw.decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def has_moved(replies: Iterable[Any]) -> bool:
    """Return whether a server did nothing because another one holds the keys now."""
    return any(isinstance(reply, MovedError) for reply in replies)


async def answered_async(search: Search[T], ask: Callable[[Question], Awaitable[Any]]) -> T:
    """Run a search, asking with ``ask``, and return what it found; raises ``ExplainedError``."""
    try:
        question = next(search)
        while True:
            question = search.send(await ask(question))
    except StopIteration as found:
        result: T = found.value
        return result


def answered(search: Search[T], ask: Callable[[Question], Any]) -> T:
    """Run a search as ``answered_async`` does, without an event loop."""
    try:
        question = next(search)
        while True:
            question = search.send(ask(question))
    except StopIteration as found:
        result: T = found.value
        return result
