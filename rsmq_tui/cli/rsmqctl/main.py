"""The entry point of `rsmqctl`, compatible with Keith Sharp's program of that name."""

import sys
from collections.abc import Sequence

from rsmq_tui.cli.errors import EXIT_FAILED
from rsmq_tui.cli.program import run_program


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; the help lists them."""
    return run_program("rsmqctl", "rsmq_tui.cli.rsmqctl.parsing", arguments, exit_unwritable=EXIT_FAILED)


if __name__ == "__main__":
    sys.exit(main())
