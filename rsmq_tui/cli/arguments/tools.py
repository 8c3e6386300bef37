"""The arguments of `rsmq-tui check`, `doctor`, `exporter`, `completion`, `profiles` and `help`."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rsmq_tui.cli.parsing import CommandParser, Commands, Parents, at_least, count, leaf, span

if TYPE_CHECKING:
    from rsmq_tui.monitor.checks import Limit


_HELP_NOTES = """\
In a terminal, a page that is longer than the screen is shown by $PAGER (default less). Otherwise the page is printed as
Markdown. `rsmq-tui COMMAND --help` describes the options of a command."""
_HELP_EXAMPLES = ("rsmq-tui help", "rsmq-tui help lists", "rsmq-tui help messages | grep undo")
_HELP_STATUSES = "exit status: 0 done, 2 a usage error, 70 a defect in rsmq-tui itself"


def add_help(commands: Commands) -> None:
    """Add the command; its topics are looked up when it is used."""
    words = "print a page about a topic, or list the topics"
    parser = leaf(commands, "help", words, (), _HELP_EXAMPLES, notes=_HELP_NOTES, statuses=_HELP_STATUSES)
    parser.fill = lambda: _fill_help(parser)


def _fill_help(parser: CommandParser) -> None:
    from rsmq_tui.docs import topics  # noqa: PLC0415 - it reads files, which only this command needs

    parser.add_argument("topic", nargs="?", metavar="TOPIC", choices=tuple(topics()), help="one of the listed topics")


EXIT_UNKNOWN = 3
_CHECK_DESCRIPTION = """\
Check queues once, as a plugin of a monitoring system (Nagios, Icinga, Naemon, Zabbix, Sensu ...). Prints a summary line
with performance data, then one line per problem."""
_CHECK_EPILOG = """\
limits: N is critical, WARN:CRIT sets both, WARN: is only a warning; a duration is 90s, 10m, 1h30m, 2d

always checked, whatever the limits:
  critical  broken queues, whose keys disagree or have wrong types, or whose first message has no body
  warning   list queues with leases past their deadline for a minute or longer, unless --max-expired counts them;
            poisoned queues (messages received 5 times or more, among the 100 around the first hidden one) unless
            --max-rc counts them; aged queues (the first ready message became due more than 10m ago) unless --max-age
            is given. A profile can set other thresholds than 5 and 10m
  unknown   a server that cannot be read, a queue that does not exist, a namespace without queues; with --lists it is
            enough if the namespace or the lists contain the queue, or any queue

--stalled compares with earlier checks, which are kept in the user's state folder. The first check only starts the
clock, except for queues that were never received from: there, the age of the first message is used. A list is stalled
while its next item stays the same. An empty list does not exist in Redis: name the lists to check (--lists orders
--lists mail), because a pattern finds only lists that have items.

examples:
  rsmq-tui check
  rsmq-tui check --queue orders --queue 'mail-*' --max-depth 1000:5000 --max-age 10m
  rsmq-tui check --max-rc 5 --stalled 2m:10m --json
  rsmq-tui check --lists queue:orders --lists queue:mail --max-depth 1000:5000 --max-expired 0:10

exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (a usage error too), 70 a defect in rsmq-tui
itself, 130 interrupted; the worst status
wins, in the order critical, unknown, warning"""


_SPAN_MAX_MS = 100_000 * 86_400_000


def add_check(commands: Commands, parents: Parents) -> None:
    """Add the command; its arguments are added when it is used."""
    parser: CommandParser = commands.add_parser(
        "check",
        help="check queues once, as a plugin of a monitoring system",
        description=_CHECK_DESCRIPTION,
        epilog=_CHECK_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
        allow_abbrev=False,
    )
    parser.fill = lambda: _fill_check(parser)
    # To a monitoring system 2, argparse's usual status, is a critical problem of the queues.
    vars(parser)["error"] = partial(_refuse, parser)
    vars(parser)["parse_known_args"] = partial(_parse_all, parser)


def _fill_check(parser: CommandParser) -> None:
    add = parser.add_argument
    add(
        "--queue",
        dest="queues",
        action="append",
        default=[],
        metavar="Q",
        help="only this queue, or the queues that match this pattern (* ? [...]); may be repeated",
    )
    add("--max-depth", type=_limit(_number), metavar="N", help="more than N messages stored")
    add(
        "--max-age",
        type=_limit(span(0, _SPAN_MAX_MS)),
        metavar="T",
        help="the first ready message became due longer than T ago",
    )
    add("--max-rc", type=_limit(count), metavar="N", help="a message received N times or more; checks all messages")
    add(
        "--stalled",
        type=_limit(span(0, _SPAN_MAX_MS)),
        metavar="T",
        help="messages ready, but none received for T or longer",
    )
    add("--max-expired", type=_limit(_number), metavar="N", help="more than N leases of a list past their deadline")
    add(
        "--scan-limit",
        type=count,
        default=100_000,
        metavar="N",
        help="with --max-rc: check at most about N messages per queue (default 100000)",
    )
    add(
        "--timeout",
        type=at_least(0.1),
        default=10.0,
        metavar="S",
        help="time limit for the whole check of a server, in seconds (default 10)",
    )
    add("--json", action="store_true", help="print the result as one line of JSON")


def _refuse(parser: CommandParser, message: str) -> None:
    # A monitoring system shows the first line of the output.
    print(f"RSMQ UNKNOWN - {plain(message)}", flush=True)
    parser.print_usage(sys.stderr)
    parser.exit(EXIT_UNKNOWN)


def plain(text: str) -> str:
    """Return a text as a monitoring system can take it: behind a bar it would look for performance data."""
    from rsmq_tui.monitor.text import printable  # noqa: PLC0415

    return printable(text).replace("|", "\\x7c")


def _parse_all(parser: CommandParser, args: Any = None, namespace: Any = None) -> Any:
    # What is left over would else be refused by the parser of all commands, with its own exit status.
    options, left = CommandParser.parse_known_args(parser, args, namespace)
    if left:
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    return options, left


def _limit(read: Callable[[str], int]) -> "Callable[[str], Limit]":
    """Return what reads WARN:CRIT of such numbers."""

    def read_limit(text: str) -> "Limit":
        from rsmq_tui.monitor.checks import Limit  # noqa: PLC0415

        before, colon, after = text.partition(":")
        warning, critical = (before, after) if colon else ("", before)
        if not (warning or critical):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number: write N, WARN:CRIT or WARN:")
        limit = Limit(read(warning) if warning else None, read(critical) if critical else None)
        if limit.warning is not None and limit.critical is not None and limit.warning > limit.critical:
            raise argparse.ArgumentTypeError(f"{text!r} has a critical limit below the warning limit: write WARN:CRIT")
        return limit

    return read_limit


def _number(text: str) -> int:
    return 0 if text == "0" else count(text)


_DOCTOR_DESCRIPTION = """\
Check everything that the dashboard needs, and report what prevents it from working: configuration, connection, server,
permissions, speed, namespaces, lists, terminal and folders. The command changes nothing and prints no password."""
_DOCTOR_EPILOG = """\
examples:
  rsmq-tui doctor
  rsmq-tui doctor -r redis://host:6379/0 --ns jobs
  rsmq-tui doctor --lists 'queue:*'
  rsmq-tui doctor --json

