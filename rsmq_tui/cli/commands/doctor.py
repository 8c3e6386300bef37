"""`rsmq-tui doctor`: reports whether a server has all that the dashboard needs, and what to do."""

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

import click

from rsmq_tui import __version__
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.options import READ_ONLY_VARIABLE, with_read_only
from rsmq_tui.cli.output import ProgressLine, is_terminal, print_json, print_words
from rsmq_tui.cli.parsing import Command, Options, at_least, is_set, option
from rsmq_tui.cli.places import KindPlace, places_of
from rsmq_tui.cli.servers import config_of, config_path, profiles_of
from rsmq_tui.files import config_folder, state_folder
from rsmq_tui.monitor.doctor import Terminal, folder_results, terminal_results
from rsmq_tui.monitor.server import CheckLevel, CheckResult, fail, ok
from rsmq_tui.monitor.text import plural
from rsmq_tui.profiles import Profile

_DEFAULT = "the default"


def file_result(options: Options) -> CheckResult:
    """Report which configuration file is read, or why it cannot be."""
    path, said = config_path(options)
    try:
        config = config_of(options)
    except UsageError as error:
        return fail("configuration.file", str(error), "correct it; `rsmq-tui profiles example` prints a complete one")
    if config is None:
        return ok("configuration.file", f"no configuration file ({path} would be read)")
    names = ", ".join(config.profiles) or "none"
    return ok("configuration.file", f"{path}{', as was asked for' if said else ''}; profiles: {names}")


def profile_results(options: Options, profile: Profile) -> Iterator[CheckResult]:
    """Report the settings for a server, and where each comes from."""
    file = "the configuration file"
    address = profile.address
    password = "with a password" if address.has_password or address.password is not None else "without a password"
    user = "" if address.user is None else f" for user {address.user}"
    yield ok("configuration.server", f"{address.label}, {password}{user}: {_server_origin(options, profile)}")
    config = config_of(options)
    names_ns = config is not None and profile.name in config.naming_ns
    if options.ns is not None:
        origin = "option --ns"
    elif names_ns:
        origin = file
    elif os.environ.get("RSMQ_NS") is not None:
        origin = "environment RSMQ_NS"
    else:
        origin = _DEFAULT
    label = "namespace" if len(profile.namespaces) == 1 else "namespaces"
    yield ok("configuration.namespace", f"{label} {', '.join(profile.namespaces)}: {origin}")
    changes = "read-only" if profile.read_only else "changes are allowed"
    yield ok("configuration.read_only", f"{changes}: {_guard(options, profile)}")
    interval = f"polls every {profile.interval_s:g} s"
    if options.interval is not None:
        yield ok("configuration.interval", f"{interval}: option --interval")
    else:
        yield ok("configuration.interval", f"{interval}: {_DEFAULT if profile.interval_s == 1.0 else file}")
    if changed := profile.thresholds.changed():
        yield ok("configuration.thresholds", f"its own thresholds, {changed}: {file}")


def _server_origin(options: Options, profile: Profile) -> str:
    if profile.name:
        asked = "option --profile" if options.profile else "the configuration file's default"
        return f"profile {profile.name}, {asked}"
    if options.redis_url:
        return "option -r/--redis-url"
    return "environment REDIS_URL" if os.environ.get("REDIS_URL") else _DEFAULT


def _guard(options: Options, profile: Profile) -> str:
    if not profile.read_only:
        return _DEFAULT
    if not options.read_only:
        return "the configuration file"
    return f"environment {READ_ONLY_VARIABLE}" if is_set(READ_ONLY_VARIABLE) else "option --read-only"


_SCHEMA = 1
_EXIT_FAILED = 1
_LIBRARIES = ("textual", "redis", "hiredis", "plotext")
_EVERY_S = 0.2

Section = tuple[str, Sequence[CheckResult]]


