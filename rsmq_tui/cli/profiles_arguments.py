"""The arguments of `rsmq-tui profiles`."""

from rsmq_tui.cli.command_parser import Commands, Parents, leaf

_EXAMPLES = (
    "rsmq-tui profiles",
    "rsmq-tui profiles --json | jq -r .name",
    "mkdir -p ~/.config/rsmq-tui && rsmq-tui profiles example > ~/.config/rsmq-tui/config.toml",
    "rsmq-tui --profile production,staging",
)
_STATUSES = """\
exit status: 0 done, 2 a usage error, or the configuration file cannot be used, 70 a defect in rsmq-tui itself"""


def add_profiles(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "list the servers in the configuration file"
    parser = leaf(commands, "profiles", words, common, _EXAMPLES, statuses=_STATUSES)
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
