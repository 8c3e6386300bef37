"""Finding the messages that a change is for: those that were marked, those of some ids, those that a search finds."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from typing import TypeVar

from rsmq_tui.monitor.search import Progress
from rsmq_tui.protocol import RawMessage, leading_int, name_bytes
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.triage.previews import Shown
from rsmq_tui.triage.selection import Selection

_CHUNK_MESSAGES = 500
_Item = TypeVar("_Item")


async def select_marked(
    editor: QueueEditor, queue: str, messages: Sequence[Shown], selection: Selection
) -> tuple[int, int]:
    """Select those that are still what was shown; returns how many are not, and how many of these are there."""
    left = changed = 0
    rest = iter(messages)
    for chunk in _chunks(rest):
        at_ms, found = await editor.seen(queue, [name_bytes(message.id) for message in chunk])
        there = [(shown, now) for shown, now in zip(chunk, found, strict=True) if now is not None]
        same = [now for shown, now in there if _is_same(shown, now)]
        changed += len(there) - len(same)
        left += len(chunk) - len(same)
        selection.add(same, at_ms)
    return left, changed


async def select_named(editor: QueueEditor, queue: str, ids: Sequence[str], selection: Selection) -> int:
    """Select the messages of these ids; returns how many of them are not there."""
    left = 0
    for chunk in _chunks(iter(dict.fromkeys(ids))):
        at_ms, found = await editor.seen(queue, [name_bytes(id) for id in chunk])
        there = [now for now in found if now is not None]
        left += len(chunk) - len(there)
        selection.add(there, at_ms)
    return left


async def select_matching(
    found_by: AsyncGenerator[Progress, None], selection: Selection, seeing: Callable[[int, int, int], None]
) -> int:
    """Select what a search of the whole queue finds; returns how many could not be searched.

    ``seeing`` is told how many were scanned, how many there are, and how many match.
    """
    unsearched = 0
    async with aclosing(found_by) as found:
        async for part in found:
            selection.add(part.messages, part.at_ms)
            unsearched = part.not_searched
            seeing(part.scanned, part.depth, part.matched)
    return unsearched


def _is_same(shown: Shown, now: RawMessage) -> bool:
    return float(shown.score) == float(now.score) and shown.rc == (leading_int(now.rc) or 0)


def _chunks(rest: Iterator[_Item]) -> Iterator[list[_Item]]:
    while chunk := list(islice(rest, _CHUNK_MESSAGES)):
        yield chunk
