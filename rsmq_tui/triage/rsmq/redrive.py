"""Dead letters: the source queue of each, to which a redrive sends it."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence

from rsmq_tui.monitor.filters.json_paths import JsonPath, JsonPathError, load, read_path, value_at
from rsmq_tui.protocol import RawMessage, RsmqError
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.triage import actions
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.scope import Selection

# A preview looks up so many messages without a pause, of any size: they have no bodies here.
_LOOKED_UP, _ANY_BYTES = 2_000, 1 << 40
# How many source queues a preview checks; dead letters rarely come from more.
_WAYS_SHOWN = 20

_WORDS = r"(?:dlq|dead[-_]?letters?|dead|failed|failures|poison(?:ed)?)"
_SUFFIX = re.compile(rf"(.+?)[-_]{_WORDS}(?:[-_]queue)?", re.IGNORECASE)
_PREFIX = re.compile(rf"{_WORDS}[-_](.+)", re.IGNORECASE)


class RedriveSources:
    """Finds the source queue of each message of a dead-letter queue."""

    def __init__(self, action: actions.Redrive, journal: Journal, server: str, ns: str) -> None:
        self._action = action
        self._journal = journal
        self._server, self._ns = server, ns
        self._moved: dict[bytes, str] | None = None
        self._named = name_without_dead(action.queue)
        self._path = None if action.origin is None else _path_of(action.origin)

    @property
    def need_bodies(self) -> bool:
        """True if the sources are in the bodies, which must be read then."""
        return self._action.target is None and self._path is not None

    async def of(self, messages: Sequence[RawMessage]) -> dict[bytes, str]:
        """Return the source queue of each message, by id; messages of unknown origin are left out."""
        if self._action.target is not None:
            return dict.fromkeys((message.id for message in messages), self._action.target)
        found: dict[bytes, str] = {}
        for message in messages:
            said = self._named if self._path is None else _text_at(message.body, self._path)
            if said is not None:
                found[message.id] = said
        if self._path is None:
            if self._moved is None:
                self._moved = await asyncio.to_thread(self._journal.sources, self._server, self._ns, self._action.queue)
            found |= {message.id: self._moved[message.id] for message in messages if message.id in self._moved}
        return found


async def redrive_notes(
    editor: RsmqEditor, journal: Journal, action: actions.Redrive, selection: Selection
) -> tuple[str, ...]:
    """Return notes on where dead letters would go; raises what the editor and the journal raise."""
    if action.target is not None:
        return ()
    if action.origin is not None:
        _path_of(action.origin)
        return (
            f"Each goes to the queue at {action.origin} in its body. Bodies are read when the change runs: a message"
            " that names no queue, or one that does not exist, fails and stays here.",
        )
    named = name_without_dead(action.queue)
    known = "" if named is None else f", else to {named}, by the name of this queue"
    notes = [f"Each goes to its source queue, as recorded in the journal{known}."]
    sources = RedriveSources(action, journal, editor.label, editor.ns)
    ways: Counter[str] = Counter()
    for chunk in selection.chunks(_LOOKED_UP, _ANY_BYTES):
        found = await sources.of(chunk)
        ways.update(found.get(message.id, action.queue) for message in chunk)
        # There may be millions: yield to the event loop.
        await asyncio.sleep(0)
    lost = ways.pop(action.queue, 0)
    if lost:
        notes.append(f"{_of(lost, selection.count)} no known origin: {_fail(lost)}.")
    for queue, count in ways.most_common(_WAYS_SHOWN):
        try:
            wrong = "" if (await editor.fields(queue)).exists else "which does not exist"
        except RsmqError:
            wrong = "which is not a queue"
        if wrong:
            notes.append(f"{_of(count, selection.count)} to go to {queue}, {wrong}: {_fail(count)}.")
    return tuple(notes)


def _of(count: int, whole: int) -> str:
    if count == whole:
        return "It has" if count == 1 else f"All {count:,} have"
    return f"{count:,} of these {'has' if count == 1 else 'have'}"


def _fail(count: int) -> str:
    return "it fails and stays here" if count == 1 else "they fail and stay here"


def name_without_dead(queue: str) -> str | None:
    """Return the source queue in a dead-letter queue's name: ``orders`` for ``orders-dlq`` and ``dead-orders``."""
    known = _SUFFIX.fullmatch(queue) or _PREFIX.fullmatch(queue)
    return known[1] if known else None


def _text_at(body: bytes | None, path: JsonPath) -> str | None:
    value = value_at(load(body or b""), path)
    return value if isinstance(value, str) else None


def _path_of(origin: str) -> JsonPath:
    text = f".{origin.removeprefix('json').removeprefix('.')}"
    try:
        path, end = read_path(text)
    except JsonPathError as error:
        raise TriageError(f"{origin} is not a JSON path: {error}") from error
    if not path or end < len(text):
        raise TriageError(f"{origin} is not a JSON path such as meta.queue")
    return path
