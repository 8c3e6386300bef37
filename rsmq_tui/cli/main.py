"""The entry point of `rsmq-tui`."""

import sys
from collections.abc import Sequence

from rsmq_tui.cli.errors import EXIT_USAGE
from rsmq_tui.cli.program import run_program


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 2 for a usage error or a server that cannot be reached.

    70 is a defect of this program. Commands that change something have further statuses: see their help.
    """
    return run_program("rsmq-tui", "rsmq_tui.cli.commands", arguments, exit_unwritable=EXIT_USAGE)


if __name__ == "__main__":
    sys.exit(main())
