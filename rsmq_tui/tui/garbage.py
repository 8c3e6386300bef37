"""The garbage collector of the dashboard: off until the first numbers, and run for what closed screens leave."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

from rich import cells
from rich.color import Color as RichColor
from rich.style import Style as RichStyle
from textual import _border, _segment_tools
from textual import filter as filters
from textual._styles_cache import StylesCache
from textual.app import App
from textual.color import Color
from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer

from rsmq_tui.heap import give_back

# The longest time during the start without the garbage collector.
START_S = 3.0
# The collector runs when there are this many more objects than after its last run.
_YOUNG_OBJECTS_MAX = 20_000
# How long after a screen was closed, or the theme was changed, what is left of them is collected: with many queues
# longer, because a full garbage collection takes 10 us for each.
_FREE_AFTER_S, _FREE_AFTER_QUEUE_S = 2.0, 0.002
# With more queues, a collection takes longer than 0.1 s; with 100,000, 0.7 s.
_FREE_QUEUES_MAX = 10_000


def _caches_of(holder: object) -> Iterator[Any]:
    """Yield the caches among the methods of a class, or the functions of a module."""
    for found in vars(holder).values():
        function = getattr(found, "fget", None) or getattr(found, "__func__", found)
        if hasattr(function, "cache_clear"):
            yield function


# Those of Textual and Rich that keep what widgets have painted, where they were, and colours: 400 KB for each theme.
# The first keeps 50 MB: its key contains the object of the method, so it has what the last 1,024 widgets painted.
_HOLDERS = (
    *(StylesCache, Region, Strip, Style, Color, RichStyle, RichColor, ANSIToTruecolor),
    *(filters, _border, _segment_tools, cells),
)
SCREEN_CACHES = tuple(cached for holder in _HOLDERS for cached in _caches_of(holder))


class GarbageCollection:
    """Disables the collector during the start, and frees what closed screens and earlier themes leave.

    ``queues`` returns how many queues are shown.
    """

    def __init__(self, app: App[Any], queues: Callable[[], int]) -> None:
        self._app = app
        self._queues = queues
        self._is_disabled = False
        self._freeing: Timer | None = None
        # Whether screens were closed since that timer began: it may be too early for the last of them.
        self._has_more_to_free = False

    def disable(self) -> None:
        """Disable the collector until the first numbers, or for some seconds.

        Nothing that is created before them is garbage; collections take a thirtieth of the start.
        """
        gc.disable()
        self._is_disabled = True

    def enable(self) -> None:
        """Enable the collector; the first call counts."""
        if self._is_disabled:
            self._is_disabled = False
            gc.freeze()
            # A tick makes some 8,000 objects, and a few lists of all queues, hardly any of them garbage. By default the
            # collector runs every 700 objects (2,000 from Python 3.13 on), and walks through these lists: of 100,000
            # queues that is a fifth of a tick.
            gc.set_threshold(_YOUNG_OBJECTS_MAX)
            gc.enable()

    def free_soon(self) -> None:
        """Free what a closed screen or an earlier theme leaves, soon after it."""
        if self._freeing is not None:
            # Not later with each screen: if many are opened and closed in turn, what they leave would add up.
            self._has_more_to_free = True
            return
        self._has_more_to_free = False
        queues = min(self._queues(), _FREE_QUEUES_MAX)
        self._freeing = self._app.set_timer(max(_FREE_AFTER_S, queues * _FREE_AFTER_QUEUE_S), self._free)

    def _free(self) -> None:
        """Free it, and return it to the system.

        Widgets refer to each other, so only a full garbage collection frees them. Python begins one after a quarter as
        many objects more; until then the closed screens of an hour would take tens of MB. A dashboard of very many
        queues waits for that: a collection there is long, and the screens are a small part of its memory.
        """
        self._freeing = None
        for cached in SCREEN_CACHES:
            cached.cache_clear()
        if self._queues() <= _FREE_QUEUES_MAX:
            gc.collect()
        give_back()
        if self._has_more_to_free:
            self.free_soon()
