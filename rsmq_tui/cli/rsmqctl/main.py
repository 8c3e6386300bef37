"""The entry point of `rsmqctl`, compatible with the program of that name by Keith Sharp."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from rsmq_tui.cli.errors import UsageError, report_defect
from rsmq_tui.cli.interrupts import EXIT_INTERRUPTED
from rsmq_tui.cli.rsmqctl.arguments import complete, parser

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PIPE_CLOSED = 141
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; its help says which there are."""
    if sys.stdout is None:
        # A message that is received or popped must be printed somewhere.
        print("rsmqctl: standard output is closed: nothing was done", file=sys.stderr)
        return EXIT_FAILED
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        return EXIT_PIPE_CLOSED
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _silence()
        print(f"rsmqctl: the output cannot be written: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # the last place to say it in: Python would print what the error quotes
        return report_defect("rsmqctl", error)


def _run(arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    if options.action is None:
        options.parser.print_help()
        return 0
    complete(options)
    # Imported when it is known what is needed: a usage error and the help do without redis.
    from rsmq_tui.cli.rsmqctl.server import FailedError, Server  # noqa: PLC0415

    run: Callable[[Server, argparse.Namespace], None] = import_module(f"rsmq_tui.cli.rsmqctl.{options.group}").run
    try:
        server = Server(options)
        try:
            run(server, options)
        finally:
            server.close()
    except UsageError as error:
        print(f"rsmqctl: {error}", file=sys.stderr)
        return EXIT_USAGE
    except FailedError as error:
        if options.verbose:
            _print_places(error)
        print(error, file=sys.stderr)
        return EXIT_FAILED
    return 0


def _print_places(error: BaseException) -> None:
    """Print where the error came up; not its words, in which a server may repeat a password."""
    import traceback  # noqa: PLC0415

    cause: BaseException | None = error
    while cause is not None:
        print(f"{type(cause).__name__} at:", file=sys.stderr)
        traceback.print_tb(cause.__traceback__)
        cause = cause.__cause__


def _silence() -> None:
    # Python would try once more to write the rest when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
