"""The arguments of `rsmq-tui completion`."""

import argparse

from rsmq_tui.cli.command_parser import CommandParser, Commands

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("rsmq-tui", "rsmqctl")
_DESCRIPTION = """\
Print a script with which a shell completes the commands, options and queue names of rsmq-tui and rsmqctl.
When you press TAB, names of queues and profiles are looked up on the server that the command line names."""
_EPILOG = """\
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
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.fill = lambda: _fill(parser)


def _fill(parser: CommandParser) -> None:
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
