"""Which messages a change is for, and what each was when people saw it: the memory that compare-and-set needs.

A selection may hold millions. It keeps them in a file once they are many, so that memory stays flat.
"""

import marshal
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from os import SEEK_END
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from rsmq_tui.monitor.states import MessageState, count_states
from rsmq_tui.protocol import RawMessage

_IN_MEMORY_BYTES = 8_000_000
_LENGTH_BYTES = 8


class Seen(NamedTuple):
    """A message as it was seen: what is compared before it changes, and its body's length in bytes."""

    id: bytes
    score: bytes
    rc: bytes | None
    size: int


# Calling Seen takes three times as long.
_seen = partial(tuple.__new__, Seen)


class Selection:
    """Messages of one queue in the order they were added; ``close`` frees the file.

    ``states`` counts them by what they were when seen, ``bytes`` sums the lengths of their bodies.
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.at_ms = 0
        self.states = dict.fromkeys(MessageState, 0)
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 # it lives as long as this does

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Add messages that were read at that server time."""
        block = [(id, score, rc, size) for id, score, rc, _, size, _ in messages]
        if not block:
            return
        self.at_ms = at_ms
        self.count += len(block)
        self.bytes += sum(seen[3] for seen in block)
        for state, count in count_states(((score, rc) for _, score, rc, _ in block), at_ms).items():
            self.states[state] += count
        # Our own file, never anybody else's: marshal is the fastest way there and back.
        packed = marshal.dumps(block)
        self._file.seek(0, SEEK_END)
        self._file.write(len(packed).to_bytes(_LENGTH_BYTES, "big"))
        self._file.write(packed)

    def chunks(self, messages: int, size: int) -> Iterator[list[Seen]]:
        """Walk through it in runs of at most that many messages and about that many bytes of bodies."""
        chunk: list[Seen] = []
        heavy = 0
        for block in self._blocks():
            weight = sum(seen.size for seen in block)
            if len(chunk) + len(block) <= messages and heavy + weight <= size:
                chunk += block
                heavy += weight
                continue
            for seen in block:
                if chunk and (len(chunk) == messages or heavy + seen.size > size):
                    yield chunk
                    chunk, heavy = [], 0
                chunk.append(seen)
                heavy += seen.size
        if chunk:
            yield chunk

    def __iter__(self) -> Iterator[Seen]:
        return chain.from_iterable(self._blocks())

    def _blocks(self) -> Iterator[list[Seen]]:
        place = 0
        while True:
            self._file.seek(place)
            head = self._file.read(_LENGTH_BYTES)
            if not head:
                return
            packed = self._file.read(int.from_bytes(head, "big"))
            place += _LENGTH_BYTES + len(packed)
            yield list(map(_seen, marshal.loads(packed)))

    def close(self) -> None:
        """Free the file."""
        self._file.close()
