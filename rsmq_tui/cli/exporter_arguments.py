"""The arguments of `rsmq-tui exporter`."""

import argparse

from rsmq_tui.cli.command_parser import Commands, Parents, at_least, leaf

PORT = 9767
HOST = "127.0.0.1"
_STATUSES = """\
exit status: 0 ended by SIGTERM, or --print-… printed its text; 2 a usage error, or it cannot listen on the address; 70
a defect in rsmq-tui itself; 130 ended by Ctrl+C. An unreachable server does not end the exporter: rsmq_up is 0 and
/healthz answers 503 until the server is back."""
_NOTES = """\
List queues (--lists) are exposed beside RSMQ queues, as ns="(lists)". All of their series have the label kind="list",
which series of RSMQ queues do not have: rsmq_queue_depth_messages (items in the list and in its processing list),
rsmq_queue_ready_messages, rsmq_queue_hidden_messages (items in processing), rsmq_queue_expired_leases,
rsmq_queue_oldest_ready_age_seconds and rsmq_queue_oldest_ready_waiting_seconds (the same value for a list) if the items
contain their time, rsmq_queue_problems and rsmq_queue_verdict. Values that lists do not count, such as messages sent
and received, have no series."""
_EXAMPLES = (
    "rsmq-tui exporter",
    "rsmq-tui -r redis://db1:6379 exporter --host 0.0.0.0 --port 9767",
    "rsmq-tui exporter --lists 'queue:*' --lists mail",
    "rsmq-tui exporter --print-rules > rsmq-alerts.yml",
    "rsmq-tui exporter --print-dashboard > rsmq-dashboard.json",
)


def add_exporter(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "serve the state of all queues as Prometheus metrics"
    parser = leaf(commands, "exporter", words, common, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=_port, default=PORT, metavar="N", help=f"port to listen on (default {PORT}; 0: any free port)"
    )
    parser.add_argument(
        "--host",
        default=HOST,
        metavar="ADDRESS",
        help=(
            f"address to listen on (default {HOST}: only this machine, because anyone who can connect can read "
            "the names of the queues; most exporters listen on 0.0.0.0, all addresses)"
        ),
    )
    parser.add_argument(
        "--interval",
        type=at_least(0.1),
        metavar="S",
        default=argparse.SUPPRESS,
        help="seconds between background polls, which verdicts are based on, instead of the profile's (default 1)",
    )
    parser.add_argument(
        "--min-interval",
        type=at_least(0),
        default=1.0,
        metavar="S",
        help="answer a scrape within S seconds of a poll from the result of that poll (default 1)",
    )
    parser.add_argument(
        "--timeout",
        type=at_least(0.1),
        default=3.0,
        metavar="S",
        help="report a server as down if a poll takes longer than this (default 3)",
    )
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--print-rules", action="store_true", help="print example alert rules for Prometheus, as YAML")
    printed.add_argument("--print-dashboard", action="store_true", help="print a dashboard to import into Grafana")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65,535")
    return int(text)
