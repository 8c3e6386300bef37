"""From readings to the bytes of an answer, in the format that the scraper asked for."""

import gzip
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.exposition import choose_encoder, gzip_accepted

from rsmq_tui.exporter.metrics import registry_of
from rsmq_tui.exporter.watching import Reading

# The highest level takes several times as long for a few per cent.
_GZIP_LEVEL = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a scraper asked for: `Accept`, `Accept-Encoding`, and the only series that it wants, if it said so."""

    accept: str = ""
    encoding: str = ""
    names: tuple[str, ...] = ()


class Renderer:
    """Writes readings down; may be called from any thread.

    The last answer is kept: writing a thousand queues down takes a hundred times as long as polling them, and scrapes
    that share a poll share that too.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._key: object = None
        self._answer: tuple[bytes, dict[str, str]] = b"", {}

    def render(self, readings: Sequence[Reading], wanted: Wanted) -> tuple[bytes, dict[str, str]]:
        """Return the body, and the headers that say what it is."""
        key = tuple(readings), wanted
        with self._turn:
            if key != self._key:
                self._answer, self._key = _render(readings, wanted), key
            return self._answer


def _render(readings: Sequence[Reading], wanted: Wanted) -> tuple[bytes, dict[str, str]]:
    # A header may go over several lines, and part of it comes back in the answer's.
    accept = " ".join(wanted.accept.split())
    try:
        encode, content_type = choose_encoder(accept)
    except TypeError:
        # A version that is no number.
        encode, content_type = choose_encoder("")
    registry: Any = registry_of(readings)
    if wanted.names:
        registry = registry.restricted_registry(wanted.names)
    body = encode(registry)
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if gzip_accepted(wanted.encoding):
        body = gzip.compress(body, compresslevel=_GZIP_LEVEL)
        headers["Content-Encoding"] = "gzip"
    return body, headers
