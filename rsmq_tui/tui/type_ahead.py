"""Type-ahead: a key that is typed waits until those before it have had their effect."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import suppress
from typing import Any, cast

from textual.app import App
from textual.dom import DOMNode
from textual.events import Key, Paste
from textual.widgets import Input, TextArea

# Messages cause others: so many rounds of them are waited for at most. Enter in the list of commands has five.
_ROUNDS_MAX = 10
# A screen that is being opened takes a few tries; one that cannot be opened must not hold the keys for ever.
_TRIES_MAX = 100
# How often it is checked whether a node has ended, which drops what waits in its queue.
_ENDED_S = 0.05


class TypeAhead:
    """Gives what is typed or pasted to ``handle``, one event after another.

    Textual gives each key to the widget that has the focus when it arrives. The letters that follow a key which opens a
    form would go to the screen below, as its commands.

    The keys ``held`` down to move a cursor repeat faster than a busy machine paints: those that wait are handled at
    once. So are the characters of a text, in a field for it: some terminals send what is pasted as keys.
    """

    def __init__(self, app: App[Any], handle: Callable[[Key | Paste], Awaitable[None]], held: Set[str]) -> None:
        self._app = app
        self._handle = handle
        self._held = held
        self._waiting: deque[Key | Paste] = deque()
        self._following: asyncio.Task[None] | None = None
        # How often the next event has waited for the screen in front.
        self._tries = 0

    @property
    def is_idle(self) -> bool:
        """True if all keys have had their effect."""
        return self._following is None

    async def add(self, event: Key | Paste) -> None:
        """Handle an event now, or after those that wait."""
        self._waiting.append(event)
        if self.is_idle:
            await self._next()

    async def add_first(self, event: Key | Paste) -> None:
        """Handle an event before those that wait."""
        self._waiting.appendleft(event)
        if self.is_idle:
            await self._next()

    async def _next(self) -> None:
        self._following = None
        # At its end the app has no screen.
        if not (self._waiting and self._app.screen_stack):
            return
        way = self._way
        self._tries += 1
        # A screen that a worker has just opened has no widgets yet.
        if self._app.screen.is_mounted or self._tries > _TRIES_MAX:
            self._tries = 0
            handled = self._waiting.popleft()
            await self._handle(handled)
            while self._waiting and self._is_alike(handled, self._waiting[0]):
                await self._handle(self._waiting.popleft())
        self._following = asyncio.create_task(self._follow(way))

    def _is_alike(self, handled: Key | Paste, event: Key | Paste) -> bool:
        """Return whether an event need not wait for the effect of the one that was handled last."""
        if not (isinstance(handled, Key) and isinstance(event, Key)):
            return False
        is_text = handled.is_printable and event.is_printable and isinstance(self._app.focused, Input | TextArea)
        return is_text or (event.key == handled.key and event.key in self._held)

    @property
    def _way(self) -> Sequence[DOMNode]:
        """The nodes whose message queues a key passes: those from the focused widget, or the screen, to the app.

        At its end the app has no screen.
        """
        app = self._app
        return ((app.focused or app.screen) if app.screen_stack else app).ancestors_with_self

    async def _follow(self, way: Sequence[DOMNode]) -> None:
        """Wait until the last event has had its effect, and go on with the next one."""
        try:
            rounds = 0
            while rounds < _ROUNDS_MAX:
                for node in way:
                    await _has_handled(node)
                # What it has caused may have opened a screen, moved the focus, or caused more. A busy app always has
                # messages.
                before, way = way, self._way
                if way == before and not any(map(_has_messages, way)):
                    break
                rounds += way == before
        finally:
            self._app.call_next(self._next)


def type_ahead_of(app: object) -> TypeAhead:
    """Return the keys that wait in the app that a screen or a widget lives in."""
    return cast("TypeAhead", vars(app)["type_ahead"])


async def _has_handled(node: DOMNode) -> None:
    """Wait until a node has handled what is in its queue, or has ended."""
    handled = asyncio.Event()
    if node.call_later(handled.set):
        while not handled.is_set() and node.is_running:
            with suppress(TimeoutError):
                await asyncio.wait_for(handled.wait(), _ENDED_S)


def _has_messages(node: DOMNode) -> bool:
    # Textual takes the next message from the queue while it handles one.
    return node._pending_message is not None or not node._message_queue.empty()
