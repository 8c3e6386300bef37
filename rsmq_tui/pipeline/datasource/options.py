"""The options of the data source, its errors, and the readers of the server that the options name.

    Exception
    └── SourceError        what stops a read, a stream or a write

A SourceError says in one sentence what to do next. Spark puts its own lines around it; the sentence is the last line of
Python's traceback.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rsmq_tui.history.names import read_name
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.monitor.poller import Polling
from rsmq_tui.monitor.text import SENTENCE_MAX, printable
from rsmq_tui.protocol import SERVER_ERRORS, Address, RsmqError, RsmqReader, failure_of
from rsmq_tui.protocol.kinds import LIST, RSMQ
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import ListReader

if TYPE_CHECKING:
    from rsmq_tui.profiles import Profile


P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", RsmqReader, ListReader)

ERRORS: tuple[type[Exception], ...] = (RsmqError, *SERVER_ERRORS)


class SourceError(Exception):
    """What stops a read, a stream or a write; its text is one sentence."""


def explain(error: Exception, label: str, what: str = "") -> SourceError:
    """Return the error for a failure of a server or the protocol; ``what`` is the failed operation."""
    doing = f"{what}: " if what else ""
    if isinstance(error, RsmqError):
        return SourceError(printable(f"{label}: {doing}{error}", SENTENCE_MAX))
    failure = failure_of(error)
    return SourceError(printable(f"{label}: {doing}{failure.words}", SENTENCE_MAX))


def briefly(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap a method that Spark calls, so that a ``SourceError`` has no traceback of this program."""

    @wraps(call)
    def brief(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except SourceError as error:
            sentence = str(error)
        raise SourceError(sentence)

    return brief


QUEUES, MESSAGES = "queues", "messages"
NEW, ONCE, KEPT = "new", "once", "kept"
_DEFAULT_URL = "redis://localhost:6379/0"
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


@dataclass(frozen=True, slots=True)
class Server:
    """The server, in a form that can be sent to the workers; passwords of profiles are not included."""

    url: str = field(default="", repr=False)
    profile: str = ""
    config: str = ""

    def address(self) -> Address:
        """Return the address; raises ``SourceError``. A profile is looked up on the machine that calls this."""
        if self.profile:
            return self.named().address
        try:
            return Address(self.url)
        except ValueError as error:
            raise SourceError(f"option url: {error}") from None

    def named(self) -> "Profile":
        """Return the profile of that name; raises ``SourceError``."""
        # Not needed if a URL is given.
        from rsmq_tui.profiles.config import read_config  # noqa: PLC0415
        from rsmq_tui.profiles.values import ConfigError  # noqa: PLC0415

        try:
            config = read_config(Path(self.config))
        except (ConfigError, OSError) as error:
            raise SourceError(f"option profile: {printable(str(error))}") from None
        if self.profile not in config.profiles:
            known = ", ".join(config.profiles) or "none"
            raise SourceError(
                f"option profile: no profile {printable(self.profile)}; the configuration file has {known}"
            )
        return config.profiles[self.profile]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options, with their defaults; ``queue`` is a name as clients know it, or None for all queues.

    ``kind`` is rsmq or list; ``lists`` are names and patterns of lists, and ``list_names`` the names of their other
    keys. ``partitions`` is the maximum number of tasks of a read, ``chunk`` the number of messages per round trip;
    ``bodies`` adds the columns size and body. ``every_s`` is the time between the polls of a stream. ``ids`` selects
    the ids of written messages (see ``QueueWriter``), ``run`` names a write so that it can be repeated, ``delay_s`` is
    the default delay of rows, and ``fence_s`` how long the server remembers a write.
    """

    server: Server
    ns: str = "rsmq"
    table: str = QUEUES
    queue: str | None = None
    partitions: int = 8
    chunk: int = 2_000
    bodies: bool = False
    every_s: float = 5.0
    ids: str = NEW
    run: str | None = None
    delay_s: int | None = None
    fence_s: int = 86_400
    kind: str = RSMQ.name
    lists: tuple[str, ...] = ()
    list_names: ListNames = field(default_factory=ListNames)


_LIST_NAMES = {"lists_processing": "processing", "lists_leases": "leases", "lists_take": "take_from"}
_SERVER_OPTIONS = ("url", "profile", "config")
_NAMES = (
    *_SERVER_OPTIONS,
    *(each.name for each in fields(SourceOptions) if each.name not in ("server", "list_names")),
    *_LIST_NAMES,
)


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options; raises ``SourceError`` if one is unknown or invalid."""
    said = {name.lower(): value for name, value in given.items()}
    for name in said:
        if name not in _NAMES:
            close = get_close_matches(name, _NAMES, n=1)
            meant = f"did you mean {close[0]}?" if close else f"known options: {', '.join(_NAMES)}"
            raise SourceError(f"unknown option {printable(name)}: {meant}")
    found: dict[str, Any] = {name: _READERS[name](name, value) for name, value in said.items() if name in _READERS}
    return _with_lists(SourceOptions(_server(said), **found), said)


def _with_lists(options: SourceOptions, said: Mapping[str, str]) -> SourceOptions:
    """Return the options with lists and the names of their keys; defaults come from the profile."""
    named = [name for name in ("lists", *_LIST_NAMES) if name in said]
    if options.kind == RSMQ.name and (not named or "kind" in said):
        if named:
            raise SourceError(f"option {named[0]} is for lists: leave it out, or set kind=list")
        return options
    if "ns" in said:
        raise SourceError("lists have no namespace: leave option ns out")
    profile = options.server.named() if options.server.profile else None
    names = ListNames() if profile is None else profile.list_names
    try:
        changes: dict[str, Any] = {_LIST_NAMES[name]: said[name] for name in named if name != "lists"}
        names = replace(names, **changes)
    except ValueError as error:
        raise SourceError(f"options {', '.join(_LIST_NAMES)}: {error}") from None
    lists = options.lists or (() if profile is None else profile.lists)
    if options.queue is not None:
        lists = (options.queue,)
    return replace(options, kind=LIST.name, lists=lists, list_names=names, ns=LIST.ns)


def _server(said: Mapping[str, str]) -> Server:
    profile, url = said.get("profile", ""), said.get("url", "")
    if profile and url:
        raise SourceError("options url and profile both name a server: give only one of them")
    if not profile:
        # Resolved here: a worker of a cluster has another environment.
        server = Server(url=url or os.environ.get("REDIS_URL") or _DEFAULT_URL)
    else:
        from rsmq_tui.files import config_folder, expanded  # noqa: PLC0415 - see ``Server.address``

        path = said.get("config") or os.environ.get("RSMQ_TUI_CONFIG") or str(config_folder() / "config.toml")
        try:
            server = Server(profile=profile, config=str(expanded(path)))
        except ValueError as error:
            raise SourceError(f"option config: {error}") from None
    server.address()
    return server


def _text(name: str, value: str) -> str:
    return value


def _named(name: str, value: str) -> str:
    if not value:
        raise SourceError(f"option {name} is empty: give a value, or leave it out")
    return read_name(value)


def _patterns(name: str, value: str) -> tuple[str, ...]:
    found = tuple(read_name(pattern.strip()) for pattern in value.split(","))
    if not all(found):
        raise SourceError(
            f"option {name} is a key or a pattern of keys such as queue:*, or several separated by commas"
        )
    return found


def _one_of(*words: str) -> Callable[[str, str], str]:
    def read(name: str, value: str) -> str:
        if value.lower() not in words:
            raise SourceError(f"option {name} is one of {', '.join(words)}, not {printable(value, 40)}")
        return value.lower()

    return read


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
            raise SourceError(f"option {name} is a whole number from {low} to {high:,}, not {printable(value, 40)}")
        return int(value)

    return read


def _seconds(name: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0.1 <= found <= 86_400:
        raise SourceError(f"option {name} is a number of seconds from 0.1 to 86,400, not {printable(value, 40)}")
    return found


def _flag(name: str, value: str) -> bool:
    if value.lower() not in _TRUE + _FALSE:
        raise SourceError(f"option {name} is true or false, not {printable(value, 40)}")
    return value.lower() in _TRUE


_READERS: dict[str, Callable[[str, str], Any]] = {
    "ns": _text,
    "table": _one_of(QUEUES, MESSAGES),
    "queue": _named,
    "partitions": _whole(1, 4096),
    "chunk": _whole(1, 10_000),
    "bodies": _flag,
    "every_s": _seconds,
    "ids": _one_of(NEW, ONCE, KEPT),
    "run": _named,
    "delay_s": _whole(0, 9_999_999),
    "fence_s": _whole(60, 2_592_000),
    "kind": _one_of(RSMQ.name, LIST.name),
    "lists": _patterns,
}


_NEVER_S = 1e9


def iterate(reader: R, make: Callable[[R], AsyncGenerator[T, None]]) -> Iterator[T]:
    """Yield the items of the asynchronous generator that ``make`` returns for a reader; raises ``SourceError``.

    The reader is closed afterwards. The next item is fetched while the caller processes the current one.
    """
    with asyncio.Runner() as runner:
        # Not its run(): CPython makes a text of its handler of SIGINT, with the result of the task.
        run = runner.get_loop().run_until_complete
        coming = make(reader)
        try:
            while True:
                try:
                    item = run(_next(coming))
                except StopAsyncIteration:
                    return
                except ERRORS as error:
                    raise explain(error, reader.label) from None
                yield item
        finally:
            run(_close(coming, reader))


def opened(options: SourceOptions) -> RsmqReader:
    """Return a reader of the server that the options name; raises ``SourceError``."""
    return RsmqReader(options.server.address(), options.ns)


def opened_lists(options: SourceOptions) -> ListReader:
    """Return a reader of the lists that the options name; raises ``SourceError``."""
    if not options.lists:
        raise SourceError(
            "option lists names the lists to read: queue:*, or several separated by commas; or option "
            "queue names one list"
        )
    return ListReader(options.server.address(), options.list_names, options.lists)


def opened_poller(options: SourceOptions, *, interval_s: float = 1.0) -> Polling:
    """Return a poller of the queues that the options name; raises ``SourceError``.

    A poller of lists searches for them only on request: a background search would not run between two polls.
    """
    if options.kind == LIST.name:
        return ListPoller(opened_lists(options), interval_s=interval_s, search_every_s=_NEVER_S)
    return RsmqPoller(opened(options), interval_s=interval_s)


async def _next(coming: AsyncGenerator[T, None]) -> T:
    return await anext(coming)


async def _close(coming: AsyncGenerator[T, None], reader: RsmqReader | ListReader) -> None:
    async with aclosing(reader), aclosing(coming):
        pass
