"""Finds the servers that a command reads, from arguments, environment and profiles."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.cli.errors import UsageError, refusing
from rsmq_tui.cli.parsing import DEFAULT_URL, Options
from rsmq_tui.files import config_folder, expanded
from rsmq_tui.monitor.text import printable
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import Address, RsmqReader

if TYPE_CHECKING:
    from rsmq_tui.monitor.incidents import Expected
    from rsmq_tui.profiles.config import Config


def profiles_of(options: Options) -> tuple[Profile, ...]:
    """Return the requested servers, at least one; raises ``UsageError`` for an invalid one."""
    wanted = _names(options)
    url = options.redis_url
    if url == "":
        # An unset shell variable results in this; the default server is probably not the intended one.
        raise UsageError("-r is empty: give a URL such as redis://host:6379/0")
    if wanted and url:
        raise UsageError("-r and --profile both name a server: give only one of them")
    config = config_of(options)
    url = url or os.environ.get("REDIS_URL")
    if not wanted and not url and config is not None and config.default is not None:
        wanted = (config.default,)
    if not wanted:
        return (_unnamed(url or DEFAULT_URL, config, options),)
    known = {} if config is None else config.profiles
    for name in wanted:
        if name not in known:
            raise UsageError(_unknown(name, tuple(known), options))
    naming_ns = frozenset() if config is None else config.naming_ns
    return tuple(_as_asked(known[name], options, names_ns=name in naming_ns) for name in wanted)


def profile_of(options: Options) -> Profile:
    """Return the server of a command that works on one only; raises ``UsageError``."""
    found = profiles_of(options)
    if len(found) > 1:
        names = ", ".join(profile.name for profile in found)
        raise UsageError(f"this works on one server at a time: name one of the profiles {names}")
    return found[0]


def reader_of(profile: Profile, ns: str | None = None) -> RsmqReader:
    """Return a reader of that server, in its first namespace if none is named."""
    with refusing(ValueError):
        return RsmqReader(profile.address, profile.ns if ns is None else ns)


def config_path(options: Options) -> tuple[Path, bool]:
    """Return the path of the configuration file, and whether it was given: then the file must exist."""
    said = options.config or os.environ.get("RSMQ_TUI_CONFIG")
    if not said:
        return config_folder() / "config.toml", False
    try:
        return expanded(said), True
    except ValueError as error:
        raise UsageError(printable(f"the path of the configuration file {error}")) from None


def _is_missing(path: Path) -> bool:
    """Return whether there is no such file; if that cannot be told, reading it reports why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        # Such as a folder of another user.
        return False
    return False


def config_of(options: Options) -> "Config | None":
    """Read the configuration file, if there is one; raises ``UsageError``."""
    path, said = config_path(options)
    if not said and _is_missing(path):
        return None
    # Importing its parser delays the first paint by some ms, so only if there is a file.
    from rsmq_tui.profiles.config import read_config  # noqa: PLC0415
    from rsmq_tui.profiles.values import ConfigError  # noqa: PLC0415

    with refusing(ConfigError):
        return read_config(path)


def expected_of(options: Options) -> "dict[str, Expected]":
    """Return the expected trouble, which is no incident, by profile name; raises ``UsageError``."""
    config = config_of(options)
    return {} if config is None else config.expected


def keys_of(options: Options) -> Mapping[str, Sequence[str]]:
    """Return the keys of the dashboard that the user chose, by the names of commands; raises ``UsageError``."""
    config = config_of(options)
    return {} if config is None else config.keys


def zones_of(options: Options) -> dict[str, str]:
    """Return the time zones of the profiles that have one, by profile name; raises ``UsageError``."""
    config = config_of(options)
    profiles = [] if config is None else [config.watched, *config.profiles.values()]
    return {profile.name: profile.zone for profile in profiles if profile.zone is not None}


def _names(options: Options) -> tuple[str, ...]:
    given = [name.strip() for text in options.profile for name in text.split(",")]
    if given and not all(given):
        raise UsageError("--profile takes profile names separated by commas")
    return tuple(dict.fromkeys(given))


def _unnamed(url: str, config: "Config | None", options: Options) -> Profile:
    with refusing(ValueError):
        address = Address(url)
    watched = Profile("", address) if config is None else replace(config.watched, address=address)
    return _as_asked(watched, options, names_ns=config is not None and "" in config.naming_ns)


def _as_asked(profile: Profile, options: Options, *, names_ns: bool) -> Profile:
    """Return the profile with the changes of the options."""
    ns = options.ns
    if ns is None and not names_ns:
        ns = os.environ.get("RSMQ_NS")
    lists = _patterns(options.lists) if options.lists else profile.lists
    try:
        names = profile.list_names.for_patterns(lists) if lists else profile.list_names
    except ValueError as error:
        raise UsageError(
            f"lists_processing and lists_leases of {profile.name or 'the configuration'}: {error}"
        ) from error
    return replace(
        profile,
        namespaces=profile.namespaces if ns is None else (ns,),
        read_only=profile.read_only or options.read_only,
        interval_s=profile.interval_s if options.interval is None else options.interval,
        lists=lists,
        list_names=names,
    )


def _patterns(given: Sequence[str]) -> tuple[str, ...]:
    if not all(pattern and "\0" not in pattern for pattern in given):
        raise UsageError("--lists takes a key, or a pattern of keys such as 'queue:*'")
    return tuple(dict.fromkeys(given))


def _unknown(name: str, known: tuple[str, ...], options: Options) -> str:
    from rsmq_tui.profiles.values import meant  # noqa: PLC0415

    missing = f"there is no profile {printable(name)}"
    if not known:
        return f"{missing}: {config_path(options)[0]} defines none; `rsmq-tui profiles example` prints an example"
    return f"{missing}: known profiles: {', '.join(known)}{meant(name, known)}"
