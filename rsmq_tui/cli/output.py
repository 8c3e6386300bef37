"""Printing: text on a terminal, JSON lines elsewhere, and never a terminal escape from the data."""

import json
import os
import shutil
import sys
import time
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TextIO

from rsmq_tui.cli.parsing import Options
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor.text import UNKNOWN, cells, date_clock, duration, fitted, printable
from rsmq_tui.protocol.kinds import kind_named

if TYPE_CHECKING:
    from rsmq_tui.monitor import QueueState
    from rsmq_tui.monitor.messages.peek import MessageRow
    from rsmq_tui.monitor.tracking.forecast import Limit
    from rsmq_tui.profiles import Profile

_PROGRESS_AFTER_S = 1.0
_PROGRESS_EVERY_S = 0.1
_TIMES = ("wait_p50", "wait_p95", "work_p50", "work_p95")


def wants_json(options: Options) -> bool:
    """Return whether to print JSON lines: on request, or if the output is not a terminal."""
    return bool(options.json) or not sys.stdout.isatty()


def has_screen() -> bool:
    """Return whether there is a terminal for the dashboard, or a page of `rsmq-tui serve`."""
    return "TEXTUAL_DRIVER" in os.environ or (is_terminal(sys.stdin) and sys.stdout.isatty())


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; one that was closed before the start is None."""
    return stream is not None and stream.isatty()


def print_json(value: object) -> None:
    """Print a value as one line; it is ASCII, whatever is in it."""
    ProgressLine.make_room()
    print(json.dumps(value))


def as_key(words: str) -> str:
    """Return words as a key of a JSON object: ``in_flight`` for ``in flight``."""
    return words.replace(" ", "_")


def print_words(text: str) -> None:
    """Print a line of text for people; characters that their terminal does not have become question marks."""
    ProgressLine.make_room()
    encoding = sys.stdout.encoding or "utf-8"
    print(printable(text).encode(encoding, "replace").decode(encoding))


def write_text(text: str) -> None:
    """Write a text as it is, for programs."""
    ProgressLine.make_room()
    sys.stdout.write(text)


def say(sentence: str) -> None:
    """Print a sentence for people on stderr."""
    ProgressLine.make_room()
    print(f"rsmq-tui: {printable(sentence)}", file=sys.stderr, flush=True)


def say_when(sentence: str) -> None:
    """Print a sentence for people on stderr after the time of this machine, as of a program that runs for days."""
    say(f"{date_clock(now_ms(), zone=True)}  {sentence}")


class TextColumn(NamedTuple):
    """A column of a table; a ``width`` of 0 takes the rest of the line.

    If there is no room for that, the columns with the greatest ``drop`` are left out; those with 0 never are.
    """

    title: str
    width: int
    right: bool = False
    drop: int = 0


# Less is not worth a column.
_REST_WIDTH_MIN = 12


class TextTable:
    """Prints lines in columns as they come, with the titles before the first; with ``wide``, no value is cut."""

    def __init__(self, *columns: TextColumn, wide: bool = False) -> None:
        self._columns = columns
        self._wide = wide
        self._left_out: set[TextColumn] = set()
        room = shutil.get_terminal_size().columns - sum(column.width + 2 for column in columns if column.width)
        for column in sorted(columns, key=lambda column: column.drop, reverse=True):
            if room < _REST_WIDTH_MIN and column.drop and not wide:
                self._left_out.add(column)
                room += column.width + 2
        self._rest = max(_REST_WIDTH_MIN, room)
        self._begun = False

    def print(self, *values: str) -> None:
        """Print one line, whatever the values contain."""
        if not self._begun:
            self._begun = True
            self._print([column.title for column in self._columns])
        self._print([printable(value) for value in values])

    def _print(self, values: Sequence[str]) -> None:
        parts = []
        for column, value in zip(self._columns, values, strict=True):
            if column in self._left_out:
                continue
            text = value if self._wide else fitted(value, column.width or self._rest)
            padding = " " * max(0, column.width - cells(text))
            parts.append(padding + text if column.right else text + padding)
        print_words("  ".join(parts).rstrip())


def print_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Container[int] = (), most: int | None = None
) -> None:
    """Print rows in columns as wide as their longest value, at most ``most``; the columns ``right`` are right-aligned.

    If the terminal is too narrow for the columns, no value is cut.
    """
    longest = [max(map(cells, column)) for column in zip(titles, *rows, strict=True)]
    widths = [width if most is None else min(most, width) for width in longest]
    columns = (
        TextColumn(title, width, right=number in right)
        for number, (title, width) in enumerate(zip(titles, widths, strict=True))
    )
    is_narrow = sum(widths) + 2 * len(widths) > shutil.get_terminal_size().columns
    table = TextTable(*columns, wide=is_narrow)
    for row in rows:
        table.print(*row)


class ProgressLine:
    """One line on stderr that is overwritten, if stderr is a terminal and the work takes longer than a second.

    With ``lines_every_s``, a new line is printed at this interval if stderr is not a terminal. What is printed by this
    module takes the place of the line.
    """

    _on_screen: "ClassVar[ProgressLine | None]" = None

    def __init__(self, lines_every_s: float | None = None) -> None:
        self._lines_every_s = None if sys.stderr.isatty() else lines_every_s
        self._wanted = sys.stderr.isatty() or lines_every_s is not None
        self._progress_s = time.monotonic()
        self._next_s = self._progress_s + (self._lines_every_s or _PROGRESS_AFTER_S)
        self._shown = 0

    def show(self, text: str) -> None:
        """Show the progress, if it is time to."""
        self._progress_s = time.monotonic()
        self._show(text)

    def show_waiting(self, servers: Iterable[str], patience_s: float) -> None:
        """Show which servers the work waits for, if there was no progress for a second."""
        waited_s = time.monotonic() - self._progress_s
        if waited_s >= _PROGRESS_AFTER_S:
            which = ", ".join(dict.fromkeys(servers))
            patience = f"gives up after {patience_s:g} s without an answer"
            self._show(f"waiting {waited_s:.0f} s for {which}; {patience}")

    def _show(self, text: str) -> None:
        if not self._wanted or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + (self._lines_every_s or _PROGRESS_EVERY_S)
        if self._lines_every_s:
            say(text)
            return
        shown = fitted(printable(text), max(12, shutil.get_terminal_size().columns - 1))
        sys.stderr.write("\r" + shown + " " * max(0, self._shown - cells(shown)))
        sys.stderr.flush()
        self._shown = cells(shown)
        ProgressLine._on_screen = self

    @classmethod
    def make_room(cls) -> None:
        """Remove the line that is shown, before anything else is printed."""
        if cls._on_screen is not None:
            cls._on_screen.clear()

    def clear(self) -> None:
        """Remove the line; the work goes on from here."""
        if ProgressLine._on_screen is self:
            ProgressLine._on_screen = None
        self._progress_s = time.monotonic()
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0


def due_words(row: "MessageRow", at_ms: int) -> str:
    """Say when a message becomes, or became, ready."""
    if row.due_ms is None and row.is_item:
        return "now" if row.state.value == "ready" else UNKNOWN
    if row.due_ms is None:
        return "never"
    wait_ms = row.due_ms - at_ms
    return f"in {duration(wait_ms)}" if wait_ms > 0 else f"{duration(-wait_ms)} ago"


def text_of(body: bytes) -> str:
    """Return a body's text; bytes that are not UTF-8 become lone surrogates, which ``printable`` shows as \\xNN."""
    return body.decode("utf-8", "surrogateescape")


