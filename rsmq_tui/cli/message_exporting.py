"""`rsmq-tui messages export`: messages as lines of JSON, to a file or to the next program."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rsmq_tui.cli.changing import EXIT_FAILED, seeing_words, unsearched_words
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.filter_argument import filter_of
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.message_reading import reader_for, refuse_missing
from rsmq_tui.cli.output import ProgressLine, say
from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.wording import plural, printable
from rsmq_tui.triage.exporting import Export, whole_file


def export_messages(options: argparse.Namespace) -> int:
    """Write what matches as lines of JSON and return the exit status; raises ``UsageError``."""
    wanted = filter_of(options.filter)
    return run_interruptibly(lambda _: _export(options, wanted))


async def _export(options: argparse.Namespace, wanted: Filter) -> int:
    line = ProgressLine()
    try:
        async with reader_for(options) as reader:
            with _output(options.output) as write:
                export = Export(reader, options.queue, wanted, write, options.limit)
                async for seeing in export:
                    line.show(f"{seeing_words(seeing)}, {export.written:,} written; Ctrl+C cancels")
                if not export.depth and not export.written:
                    await refuse_missing(reader, options.queue)
    finally:
        line.clear()
    if export.unsearched:
        say(unsearched_words(export.unsearched))
    if export.cut:
        say(f"{plural(export.cut, 'message')} left out: too long a body to be read")
    if export.gone:
        say(f"{plural(export.gone, 'message')} left out: gone while it was looked for")
    if options.output != "-":
        say(f"{plural(export.written, 'message')} of {options.queue} in {options.output}")
    return EXIT_FAILED if export.cut else 0


@contextmanager
def _output(name: str) -> Iterator[Callable[[str], object]]:
    if name == "-":
        yield sys.stdout.write
        return
    try:
        with whole_file(Path(name)) as write:
            yield write
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{printable(name)}: {error.strerror}") from error
