"""The arguments of what `rsmq-tui messages` does to list queues alone."""

import argparse
from collections.abc import Callable

from rsmq_tui.cli.command_parser import Group, count


def add_list_commands(
    group: Group, scope: argparse.ArgumentParser, changing: Callable[[], argparse.ArgumentParser]
) -> None:
    """Add them; ``changing`` makes what every change has."""
    popped = group.add(
        "pop",
        "remove the items of a list queue that consumers would take next; the journal keeps them",
        changing(),
        examples=("list:queue:orders", "list:queue:orders --count 100 --yes"),
    )
    popped.add_argument("--count", type=count, metavar="N", default=1, help="number of items (default 1)")
    trimmed = group.add(
        "trim",
        "keep only the newest N items of a list queue",
        changing(),
        examples=("list:queue:orders --keep 1000 --yes",),
    )
    trimmed.add_argument("--keep", type=_number, metavar="N", required=True, help="number of items to keep")
    trimmed.add_argument("--oldest", action="store_true", help="keep the items that consumers would take next")
    again = group.add(
        "requeue",
        "put items of a list queue that are in processing back into the queue, without their leases",
        scope,
        changing(),
        filters=True,
        examples=("list:queue:orders --filter state:expired --yes", "list:queue:orders --all --back --yes"),
    )
    again.add_argument("--back", action="store_true", help="to the end that is taken last, not next")
    group.add(
        "ack",
        "remove items of a list queue that are in processing, with their leases",
        scope,
        changing(),
        filters=True,
        examples=("list:queue:orders --filter 'json.id=42' --yes",),
    )


def _number(text: str) -> int:
    return 0 if text == "0" else count(text)
