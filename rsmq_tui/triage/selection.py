"""Which messages a change is for, and what each was when people saw it: the memory that compare-and-set needs.

A selection may hold millions. It keeps them in a file once they are many, so that memory stays flat.
"""

import marshal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from os import SEEK_END
from tempfile import SpooledTemporaryFile
from typing import Any

from rsmq_tui.monitor.reading import ScoreUnit, score_units
from rsmq_tui.monitor.states import MessageState, count_states
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.messages import raw_message

_IN_MEMORY_BYTES = 8_000_000
_LENGTH_BYTES = 8
# The fields of a message that are looked at here.
_ID, _SCORE, _RC, _SIZE, _BODY = map(RawMessage._fields.index, ("id", "score", "rc", "size", "body"))
# Bodies that were read while looking are kept up to this much; those of later messages are read again.
_BODIES_BYTES = 64_000_000


class Selection:
    """Messages of one queue in the order they were added; ``close`` frees the file.

    ``states`` counts them by what they were when seen, ``bytes`` sums the lengths of their bodies, and ``units`` counts
    those whose scores are not in ms. A message whose body is None has none, or is to be read before it is taken away.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 # it lives as long as this does
        self.clear()

    def clear(self) -> None:
        """Forget what was added."""
        self.count = 0
        self.bytes = 0
        self.at_ms = 0
        self.states = dict.fromkeys(MessageState, 0)
        self.units: Counter[ScoreUnit] = Counter()
        self._file.seek(0)
        self._file.truncate()

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Add messages that were read at that server time."""
        # A column for each field: half as long to keep, and to read again, as a row for each message.
        columns: list[Sequence[Any]] = list(zip(*messages, strict=True))
        if not columns:
            return
        self.at_ms = at_ms
        self.count += len(columns[0])
        self.bytes += sum(columns[_SIZE])
        if self.bytes > _BODIES_BYTES:
            del columns[_BODY]
        for state, count in count_states(columns[_SCORE], columns[_RC], at_ms, columns[_ID]).items():
            self.states[state] += count
        self.units.update(score_units(columns[_SCORE]))
        # Our own file, never anybody else's: marshal is the fastest way there and back.
        packed = marshal.dumps(columns)
        self._file.seek(0, SEEK_END)
        self._file.write(len(packed).to_bytes(_LENGTH_BYTES, "big"))
        self._file.write(packed)

    def chunks(self, messages: int, size: int) -> Iterator[list[RawMessage]]:
        """Walk through it in runs of at most that many messages and about that many bytes of bodies."""
        chunk: list[RawMessage] = []
        heavy = 0
        for block in self._blocks():
            start = 0
            while start < len(block):
                part = block[start : start + messages - len(chunk)]
                weight = sum([message.size for message in part])
                if heavy + weight > size:
                    # One by one; a message that is heavier than that comes alone.
                    part = part[:1]
                    weight = part[0].size
                if chunk and heavy + weight > size:
                    yield chunk
                    chunk, heavy = [], 0
                    continue
                chunk += part
                heavy += weight
                start += len(part)
                if len(chunk) == messages:
                    yield chunk
                    chunk, heavy = [], 0
        if chunk:
            yield chunk

    def __iter__(self) -> Iterator[RawMessage]:
        return chain.from_iterable(self._blocks())

    def _blocks(self, place: int = 0) -> Iterator[list[RawMessage]]:
        while True:
            self._file.seek(place)
            head = self._file.read(_LENGTH_BYTES)
            if not head:
                return
            packed = self._file.read(int.from_bytes(head, "big"))
            place += _LENGTH_BYTES + len(packed)
            columns = marshal.loads(packed)
            if len(columns) == _BODY:
                columns.append(repeat(None, len(columns[0])))
            yield list(map(raw_message, zip(*columns, strict=True)))

    def close(self) -> None:
        """Free the file."""
        self._file.close()
