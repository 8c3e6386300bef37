"""`rsmq-tui keys`: the commands of the dashboard, their keys, and the mistakes in those that the user chose."""

import click

from rsmq_tui.cli.errors import EXIT_FAILED
from rsmq_tui.cli.options import config, json_option
from rsmq_tui.cli.output import TextColumn, TextTable, fields_json, say, wants_json
from rsmq_tui.cli.parsing import Command, Options
from rsmq_tui.cli.servers import config_path, keys_of
from rsmq_tui.tui.keys import COMMANDS, FIXED, Keymap

_NOTES = """\
A table [keys] in your configuration file has other keys for commands, by their names. A key is a character, or a name
such as f5, ctrl+x, shift+down, pagedown, home, delete, tab or space. A command then has no other keys. Enter, esc and
ctrl+q mean the same everywhere. A demo always has the default keys."""
_TABLE = """\
[keys]
delete = "f8"
send = ["a", "f2"]
down = ["j", "down", "ctrl+j"]"""


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=("", "--json | jq -r 'select(.yours) | .name'"),
    sections={"In the configuration file": _TABLE},
    statuses={0: "done", 1: "mistakes in the keys of the configuration file"},
)
@json_option
@config
def command(options: Options) -> int:
    """Print the commands with their keys and return the exit status; raises ``UsageError``."""
    keymap = Keymap(keys_of(options))
    commands = {name: keymap.command(name) for name in COMMANDS if name not in FIXED}
    if wants_json(options):
        for name, key in commands.items():
            fields_json(
                name=name,
                keys=key.written,
                default=COMMANDS[name][0].written,
                where=[each.where for each in COMMANDS[name]],
                does=key.help,
                yours=name in keymap.chosen,
            )
    else:
        # As they are written in the file: pagedown, not pgdn.
        written = {name: " ".join(key.written) for name, key in commands.items()}
        table = TextTable(
            TextColumn("NAME", max(map(len, commands))),
            TextColumn("KEYS", max(map(len, written.values()))),
            TextColumn("", 5),
            TextColumn("WHAT IT DOES", 0),
        )
        for name, key in commands.items():
            table.print(name, written[name], "yours" if name in keymap.chosen else "", key.help)
    for problem in keymap.problems:
        say(f"{config_path(options)[0]}: {problem}")
    return EXIT_FAILED if keymap.problems else 0
