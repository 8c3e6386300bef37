"""`python -m rsmq_tui` is `rsmq-tui`."""

import sys

from rsmq_tui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
