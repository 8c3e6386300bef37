"""The names that a shell completes: asked for at each TAB, so quick to give up and never a word on the screen."""

import argparse
import asyncio
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from rsmq_tui.cli.completion_arguments import PROGRAMS
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.target import config_of, profiles_of
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import SERVER_ERRORS, QueueReader

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
