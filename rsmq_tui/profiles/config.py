"""The configuration file: read whole, checked whole, and turned into profiles."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rsmq_tui.monitor.wording import printable
from rsmq_tui.profiles import values
from rsmq_tui.profiles.addresses import DEFAULTS_KEYS, address_keys, address_of, passwords_of
from rsmq_tui.profiles.lines import lines_of
from rsmq_tui.profiles.profile import Profile
from rsmq_tui.profiles.table import ConfigError, Mistakes, Value, read_table
from rsmq_tui.profiles.values import Read
from rsmq_tui.protocol import Address, slot_of
from rsmq_tui.protocol.lists.naming import ListNames

_NAME = re.compile(r"[\w.-]{1,40}")
_OTHERS_MAY = 0o077
_SYNTAX = re.compile(r"(.*?) \(at (?:line ([0-9]+), column [0-9]+|end of document)\)", re.DOTALL)
_UNNAMED = Profile("", Address("redis://"))
_CLUSTER_NS = "{rsmq}"
_WHY_TAG = "otherwise its keys are on several nodes"
_THRESHOLDS: dict[str, tuple[str, Read]] = {
    "stalled": ("stalled_ms", values.span_ms),
    "growing": ("growing_ms", values.span_ms),
    "growing_messages": ("growing_messages", values.count),
    "growing_share": ("growing_share", values.share),
    "aged": ("aged_ms", values.span_ms),
    "poison_rc": ("poison_rc", values.count),
    "clear": ("clear_ms", values.span_ms),
    "leaking": ("leaking_ms", values.span_ms),
}
_WATCHING: dict[str, Read] = {
    "namespace": values.namespace,
    "namespaces": values.namespaces,
    "read_only": values.flag,
    "colour": values.colour,
    "color": values.colour,
    "interval": values.interval_s,
    "thresholds": values.anything,
    "lists": values.lists,
    "lists_processing": values.list_template("processing"),
    "lists_leases": values.list_template("leases"),
    "lists_take": values.one_of("right", "left"),
    "lists_age": values.list_age,
}
# The keys that name the keys of lists, as ``ListNames`` calls them.
_LIST_NAMES = {"lists_processing": "processing", "lists_leases": "leases", "lists_take": "take_from"}


@dataclass(frozen=True, slots=True)
class Config:
    """What a configuration file says: ``profiles`` by name, the name of the default one.

    ``watched`` is how a server is watched that is no profile: as the defaults say. ``naming_ns`` holds the names of the
    profiles, "" for that one, for which a namespace was named.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    default: str | None = None
    watched: Profile = _UNNAMED
    naming_ns: frozenset[str] = frozenset()


def read_config(path: Path) -> Config:
    """Read a configuration file; raises ``ConfigError`` with the line of what is wrong."""
    try:
        with path.open("rb") as file:
            others_may = os.name == "posix" and bool(os.fstat(file.fileno()).st_mode & _OTHERS_MAY)
            text = file.read().decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error
    try:
        content = tomllib.loads(text)
        lines = lines_of(text)
    except tomllib.TOMLDecodeError as error:
        told = _SYNTAX.fullmatch(str(error))
        line = told[2] if told and told[2] else max(1, len(text.splitlines()))
        raise ConfigError(f"{path}:{line}: {printable(told[1] if told else 'this is not TOML')}") from error
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply to be read") from None
    mistakes = Mistakes(path, lines)
    config = _read(content, path.parent, mistakes)
    if others_may:
        _refuse_passwords(content, mistakes)
    mistakes.tell()
    return config


