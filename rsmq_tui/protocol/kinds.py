"""The kinds of queues: their names, their features, and the objects that implement them in each layer.

``KINDS`` has one entry for each kind. ``Kind.part`` imports an object when it is first needed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Literal, NamedTuple


class Tab(NamedTuple):
    """A tab that shows a ``part`` of a queue in pages, or if that is None, what the filter ``term`` finds."""

    name: str
    term: str = ""
    part: Literal["all", "ready", "hidden"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of queue.

    ``name`` is used in snapshots, histories and references. Screens show ``noun`` for one message, ``title`` for the
    type of a queue (empty for RSMQ), and ``label`` for all queues of the kind. ``ns`` is empty if queues are in
    namespaces. Otherwise queues are named by their whole keys, and ``ns`` takes the place of a namespace in snapshots,
    the journal and histories.

    ``actions`` are the names of the actions that screens offer for its queues and messages. ``counts_receives``:
    messages and queues have receive counts. ``counts_arrivals``: sent messages are counted; otherwise only the change
    of the depth is known. ``has_leases``: hidden messages have leases, which can expire. ``can_block``: consumers can
    wait on the server for a message. ``id_length`` is the usual length of the ids of its messages.

    ``tabs`` are the tabs of a queue's messages; ``due_title`` is the title of the bar chart of hidden messages by time.

    ``parts`` maps a purpose to an object, as ``module:name``, or to a ``module``:

    ``editor``   protocol: the ``EditExecutor`` that changes its queues
    ``undo``     triage: the ``BatchUndo`` that undoes its batches
    ``batches``  triage: the module with ``row_of`` and ``batch_of``, which store its batches in the journal
    ``forms``    tui: ``form_of``, the forms of its actions; without it, those of RSMQ
    ``place``    cli: the ``KindPlace`` of its queues, with which commands and the dashboard read, check and change them
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
    id_length: int = 32
    tabs: tuple[Tab, ...] = (Tab("all", part="all"),)
    due_title: str = "Messages visible in"
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What a reference to one of its queues begins with."""
        return f"{self.name}:"

    @property
    def has_namespaces(self) -> bool:
        """True if its queues are in namespaces."""
        return not self.ns

    @property
    def taken(self) -> str:
        """What a consumer has done with a message that it works on: ``received`` or ``taken``."""
        return "received" if self.counts_receives else "taken"

    def part(self, purpose: str) -> Any:
        """Import and return a part; raises ``LookupError`` if the kind has none."""
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
        "editor": "rsmq_tui.protocol.rsmq.editor:RsmqEditor",
        "undo": "rsmq_tui.triage.rsmq.batches:RsmqUndo",
        "batches": "rsmq_tui.triage.rsmq.batches",
        "forms": "rsmq_tui.tui.changes.forms:form_of",
        "place": "rsmq_tui.cli.places:_RsmqPlace",
    },
)

LIST = Kind(
    name="list",
    noun="item",
    title="a Redis List",
    label="lists",
    ns="(lists)",
    actions=frozenset(
        ("send", "delete", "purge", "extend", "move", "copy", "import", "pop", "requeue", "ack", "trim"),
    ),
    has_leases=True,
    can_block=True,
    # A place, a position of up to seven digits, and a digest.
    id_length=50,
    # Items that are not ready are in processing.
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
        "undo": "rsmq_tui.triage.lists.batches:ListUndo",
        "batches": "rsmq_tui.triage.lists.batches",
        "forms": "rsmq_tui.tui.changes.forms:list_form_of",
        "place": "rsmq_tui.cli.places:_ListPlace",
    },
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in (RSMQ, LIST)}


def kind_named(name: str) -> Kind:
    """Return the kind of that name; RSMQ for an unknown name, which a recorded file may hold."""
    return KINDS.get(name, RSMQ)


def kind_of(ns: str) -> Kind:
    """Return the kind of the queues of a namespace; ``Kind.ns`` may take its place."""
    return next((kind for kind in KINDS.values() if kind.ns == ns and ns), RSMQ)


def kind_of_batch(name: str) -> Kind:
    """Return the kind of queue that a batch of that ``kind`` changes: ``list-remove``; RSMQ's have no prefix."""
    return KINDS.get(name.partition("-")[0], RSMQ)


class Reference(NamedTuple):
    """A queue with its kind; ``ns`` is its namespace, or ``Kind.ns``."""

    kind: Kind
    ns: str
    queue: str

    @property
    def text(self) -> str:
        """The full reference, with its prefix: ``rsmq:ns/queue`` or ``list:key``."""
        within = f"{self.ns}/" if self.kind.has_namespaces else ""
        return f"{self.kind.prefix}{within}{self.queue}"


def read_reference(text: str, ns: str) -> Reference | None:
    """Read ``list:key``, ``rsmq:queue`` (of ``ns``) or ``rsmq:ns/queue``; None if there is no such prefix."""
    for kind in KINDS.values():
        if text.startswith(kind.prefix):
            named = text.removeprefix(kind.prefix)
            if not kind.has_namespaces:
                return Reference(kind, kind.ns, named)
            own, slash, queue = named.rpartition("/")
            return Reference(kind, own if slash else ns, queue)
    return None


def names_queue(pattern: str, kind: Kind, queue: str) -> bool:
    """Return whether a pattern matches a queue's name, without the prefix of its kind if the pattern has that.

    ``l*`` does not match ``list:`` and with it every list.
    """
    own = pattern.removeprefix(kind.prefix)
    return fnmatchcase(queue, pattern) or (own != pattern and fnmatchcase(queue, own))


def is_among(queue: str, kind: Kind, patterns: Iterable[str], *, ns: str | None = None) -> bool:
    """Return whether a queue is one of some names, with or without the prefix of its kind, or matches one of them.

    If its namespace is given, they may name that too: ``rsmq:ns/queue``.
    """
    full = None if ns is None else Reference(kind, ns, queue).text
    names = queue, f"{kind.prefix}{queue}", full
    return any(
        pattern in names
        or names_queue(pattern, kind, queue)
        or (full is not None and "/" in pattern and fnmatchcase(full, pattern))
        for pattern in patterns
    )