@click.command(
    cls=Command,
    notes="It checks the configuration, connection, server, permissions, speed, namespaces, lists, terminal and "
    "folders. It changes nothing and prints no password.",
    examples=(
        "",
        "-r redis://host:6379/0 --ns jobs",
        "--lists 'queue:*'",
        "--json",
    ),
    statuses={
        0: "the dashboard will work (there may be warnings)",
        1: "it will not work",
        130: "interrupted",
    },
)
@option("--timeout T", "time limit for each step of the connection: 0.5, 1m", at_least(0.1), default="5")
@option("--json", "print the findings as one line of JSON")
@with_read_only
def command(options: Options) -> int:
    """Print what is found; the exit status is 0 when the dashboard will work and 1 when it will not."""
    return run_interruptibly(lambda _: _diagnose(options))


async def _diagnose(options: Options) -> int:
    sections: list[Section] = []
    file = file_result(options)
    configuration = [file]
    places: list[KindPlace] = []
    if file.level is CheckLevel.OK:
        try:
            profiles = profiles_of(options)
        except UsageError as error:
            configuration.append(fail("configuration.server", str(error), "see `rsmq-tui --help` for how to give one"))
        else:
            places = [place for profile in profiles for place in places_of(profile)]
            configuration += [found for profile in profiles for found in profile_results(options, profile)]
    sections.append(("configuration", configuration))
    _print_section(options, sections[-1])
    async for section in _servers(places, options.timeout):
        sections.append(section)
        _print_section(options, section)
    for section in (
        ("terminal", list(terminal_results(_terminal()))),
        ("program", [*_versions(), *folder_results(state_folder(), config_folder())]),
    ):
        sections.append(section)
        _print_section(options, section)
    works = all(found.level is not CheckLevel.FAIL for _, results in sections for found in results)
    if options.json:
        print_json({"schema": _SCHEMA, "works": works, "findings": [
            {"section": title, "name": found.name, "level": found.level, "text": found.text, "hint": found.hint}
            for title, results in sections
            for found in results
        ]})  # fmt: skip
    else:
        print_words(_verdict(sections))
    return 0 if works else _EXIT_FAILED


async def _servers(places: Sequence[KindPlace], timeout_s: float) -> AsyncIterator[Section]:
    """Yield a section for each server; all are checked at the same time."""
    tasks = [asyncio.create_task(_results(place, timeout_s)) for place in places]
    line = ProgressLine()
    try:
        for place, task in zip(places, tasks, strict=True):
            while not (await asyncio.wait((task,), timeout=_EVERY_S))[0]:
                line.show(f"checking {place.server} …")
            line.clear()
            name = place.profile.name
            yield f"{f'{name}: ' if name else ''}{place.server}, {place.title}", task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _results(place: KindPlace, timeout_s: float) -> list[CheckResult]:
    return [result async for result in place.diagnose(timeout_s)]


def _terminal() -> Terminal:
    size = shutil.get_terminal_size()
    has_both = is_terminal(sys.stdin) and sys.stdout.isatty()
    return Terminal(has_both, size.columns, size.lines, sys.stdout.encoding or "", dict(os.environ))


def _versions() -> list[CheckResult]:
    versions = [f"rsmq-tui {__version__}", f"Python {platform.python_version()}"]
    for name in _LIBRARIES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            hint = "reinstall rsmq-tui: pip install --force-reinstall rsmq-tui"
            return [fail("program.versions", f"{name} is not installed", hint)]
    return [ok("program.versions", ", ".join(versions))]


def _print_section(options: Options, section: Section) -> None:
    if options.json:
        return
    title, results = section
    print_words(title)
    for result in results:
        print_words(f"  {result.level.value:<4}  {result.text}")
        if result.hint:
            print_words(f"        -> {result.hint}")
    sys.stdout.flush()


def _verdict(sections: Sequence[Section]) -> str:
    levels = [result.level for _, results in sections for result in results]
    warned, failed = levels.count(CheckLevel.WARN), levels.count(CheckLevel.FAIL)
    if failed:
        return f"The dashboard will not work: {plural(failed, 'failure')}, {plural(warned, 'warning')}."
    return f"The dashboard will work, with {plural(warned, 'warning')}." if warned else "The dashboard will work."
