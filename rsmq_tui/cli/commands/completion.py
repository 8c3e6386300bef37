"""`rsmq-tui completion`: scripts for shells, and the names that a shell completes."""

import argparse
import asyncio
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import PurePath

from rsmq_tui.cli.arguments.tools import PROGRAMS
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.parsing import CommandParser
from rsmq_tui.cli.servers import config_of, profiles_of
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import SERVER_ERRORS, QueueReader

_PARSERS = {"rsmq-tui": ("rsmq_tui.cli.main", "parser"), "rsmqctl": ("rsmq_tui.cli.rsmqctl.arguments", "parser")}
_FILE_METAVARS = ("FILE", "PATH")
# Places in JSON bodies are called paths too.
_NO_FILES = ("origin",)


def run(options: argparse.Namespace) -> int:
    """Print the scripts for a shell, or the names that one of them asks for."""
    if options.names is not None:
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


_TIMEOUT_S = 1.0
_NAMES_MAX = 5_000
# What the canonical client takes for a queue's name, and the dots of profiles: nothing that a shell would act on.
_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,159}")


def print_names(kind: str, line: str) -> int:
    """Print queues or profiles, as the command line so far would have it, one a line; nothing where there are none."""
    options = _options_of(line)
    try:
        names = _profiles(options) if kind == "profiles" else asyncio.run(_queues(profiles_of(options)))
    except (UsageError, ValueError):
        return 0
    except SERVER_ERRORS:
        return 0
    for name in _plain(names):
        print(name)
    return 0


def _profiles(options: argparse.Namespace) -> tuple[str, ...]:
    config = config_of(options)
    return () if config is None else tuple(config.profiles)


async def _queues(profiles: Sequence[Profile]) -> list[str]:
    names: set[str] = set()
    async with asyncio.timeout(_TIMEOUT_S):
        for found in await asyncio.gather(
            *(_queues_of(profile, ns) for profile in profiles for ns in profile.namespaces), return_exceptions=True
        ):
            names |= found if isinstance(found, set) else set()
    return sorted(names)


async def _queues_of(profile: Profile, ns: str) -> set[str]:
    reader = QueueReader(profile.address, ns, timeout_s=_TIMEOUT_S)
    try:
        return set((await reader.rows.index()).names)
    finally:
        await reader.aclose()


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PLAIN.fullmatch(name)][:_NAMES_MAX]


def _options_of(line: str) -> argparse.Namespace:
    """Read from a line that is not complete yet which server it is about."""
    server = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    server.add_argument("-r", "--redis-url")
    server.add_argument("--profile", action="append")
    server.add_argument("--config")
    server.add_argument("--ns")
    words = _words(line)
    # The word under the cursor, and an option that waits for its value, say nothing yet.
    for end in (len(words), len(words) - 1):
        try:
            return server.parse_known_args(words[: max(0, end)])[0]
        except (argparse.ArgumentError, SystemExit):
            continue
    return server.parse_known_args([])[0]


def _words(line: str) -> list[str]:
    """Return the words behind the program's name, of the last command on the line."""
    for closed in (line, f"{line}'", f'{line}"', f"{line}\\"):
        try:
            words = shlex.split(closed)
        except ValueError:
            continue
        starts = [index for index, word in enumerate(words) if PurePath(word).name in PROGRAMS]
        return words[starts[-1] + 1 :] if starts else []
    return []
