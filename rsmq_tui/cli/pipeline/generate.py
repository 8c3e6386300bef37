"""`rsmq-tui pipeline generate`: writes a synthetic history."""

import argparse
import time

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.output import ProgressLine, say
from rsmq_tui.monitor.text import count, duration, plural, printable, size

_DAY_MS = 86_400_000
_EXIT_INTERRUPTED = 130


def run(options: argparse.Namespace) -> int:
    """Make the history, and return the exit status.

    Raises ``UsageError`` where the packages for it are missing, and for a folder that it cannot be made in.
    """
    try:
        import fsspec  # noqa: F401, PLC0415
        import pyarrow  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError("this needs the packages of the extra `history`: pip install 'rsmq-tui[history]'") from error
    from rsmq_tui.history.names import HistoryError  # noqa: PLC0415 - its packages are there
    from rsmq_tui.history.synthetic import Generator, Progress, Wanted  # noqa: PLC0415

    until_ms = options.until
    if until_ms is None:
        until_ms = int(time.time() * 1000) // _DAY_MS * _DAY_MS
    line, begun_s = ProgressLine(), time.monotonic()

    def tell(progress: Progress) -> None:
        taken_ms, made_files = (time.monotonic() - begun_s) * 1000, max(1, progress.files - progress.kept)
        left = duration(taken_ms * (progress.of - progress.files) / made_files)
        made = f"{count(progress.rows)} rows, {size(progress.bytes)}"
        line.show(f"{progress.day}: {100 * progress.files // progress.of} %, {made}, {left} left")

    try:
        generator = Generator(
            Wanted(
                until_ms - options.days,
                until_ms,
                options.queues,
                options.every,
                options.messages,
                options.seed,
                options.list_queues,
            ),
            options.out,
        )
        done = generator.run(tell)
    except HistoryError as error:
        line.clear()
        raise UsageError(printable(str(error))) from error
    except KeyboardInterrupt:
        line.clear()
        say("stopped; the same command continues from here")
        return _EXIT_INTERRUPTED
    line.clear()
    messages = f", {plural(done.messages, 'message')}" if done.messages else ""
    kept = f"; {plural(done.kept, 'file')} was there" if done.kept == 1 else ""
    if done.kept > 1:
        kept = f"; {done.kept:,} files were there"
    say(f"{printable(generator.label)}: {plural(done.rows, 'row')}{messages}, {size(done.bytes)} made{kept}")
    return 0
