"""Type-ahead: a key that is typed waits until those before it have had their effect."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence, Set
from functools import partial
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.events import Key, Paste

# Messages cause others: so many rounds of them are waited for at most. Enter in the list of commands has five.
_ROUNDS_MAX = 10


class TypeAhead:
    """Gives what is typed or pasted to ``handle``, one event after another.

    Textual gives each key to the widget that has the focus when it arrives. The letters that follow a key which opens a
    form would go to the screen below, as its commands.

    The keys ``held`` down to move a cursor repeat faster than a busy machine paints: those that wait are handled at
    once.
    """

    def __init__(self, app: App[Any], handle: Callable[[Key | Paste], Awaitable[None]], held: Set[str]) -> None:
        self._app = app
        self._handle = handle
        self._held = held
        self._waiting: deque[Key | Paste] = deque()
        self._is_busy = False
        self._rounds = 0

    @property
    def is_idle(self) -> bool:
        """True if all keys have had their effect."""
        return not self._is_busy

    async def add(self, event: Key | Paste) -> None:
        """Handle an event now, or after those that wait."""
        self._waiting.append(event)
        if not self._is_busy:
            await self._next()

    async def _next(self) -> None:
        self._is_busy = bool(self._waiting and self._app.screen_stack)
        if self._is_busy:
            way, key = self._way, self._held_key
            await self._handle(self._waiting.popleft())
            while key is not None and self._held_key == key:
                await self._handle(self._waiting.popleft())
            self._rounds = 0
            self._follow(way, way)

    @property
    def _held_key(self) -> str | None:
        """The next key if it may be held down."""
        event = self._waiting[0] if self._waiting else None
        return event.key if isinstance(event, Key) and event.key in self._held else None

    @property
    def _way(self) -> Sequence[DOMNode]:
        """The nodes whose message queues a key passes: those from the focused widget, or the screen, to the app.

        At its end the app has no screen.
        """
        app = self._app
        return ((app.focused or app.screen) if app.screen_stack else app).ancestors_with_self

    def _follow(self, way: Sequence[DOMNode], left: Sequence[DOMNode]) -> None:
        """Wait in the queues of the nodes that are ``left``, behind the messages that the last event has caused.

        A node that is gone has handled its own.
        """
        for number, node in enumerate(left, 1):
            if node.call_later(partial(self._follow, way, left[number:])):
                return
        # What it has caused may have opened a screen, moved the focus, or caused more. A busy app always has messages.
        self._rounds += 1
        if self._way != way or (self._rounds < _ROUNDS_MAX and any(map(_has_messages, way))):
            self._follow(self._way, self._way)
        else:
            self._app.call_next(self._next)


def _has_messages(node: DOMNode) -> bool:
    # Textual takes the next message from the queue while it handles one.
    return node._pending_message is not None or not node._message_queue.empty()
