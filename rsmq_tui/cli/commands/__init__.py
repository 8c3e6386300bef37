"""The commands of `rsmq-tui` and its own options. Each command is imported when it is called.

audit       `rsmq-tui audit`: inconsistent keys, and fixing them
completion  `rsmq-tui completion`: scripts for shells, and the names that a shell completes
demo        `rsmq-tui demo`: the dashboard on a private server with a workload
doctor      `rsmq-tui doctor`: whether a server has all that the dashboard needs
help        `rsmq-tui help`: the pages for users
journal     `rsmq-tui journal`: the changes in the journal; `rsmq-tui undo`
keys        `rsmq-tui keys`: the keys of the dashboard, also those that the user chose
listserver  `rsmq-tui listserver`: a server for list queues, in memory
messages    `rsmq-tui messages`: read, search, change and export messages
monitoring  `rsmq-tui check`, `watch`, `known`, `events`, `exporter`
profiles    `rsmq-tui profiles`: the profiles, and an example of a configuration file
queues      `rsmq-tui queues`: list, create, change, purge and delete queues; `rsmq-tui who`
recorded    `rsmq-tui record`, `replay`, `pipeline`, `history`, `report`, `slo`, `sql`
serve       `rsmq-tui serve`: the dashboard in a browser
snapshot    `rsmq-tui snapshot`: one poll, as JSON
themes      `rsmq-tui themes`: the themes, and the mistakes in theme files
"""

import click

from rsmq_tui import __version__
from rsmq_tui.cli.options import NO_ALERTS_VARIABLE, screen, with_read_only
from rsmq_tui.cli.parsing import Group, LazyCommand, Options, is_set, option
from rsmq_tui.cli.program import load

_MESSAGES = "read, send, hide, release, move, copy, redrive, delete, export and import messages of RSMQ and list queues"
# By the sections of the help: the name of each command, its module in `commands`, and what it does.
_COMMANDS = {
    "Queues and messages": (
        ("messages", "messages", _MESSAGES),
        ("queues", "queues", "list, create, change, purge and delete queues"),
        ("who", "queues:who", "show which clients receive from, delete from and send to a queue"),
        ("snapshot", "snapshot", "print the state of the queues of a namespace, and of lists, as JSON"),
        ("audit", "audit", "find inconsistent keys of queues, and fix them"),
        ("undo", "journal:undo", "undo a change; messages that changed since are skipped and counted"),
        ("journal", "journal", "list the changes made from this machine, and show their details"),
    ),
    "Monitoring": (
        ("check", "monitoring.check", "check queues once, as a plugin of a monitoring system"),
        ("watch", "monitoring.watch", "apply the alert rules of the configuration file, without a screen"),
        ("known", "monitoring.known", "acknowledge the trouble of a queue: no alerts until a time, or until it is ok"),
        ("events", "monitoring.events", "print what happened to queues and servers while a dashboard watched them"),
        ("serve", "serve", "serve the dashboard to browsers; by default read-only, and on this machine only"),
        ("exporter", "monitoring.exporter", "serve the state of all queues as Prometheus metrics"),
    ),
    "Recordings": (
        ("record", "recorded.record", "record the state of all queues at every poll, as Parquet files"),
        ("replay", "recorded.replay", "replay a recorded history in the dashboard"),
        ("pipeline", "recorded.pipeline", "analyse a recorded history with Spark"),
        ("history", "recorded.history", "show charts, episodes, a heat map and forecasts from recorded data"),
        ("report", "recorded.report", "write a report of a time range, as HTML or Markdown"),
        ("slo", "recorded.slo", "show whether service level objectives were met, and what used their error budgets"),
        ("sql", "recorded.sql", "query an analysis and its history with SQL"),
    ),
    "Help and configuration": (
        ("help", "help", "print a page about a topic, or list the topics"),
        ("demo", "demo", "start a private server with sample queues in various states, and watch it"),
        ("listserver", "listserver", "start an in-memory server for list queues, to test producers and consumers"),
        ("doctor", "doctor", "check everything that the dashboard needs, and report problems"),
        ("profiles", "profiles", "list the servers in the configuration file"),
        ("keys", "keys", "list the keys of the dashboard, and check your own"),
        ("themes", "themes", "list the themes, and check theme files"),
        ("completion", "completion", "print a completion script for bash, zsh or fish"),
    ),
}


@click.command(
    "rsmq-tui",
    cls=Group,
    help="show a live dashboard for message queues on Redis, Valkey and compatible servers",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@with_read_only
@screen
@option(
    "--no-alerts",
    f"do not apply the alert rules of the configuration file (env {NO_ALERTS_VARIABLE}=1)",
    default=lambda: is_set(NO_ALERTS_VARIABLE),
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def command(options: Options) -> int:
    """Open the dashboard, which is the default without a command, or print it as lines."""
    status: int = load("rsmq_tui.cli.plain" if options.plain else "rsmq_tui.cli.dashboard").run(options)
    return status


for _section, _commands in _COMMANDS.items():
    for _name, _module, _words in _commands:
        command.add_command(LazyCommand(_name, _words, f"rsmq_tui.cli.commands.{_module}", _section))
