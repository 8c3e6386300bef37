"""`rsmq-tui doctor`: everything that the dashboard needs, looked at, with what to do about it."""

import argparse
import asyncio
import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import PackageNotFoundError, version

from rsmq_tui import __version__
from rsmq_tui.cli.doctor_configuration import file_finding, profile_findings
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.output import ProgressLine, print_json, print_words
from rsmq_tui.cli.target import profiles_of
from rsmq_tui.folders import config_folder, state_folder
from rsmq_tui.monitor.diagnoses import Finding, Level, fail, ok
from rsmq_tui.monitor.diagnosing import diagnose
from rsmq_tui.monitor.list_diagnosing import diagnose_lists
from rsmq_tui.monitor.surroundings import Terminal, folder_findings, terminal_findings
from rsmq_tui.monitor.wording import plural
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.protocol.lists.reader import ListReader

_SCHEMA = 1
_EXIT_FAILED = 1
_LIBRARIES = ("textual", "redis", "hiredis", "plotext")
_EVERY_S = 0.2

Section = tuple[str, Sequence[Finding]]


def run(options: argparse.Namespace) -> int:
    """Print what is found; the exit status is 0 when the dashboard will work and 1 when it will not."""
    return run_interruptibly(lambda _: _look(options))


async def _look(options: argparse.Namespace) -> int:
    sections: list[Section] = []
    file = file_finding(options)
    configuration = [file]
    targets: list[tuple[Profile, str]] = []
    if file.level is Level.OK:
        try:
            profiles = profiles_of(options)
        except UsageError as error:
            configuration.append(fail("configuration.server", str(error), "see `rsmq-tui --help` for how to give one"))
        else:
            targets = [
                (profile, ns)
                for profile in profiles
                for ns in (*profile.namespaces, *([LISTS_NS] if profile.lists else []))
            ]
            configuration += [found for profile in profiles for found in profile_findings(options, profile)]
    sections.append(("configuration", configuration))
    _print_section(options, sections[-1])
    async for section in _servers(targets, options.timeout):
        sections.append(section)
        _print_section(options, section)
    for section in (
        ("terminal", list(terminal_findings(_terminal()))),
        ("program", [*_versions(), *folder_findings(state_folder(), config_folder())]),
    ):
        sections.append(section)
        _print_section(options, section)
    works = all(found.level is not Level.FAIL for _, findings in sections for found in findings)
    if options.json:
        print_json({"schema": _SCHEMA, "works": works, "findings": [
            {"section": title, "name": found.name, "level": found.level, "text": found.text, "hint": found.hint}
            for title, findings in sections
            for found in findings
        ]})  # fmt: skip
    else:
        print_words(_verdict(sections))
    return 0 if works else _EXIT_FAILED


async def _servers(targets: Sequence[tuple[Profile, str]], timeout_s: float) -> AsyncIterator[Section]:
    """Yield a section for each server, all being asked at once."""
    tasks = [asyncio.create_task(_server(profile, ns, timeout_s)) for profile, ns in targets]
    line = ProgressLine()
    try:
        for (profile, ns), task in zip(targets, tasks, strict=True):
            while not (await asyncio.wait((task,), timeout=_EVERY_S))[0]:
                line.show(f"checking {profile.address.label} …")
            line.clear()
            where = f"lists {', '.join(profile.lists)}" if _is_of_lists(profile, ns) else f"namespace {ns}"
            yield f"{f'{profile.name}: ' if profile.name else ''}{profile.address.label}, {where}", task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_of_lists(profile: Profile, ns: str) -> bool:
    return ns == LISTS_NS and bool(profile.lists)


async def _server(profile: Profile, ns: str, timeout_s: float) -> list[Finding]:
    if _is_of_lists(profile, ns):
        return await _lists(profile, timeout_s)
    found = diagnose(
        profile.address, ns, read_only=profile.read_only, interval_s=profile.interval_s, timeout_s=timeout_s
    )
    return [finding async for finding in found]


async def _lists(profile: Profile, timeout_s: float) -> list[Finding]:
    reader = ListReader(profile.address, profile.list_names, profile.lists, timeout_s=timeout_s)
    try:
        found = diagnose_lists(reader, profile.lists, interval_s=profile.interval_s)
        return [finding async for finding in found]
    finally:
        await reader.aclose()


def _terminal() -> Terminal:
    size = shutil.get_terminal_size()
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return Terminal(is_terminal, size.columns, size.lines, sys.stdout.encoding or "", dict(os.environ))


def _versions() -> list[Finding]:
    told = [f"rsmq-tui {__version__}", f"Python {platform.python_version()}"]
    for name in _LIBRARIES:
        try:
            told.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            hint = "reinstall rsmq-tui: pip install --force-reinstall rsmq-tui"
            return [fail("program.versions", f"{name} is not installed", hint)]
    return [ok("program.versions", ", ".join(told))]


def _print_section(options: argparse.Namespace, section: Section) -> None:
    if options.json:
        return
    title, findings = section
    print_words(title)
    for finding in findings:
        print_words(f"  {finding.level.value:<4}  {finding.text}")
        if finding.hint:
            print_words(f"        -> {finding.hint}")
    sys.stdout.flush()


def _verdict(sections: Sequence[Section]) -> str:
    levels = [finding.level for _, findings in sections for finding in findings]
    warned, failed = levels.count(Level.WARN), levels.count(Level.FAIL)
    if failed:
        return f"The dashboard will not work: {plural(failed, 'failure')}, {plural(warned, 'warning')}."
    return f"The dashboard will work, with {plural(warned, 'warning')}." if warned else "The dashboard will work."
