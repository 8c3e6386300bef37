"""The kinds of queues: what each is called, what it can do, and where each layer has its part of it.

``KINDS`` has one entry for each kind. Nothing here imports a part: ``Kind.part`` does, when it is first needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, NamedTuple


class Tab(NamedTuple):
    """Lists a ``part`` of a queue in pages, or where it is None what the ``term`` of a filter finds."""

    name: str
    term: str = ""
    part: Literal["all", "ready", "hidden"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of queue.

    ``name`` is what snapshots, histories and references call it, ``noun`` what people see for one message, and
    ``title`` what a queue of it is, empty for RSMQ. ``ns`` stands where a namespace would (in snapshots, the journal
    and histories) of a kind without namespaces, whose queues are named by their whole keys; it is empty where queues
    are in namespaces. ``label`` names all queues of the kind beside those of others.

    ``actions`` are the names of the actions that screens offer for its queues and messages. ``counts_receives`` says
    that each message, and the queue, has a count of how often it was received; ``counts_arrivals`` that what is sent is
    counted, else only the change of the depth is known; ``has_leases`` that hidden messages have leases, which can
    expire; ``can_block`` that consumers can wait on the server for a message.

    ``tabs`` are the tabs of a queue's messages, ``due_title`` is the title of the bars that count hidden messages by
    time.

    ``parts`` says, by what each is for, where the part of a layer is, as ``module:name``, or ``module`` alone:

    ``editor``   protocol: the ``EditExecutor`` that changes its queues
    ``backend``  triage: the ``Backend`` of changes, where it takes no more than a server, a namespace and ``ListNames``
    ``undo``     triage: the ``BatchUndo`` that takes its batches back
    ``batches``  triage: the module with ``row_of`` and ``batch_of``, which store its batches in the journal
    ``forms``    tui: ``form_of``, for what its actions need to be asked for; without it, that of RSMQ
    """

    name: str
    noun: str = "message"
    title: str = ""
    label: str = ""
    ns: str = ""
    actions: frozenset[str] = frozenset()
    counts_receives: bool = False
    counts_arrivals: bool = False
    has_leases: bool = False
    can_block: bool = False
    tabs: tuple[Tab, ...] = (Tab("all", part="all"),)
    due_title: str = "Messages visible in"
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What a reference to one of its queues begins with."""
        return f"{self.name}:"

    @property
    def has_namespaces(self) -> bool:
        """True where its queues are in namespaces."""
        return not self.ns

    def part(self, purpose: str) -> Any:
        """Import and return a part; raises ``LookupError`` for one that the kind does not have."""
        module, _, name = self.parts[purpose].partition(":")
        part = import_module(module)
        return getattr(part, name) if name else part


RSMQ = Kind(
    name="rsmq",
    actions=frozenset(
        (
            *("send", "delete", "purge", "hide", "release", "move", "copy", "redrive", "retry", "import", "fix"),
            *("create", "set", "delete-queue"),
        )
    ),
    counts_receives=True,
    counts_arrivals=True,
    tabs=(
        Tab("all", part="all"),
        Tab("ready", "state:ready", part="ready"),
        Tab("in flight", "state:inflight"),
        Tab("delayed", "state:delayed"),
        Tab("poison", "state:poison"),
    ),
    parts={
        "editor": "rsmq_tui.protocol.rsmq.editor:QueueEditor",
        "backend": "rsmq_tui.triage.rsmq.backend:RsmqBackend",
        "undo": "rsmq_tui.triage.rsmq.undo:RsmqUndo",
        "batches": "rsmq_tui.triage.rsmq.batches",
        "forms": "rsmq_tui.tui.changes.forms:form_of",
    },
)

LIST = Kind(
    name="list",
    noun="item",
    title="a Redis List",
    label="lists",
    ns="(lists)",
    actions=frozenset(("send", "delete", "purge", "hide", "move", "copy", "import", "pop", "requeue", "ack", "trim")),
    has_leases=True,
    can_block=True,
    # What is not ready is in processing.
    tabs=(
        Tab("all", part="all"),
        Tab("ready", "state:ready", part="ready"),
        Tab("processing", "!state:ready", part="hidden"),
        Tab("expired", "state:expired"),
        Tab("no lease", "state:unleased"),
    ),
    due_title="Leases that end in",
    parts={
        "editor": "rsmq_tui.protocol.lists.editor:ListEditor",
        "undo": "rsmq_tui.triage.lists.undo:ListUndo",
        "batches": "rsmq_tui.triage.lists.batches",
        "forms": "rsmq_tui.tui.changes.list_forms:form_of",
    },
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in (RSMQ, LIST)}


def kind_named(name: str) -> Kind:
    """Return the kind of that name; RSMQ for a name that nobody knows, as a recorded file may hold."""
    return KINDS.get(name, RSMQ)


def kind_of(ns: str) -> Kind:
    """Return the kind of the queues of a namespace, or of what stands for one."""
    return next((kind for kind in KINDS.values() if kind.ns == ns and ns), RSMQ)


def kind_of_batch(name: str) -> Kind:
    """Return the kind of queue that a batch of that ``kind`` changes: ``list-remove``; RSMQ's have no prefix."""
    return KINDS.get(name.partition("-")[0], RSMQ)


class Reference(NamedTuple):
    """A queue with its kind; ``ns`` is its namespace, or what stands for one."""

    kind: Kind
    ns: str
    queue: str

    @property
    def text(self) -> str:
        """It as people write it, whatever kind and namespace are meant without a prefix: rsmq:ns/queue, list:key."""
        within = f"{self.ns}/" if self.kind.has_namespaces else ""
        return f"{self.kind.prefix}{within}{self.queue}"


def read_reference(text: str, ns: str) -> Reference | None:
    """Read ``list:key``, ``rsmq:queue`` (of ``ns``) or ``rsmq:ns/queue``; None for a text without such a prefix."""
    for kind in KINDS.values():
        if text.startswith(kind.prefix):
            named = text.removeprefix(kind.prefix)
            if not kind.has_namespaces:
                return Reference(kind, kind.ns, named)
            own, slash, queue = named.rpartition("/")
            return Reference(kind, own if slash else ns, queue)
    return None
