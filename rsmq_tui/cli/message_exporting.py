"""`rsmq-tui messages export`: messages as lines of JSON, to a file or to the next program."""

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from rsmq_tui.cli.changing import EXIT_FAILED, seeing_words, unsearched_words
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.filter_argument import filter_of
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.looking import Look, RsmqLook, look_of
from rsmq_tui.cli.output import ProgressLine, say
from rsmq_tui.cli.target import profile_of
from rsmq_tui.cli.triage_of import list_engine_of
from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.search import INCOMPLETE
from rsmq_tui.monitor.wording import plural, printable
from rsmq_tui.triage.engines import Exporting
from rsmq_tui.triage.exporting import Export, whole_file
from rsmq_tui.triage.previews import Matching
from rsmq_tui.triage.words import EXPECTED, told


def export_messages(options: argparse.Namespace) -> int:
    """Write what matches as lines of JSON and return the exit status; raises ``UsageError``."""
    wanted = filter_of(options.filter, profile_of(options).thresholds.poison_rc)
    return run_interruptibly(lambda _: _export(options, wanted))


async def _export(options: argparse.Namespace, wanted: Filter) -> int:
    line = ProgressLine()
    try:
        async with _exporting(options, wanted) as (look, exporting):
            with _output(options.output, force=options.force) as write:
                export = exporting(write)
                seen = 0
                async for seeing in export:
                    seen = max(seen, seeing.depth)
                    line.show(f"{seeing_words(seeing)}, {export.written:,} written; Ctrl+C cancels")
                if not seen and not export.written:
                    await look.refuse_missing()
    finally:
        line.clear()
    if export.unsearched:
        say(unsearched_words(export.unsearched))
    if export.cut:
        say(f"{plural(export.cut, 'message')} left out: the body is too long to be read")
    if export.gone:
        say(f"{plural(export.gone, 'message')} left out: deleted during the export")
    if export.is_incomplete:
        say(INCOMPLETE)
    if options.output != "-":
        say(f"{plural(export.written, 'message')} of {look.queue} in {options.output}")
    return EXIT_FAILED if export.cut else 0


@asynccontextmanager
async def _exporting(
    options: argparse.Namespace, wanted: Filter
) -> AsyncIterator[tuple[Look, Callable[[Callable[[str], object]], Exporting]]]:
    """Give a look into the queue, and what exports to a function that writes."""
    async with look_of(options) as look:
        if isinstance(look, RsmqLook):
            reader = look.reader
            yield look, lambda write: Export(reader, look.queue, wanted, write, options.limit)
            return
        engine = list_engine_of(profile_of(options))
        try:
            yield look, lambda write: engine.export(look.queue, Matching(wanted, options.limit), write)
        except EXPECTED as error:
            raise UsageError(f"{look.queue} on {look.label}: {told(error)}") from error
        finally:
            await engine.aclose()


@contextmanager
def _output(name: str, *, force: bool) -> Iterator[Callable[[str], object]]:
    if name == "-":
        yield sys.stdout.write
        return
    try:
        with whole_file(Path(name), force=force) as write:
            yield write
    except BrokenPipeError:
        raise
    except FileExistsError as error:
        raise UsageError(f"{printable(name)} already exists: --force overwrites it") from error
    except OSError as error:
        raise UsageError(f"{printable(name)}: {error.strerror}") from error
