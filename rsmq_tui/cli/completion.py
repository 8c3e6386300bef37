"""`rsmq-tui completion`: scripts for shells, made from the parsers of the commands themselves."""

import argparse
from collections.abc import Iterator
from importlib import import_module

from rsmq_tui.cli.command_parser import CommandParser
from rsmq_tui.cli.completion_arguments import PROGRAMS

_PARSERS = {"rsmq-tui": ("rsmq_tui.cli.main", "parser"), "rsmqctl": ("rsmq_tui.cli.rsmqctl_arguments", "parser")}
_FILE_METAVARS = ("FILE", "PATH")
# Places in JSON bodies are called paths too.
_NO_FILES = ("origin",)


def run(options: argparse.Namespace) -> int:
    """Print the scripts for a shell, or the names that one of them asks for."""
    if options.names is not None:
        from rsmq_tui.cli.completion_names import print_names  # noqa: PLC0415

        kind, line = options.names
        return print_names(kind, line)
    for program in options.programs or PROGRAMS:
        print(script(program, options.shell))
    return 0


def script(program: str, shell: str) -> str:
    """Return the script that completes a program in a shell."""
    import shtab  # noqa: PLC0415 - only this needs it

    module, name = _PARSERS[program]
    parser: argparse.ArgumentParser = getattr(import_module(module), name)()
    for each in _parsers(parser):
        for action in _actions(each):
            if completed := _completed(action):
                vars(action)["complete"] = completed
    return str(shtab.complete(parser, shell))


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands, filled with what they usually get when they are used."""
    if isinstance(parser, CommandParser) and parser.fill is not None:
        fill, parser.fill = parser.fill, None
        fill()
    yield parser
    for action in _actions(parser):
        if isinstance(action, argparse._SubParsersAction):
            for command in dict.fromkeys(action.choices.values()):
                yield from _parsers(command)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    # argparse has no public way to ask what was added.
    return parser._actions


def _completed(action: argparse.Action) -> dict[str, object] | None:
    """Return how a shell is to complete the values of an argument, None for as it is."""
    import shtab  # noqa: PLC0415

    if action.choices is not None or action.help == argparse.SUPPRESS:
        return None
    if "--profile" in action.option_strings:
        return _names("profiles")
    if action.metavar == "QUEUE" or action.dest in ("queue", "queues", "qname"):
        return _names("queues")
    if action.metavar in _FILE_METAVARS and action.dest not in _NO_FILES:
        return dict(shtab.FILE)
    return None


def _names(kind: str) -> dict[str, object]:
    """Return functions of the three shells that ask us for names.

    Whatever a server calls its queues, only names that mean nothing to a shell come: bash would expand the others.
    """
    function, ask = f"_rsmq_tui_{kind}", f"rsmq-tui completion --names {kind}"
    return {
        "bash": function,
        "zsh": function,
        "fish": f"({function})",
        "preamble": {
            "bash": f'{function}() {{\n  compgen -W "$({ask} "${{COMP_LINE:0:COMP_POINT}}" 2>/dev/null)" -- "$1"\n}}',
            "zsh": (
                f"{function}() {{\n  local -a names\n"
                f'  names=(${{(f)"$({ask} "$LBUFFER" 2>/dev/null)"}})\n  compadd -a names\n}}'
            ),
            "fish": f"function {function}\n  {ask} (commandline -pc | string join ' ') 2>/dev/null\nend",
        },
    }
