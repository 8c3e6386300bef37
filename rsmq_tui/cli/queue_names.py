"""From the names that users write to queues and their places: `orders`, `list:KEY`, `rsmq:NS/NAME`, and patterns."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import escape
from typing import NamedTuple

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.output import ProgressLine
from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.places import KindPlace, place_of, places_of, waiting
from rsmq_tui.monitor.filters.language import is_pattern
from rsmq_tui.monitor.text import printable
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.kinds import LIST, RSMQ, Kind, Reference, names_queue, read_reference
from rsmq_tui.triage.errors import EXPECTED, explain


class QueueArgument(NamedTuple):
    """The queue of a command: its name or key, and its place."""

    queue: str
    place: KindPlace

    @property
    def kind(self) -> Kind:
        """Its kind."""
        return self.place.kind

    @property
    def reference(self) -> str:
        """The queue as commands accept it."""
        place = self.place
        is_default = self.kind.has_namespaces and place.ns == place.profile.ns
        return self.queue if is_default else Reference(self.kind, place.ns, self.queue).text


def reference_of(text: str, ns: str) -> Reference | None:
    """Read `list:KEY`, `rsmq:NAME` (of ``ns``) or `rsmq:NS/NAME`; None for a name alone.

    Raises ``UsageError`` for a list without a key, or a queue without a name.
    """
    found = read_reference(text, ns)
    if found is not None and not found.queue:
        missing = "the name of the queue" if found.kind.has_namespaces else f"the key of the {found.kind.name}"
        raise UsageError(f"write {missing} after {found.kind.prefix}")
    return found


def queue_of(text: str, options: Options, profile: Profile) -> QueueArgument:
    """Return the queue that a text names; raises ``UsageError`` as ``reference_of`` does.

    A name without a prefix is a list if a pattern of --lists matches it, or if one of the profile does and it has a
    colon, which no name of an RSMQ queue has. A list with a prefix need not be one that the profile watches: then it
    can be read and changed, but is not among the ``queues`` of its place.
    """
    found = reference_of(text, profile.ns)
    if found is not None:
        return QueueArgument(found.queue, place_of(profile, found.ns, found.kind))
    is_list = any(fnmatchcase(text, pattern) for pattern in profile.lists) and bool(options.lists or ":" in text)
    return QueueArgument(text, place_of(profile, kind=LIST if is_list else RSMQ))


@asynccontextmanager
async def queues_of(
    text: str, options: Options, profile: Profile, line: ProgressLine
) -> AsyncIterator[Sequence[QueueArgument]]:
    """Yield the queue that a text names, or those with messages that match it as a pattern; then close their places.

    Meanwhile, the ``line`` shows that the server is waited for, as ``waiting`` does.

    A pattern is that of `fnmatch`: `*`, `orders-*`, `list:*`. It matches queues of all namespaces and lists of the
    profile; with a prefix, those of one kind. Raises ``UsageError`` if there are none, if they cannot be read, or if
    the text is also the name of a queue that the pattern does not match.
    """
    async with waiting(line, [profile.address.label]), AsyncExitStack() as opened:
        if not is_pattern(text):
            named = queue_of(text, options, profile)
            opened.push_async_callback(named.place.aclose)
            yield [named]
            return
        queues: list[QueueArgument] = []
        pattern, places = _searched(text, profile)
        for place in places:
            opened.push_async_callback(place.aclose)
            queues += await _matching(place, pattern, text, line)
        if not queues:
            raise UsageError(f"no queue with messages on {places[0].server} matches {printable(text)}")
        yield queues


def _searched(text: str, profile: Profile) -> tuple[str, Sequence[KindPlace]]:
    """Return a pattern of queues without its prefix, and the places in which there may be such queues."""
    found = reference_of(text, profile.ns)
    if found is None:
        return text, places_of(profile)
    is_listed = found.kind.has_namespaces or (found.queue == "*" and profile.lists)
    # A pattern with brackets does not match the key of the same text.
    keys = (found.queue, escape(found.queue)) if "[" in found.queue else (found.queue,)
    watched = profile if is_listed else replace(profile, lists=keys)
    return found.queue, [place_of(watched, found.ns, found.kind)]


async def _matching(place: KindPlace, pattern: str, text: str, line: ProgressLine) -> list[QueueArgument]:
    """Return the queues of a place with messages that match the pattern, which was given as ``text``."""
    try:
        states = await place.queues(line)
    except EXPECTED as error:
        raise UsageError(f"{place.title} on {place.server}: {explain(error)}") from error
    if any(state.name == pattern and not names_queue(pattern, place.kind, pattern) for state in states):
        exact = printable(escape(text))
        raise UsageError(f"{printable(text)} is a queue, and a pattern of others: {exact} names that queue")
    return [
        QueueArgument(state.name, place)
        for state in states
        if state.depth != 0 and names_queue(pattern, place.kind, state.name)
    ]


def target_of(text: str, queue: QueueArgument) -> str:
    """Return a target as a change of that queue accepts it; raises ``UsageError`` for an impossible one."""
    ns = queue.place.ns
    found = reference_of(text, ns) if queue.kind.has_namespaces else None
    if found is None or not found.kind.has_namespaces:
        return text
    if found.ns != ns:
        raise UsageError(f"{printable(text)} is in another namespace: messages of RSMQ queues move within {ns}")
    return found.queue
