"""`rsmqctl`: the command line for queues and messages."""

import sys


def main() -> int:
    """Say that this command is not there yet."""
    print("rsmqctl comes with a later version; `rsmq-tui snapshot` prints all queues as JSON today.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
