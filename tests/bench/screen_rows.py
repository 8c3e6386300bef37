"""What the terminal sees: how soon the first numbers are on the screen, and how much one change sends."""

from functools import partial
from statistics import mean

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.bench.measure import Sample, Side, interleave
from tests.bench.queues import NAME_PREFIX, Backlog
from tests.bench.row import Measured, Row, Run, Sense

_QUIET_S = 0.25
_SECONDS_SEEN = 10


def _first_paint(run: Run) -> Measured:
    from tests.bench.terminal import Terminal

    def until(*texts: bytes, module: str, arguments: tuple[str, ...] = ()) -> float:
        with Terminal(module, *arguments) as terminal:
            return terminal.wait_for(*texts) * 1000

    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        Backlog(client, run.size(100, 5)).fill()
        ours = partial(until, NAME_PREFIX.encode(), module="rsmq_tui", arguments=("-r", server.url))
        # The header's title and the footer's one key: all that an empty app has to show.
        other = partial(until, b"EmptyApp", b"palette", module="tests.bench.peers.empty_app")
        return interleave(run, lambda: ours, lambda: other, pairs=12, warm_up=1, limit_s=25)


def _one_cell(run: Run) -> Measured:
    from tests.bench.terminal import Terminal

    with (
        Terminal("tests.bench.peers.our_cell", channel=True) as ours,
        Terminal("tests.bench.peers.stock_table", channel=True) as stock,
    ):
        for terminal in (ours, stock):
            terminal.wait_for(b"jobs-orders-00000")
            terminal.wait_until_quiet(1.0)

        def changing(terminal: Terminal, found: str) -> Side:
            depth = 38_112

            def sample() -> float:
                nonlocal depth
                depth += 1
                before = len(terminal.written)
                terminal.tell(found.format(f"{depth:,}"))
                terminal.wait_for(f"{depth:,}".encode(), since=before)
                terminal.wait_until_quiet(_QUIET_S)
                return len(terminal.written) - before

            def side() -> Sample:
                return sample

            return side

        measured = interleave(run, changing(ours, "cell {}"), changing(stock, "{}"), pairs=5, warm_up=1)
        seconds = []
        for _ in range(run.size(_SECONDS_SEEN, 1)):
            ours.tell("second")
            seconds.append(ours.wait_until_quiet(_QUIET_S))
    note = f"a whole second in which one message arrives, ages, sums and the chart included: {mean(seconds):,.0f} B"
    return Measured(measured.ours, measured.other, note)


ROWS = (
    Row(
        "first paint with 100 queues, whole process",
        "an empty Textual app with a header, a table and a footer",
        "ms",
        Sense.AT_MOST,
        1.25,
        _first_paint,
    ),
    Row(
        "bytes when one cell changes, 160x48",
        "stock DataTable.update_cell",
        "B",
        Sense.TIMES_LESS,
        20,
        _one_cell,
    ),
)
