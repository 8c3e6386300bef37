"""`rsmq-tui pipeline`: what is done with Spark. Each of its commands has a module of its own."""

import argparse
from importlib import import_module


def run(options: argparse.Namespace) -> int:
    """Run one of the commands, and return its exit status."""
    return int(import_module(f"rsmq_tui.cli.pipeline.{options.action}").run(options))