def print_body(body: bytes) -> None:
    """Print a body for people, with an empty line before and after it."""
    print()
    for line in text_of(body).split("\n"):
        print_words(line)
    print()


def fields_json(**fields: Any) -> None:
    """Print an object with these fields as one line."""
    print_json(fields)


def queue_as_json(queue: "QueueState", at_ms: int, profile: "Profile") -> dict[str, Any]:
    """Return one queue of a profile as the documented JSON value; some kinds add keys of their own at the end."""
    from rsmq_tui.monitor import reason  # noqa: PLC0415 - most commands print no queue

    kind = kind_named(queue.kind)
    times = queue.times_at(at_ms)
    more = {"expired": queue.expired} if kind.has_leases else {}
    return {
        "name": queue.name,
        "kind": queue.kind,
        "depth": queue.depth,
        "ready": queue.ready,
        "hidden": queue.hidden,
        "oldest_ready_age_ms": queue.oldest_ready_age_ms(at_ms),
        "vt_s": queue.vt_s,
        "delay_s": queue.delay_s,
        "maxsize": queue.maxsize,
        "totalsent": queue.totalsent,
        "totalrecv": queue.totalrecv,
        "created_ms": queue.created_ms,
        "modified_ms": queue.modified_ms,
        "oldest_ready_waiting_ms": queue.waiting_ms(at_ms),
        **{f"{name}_ms": None if times is None else getattr(times, f"{name}_ms") for name in _TIMES},
        "limit": None if queue.limit is None else queue.limit.name,
        **limit_as_json("limit", queue.limit, at_ms),
        "verdict": queue.verdict.value,
        "reason": reason(queue, at_ms, profile.thresholds),
        "expected": profile.expected.holds(queue.name, queue.kind),
        "problems": [*((queue.broken,) if queue.broken else ()), *queue.problems],
        **more,
        **({} if kind.counts_arrivals else {"net_s": queue.net_s}),
    }


def limit_as_json(name: str, limit: "Limit | None", at_ms: int) -> dict[str, Any]:
    """Return the soonest and the latest time until a limit is reached, in keys that begin with ``name``."""
    soonest_ms, latest_ms = (None, None) if limit is None else limit.until_ms(at_ms)
    return {f"{name}_soonest_ms": soonest_ms, f"{name}_latest_ms": latest_ms}
