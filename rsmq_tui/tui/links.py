"""Addresses of what the dashboard shows: ``queue/orders?filter=rc>=5``, ``at/2031-05-17T21:50:00Z``.

Links are untrusted: their parts are only names to look up and a filter to parse.
"""

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from rsmq_tui.monitor.text import printable

_CHARACTERS_MAX = 4_000
_PARTS_MAX = 10
# Surrogates represent bytes that are not UTF-8, as in names of queues.
_ERRORS = "surrogateescape"
_FORMS = "queue/NAME?filter=…&server=… or at/2031-05-17T21:50:00Z"
_SHOWN = 60


class LinkError(ValueError):
    """A text is not a link; the error says why."""


class Link(NamedTuple):
    """The screen of a queue or, without one, the overview; ``filter`` is the filter of the screen.

    ``server`` is the place of the queue, needed only if several servers have a queue of that name. ``at_ms`` is the
    moment of a replay.
    """

    queue: str = ""
    filter: str = ""
    server: str = ""
    at_ms: int | None = None

    def __str__(self) -> str:
        moment = [] if self.at_ms is None else ["at", _written(self.at_ms)]
        path = "/".join([*moment, *(["queue", _quoted(self.queue)] if self.queue else [])])
        query = "&".join(
            f"{name}={_quoted(value)}" for name, value in (("filter", self.filter), ("server", self.server)) if value
        )
        return f"{path}?{query}" if query else path


def read_link(text: str) -> Link:
    """Parse a link, or the link in a whole address; raises ``LinkError``."""
    if len(text) > _CHARACTERS_MAX:
        raise LinkError(f"a link has at most {_CHARACTERS_MAX:,} characters")
    path, _, query = text.rpartition("#")[2].strip("/").partition("?")
    steps = [unquote(step, errors=_ERRORS) for step in path.rstrip("/").split("/") if step]
    link = Link()
    while steps:
        match steps:
            case ["at", moment, *rest] if link.at_ms is None:
                link = link._replace(at_ms=_read_moment(moment))
            case ["queue", name, *rest] if not link.queue:
                link = link._replace(queue=name)
            case _:
                raise LinkError(f"{printable(steps[0], _SHOWN)!r} is not part of a link: write {_FORMS}")
        steps = rest
    try:
        parts = parse_qsl(query, keep_blank_values=True, max_num_fields=_PARTS_MAX, errors=_ERRORS)
    except ValueError:
        raise LinkError(f"a link has at most {_PARTS_MAX} parts") from None
    for name, value in parts:
        if name not in ("filter", "server"):
            raise LinkError(f"{printable(name, _SHOWN)!r} is not part of a link: filter and server are")
        link = link._replace(filter=value) if name == "filter" else link._replace(server=value)
    return link


def _quoted(text: str) -> str:
    return quote(text, safe="", errors=_ERRORS)


def _written(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds" if at_ms % 1000 else "seconds").replace("+00:00", "Z")


def _read_moment(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        at_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        at_ms = -1
    if at_ms < 0:
        raise LinkError(f"{printable(text, _SHOWN)!r} is not a time such as 2031-05-17T21:50:00Z")
    return at_ms
