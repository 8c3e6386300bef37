"""`rsmq-tui pipeline`. Each of its commands is a module of that name.

generate  `pipeline generate`: write a synthetic history
run       `pipeline run`: compute the tables of an analysis from the new files of a history
"""

import argparse
from importlib import import_module


def run(options: argparse.Namespace) -> int:
    """Run one of the commands, and return its exit status."""
    return int(import_module(f"rsmq_tui.cli.pipeline.{options.action}").run(options))
