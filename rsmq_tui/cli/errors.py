"""The error of the commands, and the message for a defect of the program."""

import sys


class UsageError(Exception):
    """What a command was asked for cannot be, in one sentence for whoever asked."""


EXIT_DEFECT = 70  # EX_SOFTWARE of sysexits.h


def report_defect(program: str, error: Exception) -> int:
    """Say on stderr where the program itself failed, without what the error quotes, and return the exit status."""
    # Only now: neither is needed to say that an option is wrong.
    import traceback  # noqa: PLC0415

    from rsmq_tui.protocol.errors import defect_of  # noqa: PLC0415

    print("".join(traceback.format_tb(error.__traceback__)), end="", file=sys.stderr)
    print(f"{program}: {defect_of(error).sentence}: please report it, with the lines above", file=sys.stderr)
    return EXIT_DEFECT