exit status: 0 the dashboard will work (there may be warnings), 1 it will not, 2 a usage error, 70 a defect in
rsmq-tui itself, 130 interrupted"""


def add_doctor(commands: Commands, parents: Parents) -> None:
    """Add the command; its arguments are added when it is used."""
    parser: CommandParser = commands.add_parser(
        "doctor",
        help="check everything that the dashboard needs, and report problems",
        description=_DOCTOR_DESCRIPTION,
        epilog=_DOCTOR_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
        allow_abbrev=False,
    )
    parser.fill = lambda: _fill_doctor(parser)


def _fill_doctor(parser: CommandParser) -> None:
    parser.add_argument(
        "--timeout",
        type=at_least(0.1),
        default=5.0,
        metavar="S",
        help="time limit for each step of the connection, in seconds (default 5)",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as one line of JSON")


PORT = 9767
HOST = "127.0.0.1"
_EXPORTER_STATUSES = """\
exit status: 0 ended by SIGTERM, or --print-… printed its text; 2 a usage error, or it cannot listen on the address; 70
a defect in rsmq-tui itself; 130 ended by Ctrl+C. An unreachable server does not end the exporter: rsmq_up is 0 and
/healthz answers 503 until the server is back."""
_EXPORTER_NOTES = """\
List queues (--lists) are exposed beside RSMQ queues, as ns="(lists)". All of their series have the label kind="list",
which series of RSMQ queues do not have: rsmq_queue_depth_messages (items in the list and in its processing list),
rsmq_queue_ready_messages, rsmq_queue_hidden_messages (items in processing), rsmq_queue_expired_leases,
rsmq_queue_oldest_ready_age_seconds and rsmq_queue_oldest_ready_waiting_seconds (the same value for a list) if the items
contain their time, rsmq_queue_problems and rsmq_queue_verdict. Values that lists do not count, such as messages sent
and received, have no series."""
_EXPORTER_EXAMPLES = (
    "rsmq-tui exporter",
    "rsmq-tui -r redis://db1:6379 exporter --host 0.0.0.0 --port 9767",
    "rsmq-tui exporter --lists 'queue:*' --lists mail",
    "rsmq-tui exporter --print-rules > rsmq-alerts.yml",
    "rsmq-tui exporter --print-dashboard > rsmq-dashboard.json",
)


def add_exporter(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "serve the state of all queues as Prometheus metrics"
    parser = leaf(
        commands, "exporter", words, common, _EXPORTER_EXAMPLES, notes=_EXPORTER_NOTES, statuses=_EXPORTER_STATUSES
    )
    parser.fill = lambda: _fill_exporter(parser)


def _fill_exporter(parser: argparse.ArgumentParser) -> None:
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


SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("rsmq-tui", "rsmqctl")
_COMPLETION_DESCRIPTION = """\
Print a script with which a shell completes the commands, options and queue names of rsmq-tui and rsmqctl.
When you press TAB, names of queues and profiles are looked up on the server that the command line names."""
_COMPLETION_EPILOG = """\
for every new shell:
  bash   echo 'eval "$(rsmq-tui completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(rsmq-tui completion zsh)"' >> ~/.zshrc        (after compinit)
  fish   echo 'rsmq-tui completion fish | source' >> ~/.config/fish/config.fish

as files, which do not slow down new shells, one for each program:
  bash   rsmq-tui completion bash --program rsmqctl > ~/.local/share/bash-completion/completions/rsmqctl
  zsh    rsmq-tui completion zsh --program rsmqctl > FOLDER/_rsmqctl      (a FOLDER of $fpath)
  fish   rsmq-tui completion fish --program rsmqctl > ~/.config/fish/completions/rsmqctl.fish

exit status: 0 done, 2 a usage error, 70 a defect in rsmq-tui itself"""


def add_completion(commands: Commands) -> None:
    """Add the command; its arguments are added when it is used."""
    parser: CommandParser = commands.add_parser(
        "completion",
        help="print a completion script for bash, zsh or fish",
        description=_COMPLETION_DESCRIPTION,
        epilog=_COMPLETION_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.fill = lambda: _fill_completion(parser)


def _fill_completion(parser: CommandParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("shell", nargs="?", choices=SHELLS, help="the shell")
    # What the shells' functions call.
    what.add_argument("--names", nargs=2, metavar=("KIND", "LINE"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--program",
        dest="programs",
        action="append",
        choices=PROGRAMS,
        help="complete only this program (default: both)",
    )


_PROFILES_EXAMPLES = (
    "rsmq-tui profiles",
    "rsmq-tui profiles --json | jq -r .name",
    "mkdir -p ~/.config/rsmq-tui && rsmq-tui profiles example > ~/.config/rsmq-tui/config.toml",
    "rsmq-tui --profile production,staging",
)
_PROFILES_STATUSES = """\
exit status: 0 done, 2 a usage error, or the configuration file cannot be used, 70 a defect in rsmq-tui itself"""


def add_profiles(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "list the servers in the configuration file"
    parser = leaf(commands, "profiles", words, common, _PROFILES_EXAMPLES, statuses=_PROFILES_STATUSES)
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "example"),
        default="list",
        help="list: print the profiles (the default); example: print a configuration file to start from",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON lines (the default when the output is not a terminal)"
    )
