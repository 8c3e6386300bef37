"""`rsmq-tui completion`: scripts for shells, and what a shell completes."""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath

import click
from click.shell_completion import (
    BashComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.parsing import Command, Options, option
from rsmq_tui.cli.program import completion_variable
from rsmq_tui.cli.servers import config_of, profiles_of
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import SERVER_ERRORS, RsmqReader

_SHELLS = ("bash", "zsh", "fish")
_PROGRAMS = ("rsmq-tui", "rsmqctl")
_NEW_SHELLS = """\
bash   echo 'eval "$(rsmq-tui completion bash)"' >> ~/.bashrc
zsh    echo 'eval "$(rsmq-tui completion zsh)"' >> ~/.zshrc        (after compinit)
fish   echo 'rsmq-tui completion fish | source' >> ~/.config/fish/config.fish"""
_FILES = """\
bash   rsmq-tui completion bash --program rsmqctl > ~/.local/share/bash-completion/completions/rsmqctl
zsh    rsmq-tui completion zsh --program rsmqctl > FOLDER/_rsmqctl      (a FOLDER of $fpath)
fish   rsmq-tui completion fish --program rsmqctl > ~/.config/fish/completions/rsmqctl.fish"""
_TIMEOUT_S = 1.0
_NAMES_MAX = 5_000
# The characters that the canonical client allows in names of queues, and the dots of profiles: none is special to a
# shell.
_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,159}")


class _BashComplete(BashComplete):
    """Reads the line itself: bash splits words at the colons of a URL."""

    source_template = BashComplete.source_template.replace(
        'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD', 'COMP_WORDS="${COMP_LINE:0:COMP_POINT}"'
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words behind the program's name, of the last command on the line, and the one to complete."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        incomplete = "" if not words or line[-1:].isspace() else words.pop()
        starts = [index for index, word in enumerate(words) if PurePath(word).name == self.prog_name]
        return words[starts[-1] + 1 :] if starts else [], incomplete


@click.command(
    cls=Command,
    notes="It completes the commands, options and queue names of rsmq-tui and rsmqctl. When you press TAB, names of "
    "queues and profiles are looked up on the server that the command line names.",
    sections={
        "For every new shell": _NEW_SHELLS,
        "As files, which do not slow down new shells, one for each program": _FILES,
    },
    statuses={0: "done"},
)
@click.argument("shell", type=click.Choice(_SHELLS))
@option(
    "--program PROGRAM",
    "complete only this program, rsmq-tui or rsmqctl (default: both)",
    click.Choice(_PROGRAMS),
    name="programs",
    multiple=True,
)
def command(options: Options) -> int:
    """Print the scripts for a shell."""
    for program in options.programs or _PROGRAMS:
        print(script(program, options.shell))
    return 0


def script(program: str, shell: str) -> str:
    """Return the script that completes a program in a shell."""
    add_completion_class(_BashComplete)
    found = get_completion_class(shell)
    if found is None:
        raise ValueError(shell)
    return found(click.Command(program), {}, program, completion_variable(program)).source()


def complete(program: click.Command, name: str, instruction: str) -> int:
    """Print what a shell may complete, and return the exit status."""
    add_completion_class(_BashComplete)
    return shell_complete(program, {}, name, completion_variable(name), instruction)


def names(kind: str, options: Options, start: str) -> list[str]:
    """Return the names of queues, profiles or themes with that beginning; none if a server does not answer.

    Names with characters that are special to a shell are left out.
    """
    try:
        found = _LOCAL[kind](options) if kind in _LOCAL else asyncio.run(_queues(profiles_of(options)))
    except (UsageError, ValueError, TimeoutError):
        return []
    except SERVER_ERRORS:
        return []
    return [name for name in _plain(found) if name.startswith(start)]


def _profiles(options: Options) -> tuple[str, ...]:
    config = config_of(options)
    return () if config is None else tuple(config.profiles)


def _themes(_: Options) -> tuple[str, ...]:
    # It takes longer to import than everything else for completion.
    from rsmq_tui.tui.theme import load_themes  # noqa: PLC0415

    return tuple(load_themes().files)


_LOCAL: dict[str, Callable[[Options], tuple[str, ...]]] = {"profiles": _profiles, "themes": _themes}


async def _queues(profiles: Sequence[Profile]) -> list[str]:
    names: set[str] = set()
    async with asyncio.timeout(_TIMEOUT_S):
        for found in await asyncio.gather(
            *(_queues_of(profile, ns) for profile in profiles for ns in profile.namespaces), return_exceptions=True
        ):
            names |= found if isinstance(found, set) else set()
    return sorted(names)


async def _queues_of(profile: Profile, ns: str) -> set[str]:
    reader = RsmqReader(profile.address, ns, timeout_s=_TIMEOUT_S)
    try:
        return set((await reader.rows.index()).names)
    finally:
        await reader.aclose()


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PLAIN.fullmatch(name)][:_NAMES_MAX]