def _read(content: dict[str, Any], folder: Path, mistakes: Mistakes) -> Config:
    top = read_table(
        content, (), {"default": values.text, "defaults": values.anything, "profiles": values.anything}, mistakes
    )
    keys = address_keys(folder) | _WATCHING
    allowed = {key: keys[key] for key in (*DEFAULTS_KEYS, *_WATCHING)}
    defaults = read_table(content.get("defaults", {}), ("defaults",), allowed, mistakes)
    tables = content.get("profiles", {})
    if not isinstance(tables, dict):
        mistakes.add(("profiles",), "profiles must be tables, one for each server: [profiles.NAME]")
        tables = {}
    watched = _watched(_UNNAMED, defaults, mistakes)
    profiles = {}
    naming_ns = {"", *tables} if _names_ns(defaults) else set()
    for name, table in tables.items():
        place = ("profiles", name)
        if not _NAME.fullmatch(name):
            mistakes.add(
                place, f"{name!r} is not a valid profile name: use at most 40 letters, digits, '.', '_' and '-'"
            )
        own = read_table(table, place, keys, mistakes)
        address = address_of(own, defaults, place, mistakes)
        profiles[name] = _watched(replace(watched, name=name, address=address), own, mistakes)
        naming_ns |= {name} if _names_ns(own) else set()
    default = top["default"].value if "default" in top else None
    if default is not None and default not in tables:
        mistakes.add(("default",), f"default is not the name of a profile: {default}{values.meant(default, tables)}")
    return Config(profiles, default, watched, frozenset(naming_ns))


def _names_ns(table: Mapping[str, Value]) -> bool:
    return "namespace" in table or "namespaces" in table


def _watched(profile: Profile, given: Mapping[str, Value], mistakes: Mistakes) -> Profile:
    """Return the profile with what is said of how it is watched."""
    if "namespace" in given and "namespaces" in given:
        mistakes.add(
            given["namespace"].place, "namespace and namespaces cannot be combined: put all of them into namespaces"
        )
    if "colour" in given and "color" in given:
        mistakes.add(given["color"].place, "color and colour are the same key: give one of them")
    namespaces = given.get("namespaces") or given.get("namespace")
    changes = {
        "namespaces": namespaces,
        "read_only": given.get("read_only"),
        "colour": given.get("colour") or given.get("color"),
        "interval_s": given.get("interval"),
        "lists": given.get("lists"),
        "list_age": given.get("lists_age"),
    }
    profile = replace(profile, **{name: value.value for name, value in changes.items() if value is not None})
    profile = replace(profile, list_names=_list_names(profile.list_names, profile.lists, given, mistakes))
    if "thresholds" in given:
        raw = given["thresholds"]
        readers = {key: read for key, (_, read) in _THRESHOLDS.items()}
        read = read_table(raw.value, raw.place, readers, mistakes)
        named = {_THRESHOLDS[key][0]: value.value for key, value in read.items()}
        profile = replace(profile, thresholds=replace(profile.thresholds, **named))
    if profile.address.cluster:
        if namespaces is None and profile.namespaces == _UNNAMED.namespaces:
            profile = replace(profile, namespaces=(_CLUSTER_NS,))
        for ns in profile.namespaces:
            if slot_of(ns) is None:
                place = ("profiles", profile.name) if namespaces is None else namespaces.place
                mistakes.add(place, f"namespace {ns} needs a hash tag on a cluster, such as {_CLUSTER_NS}: {_WHY_TAG}")
    return profile


def _list_names(names: ListNames, patterns: Sequence[str], given: Mapping[str, Value], mistakes: Mistakes) -> ListNames:
    """Return how the keys of lists are named; each is right by itself, but two may be the same."""
    said = {field: given[key].value for key, field in _LIST_NAMES.items() if key in given}
    try:
        named = replace(names, **said)
        # Without a pattern of its own, --lists or another profile names one.
        return named.for_patterns(patterns) if patterns else named
    except ValueError as error:
        place = next(given[key].place for key in (*_LIST_NAMES, "lists") if key in given)
        mistakes.add(place, f"{place[-1]} is not valid: {str(error)[0].lower()}{str(error)[1:]}")
        return names


def _refuse_passwords(content: dict[str, Any], mistakes: Mistakes) -> None:
    """Note the passwords of a file that others may read."""
    profiles = content.get("profiles")
    tables = {("profiles", name): table for name, table in profiles.items()} if isinstance(profiles, dict) else {}
    for place, table in ({("defaults",): content.get("defaults")} | tables).items():
        for key in passwords_of(table) if isinstance(table, dict) else ():
            path = mistakes.path
            mistakes.add(
                (*place, key),
                f"other users can read this file, and {key} contains a password: run `chmod 600 {path}`, "
                "or better, use password_env, password_file or password_command",
            )
