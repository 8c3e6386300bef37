"""Where each setting of a command came from: an option, the environment, the configuration file or nowhere."""

import argparse
import os
from collections.abc import Iterator

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.target import config_of, config_path
from rsmq_tui.monitor.diagnoses import Finding, fail, ok
from rsmq_tui.profiles import Profile

_DEFAULT = "the default"


def file_finding(options: argparse.Namespace) -> Finding:
    """Say which configuration file is read, or why it cannot be."""
    path, said = config_path(options)
    try:
        config = config_of(options)
    except UsageError as error:
        return fail("configuration.file", str(error), "correct it; `rsmq-tui profiles example` prints a complete one")
    if config is None:
        return ok("configuration.file", f"no configuration file ({path} would be read)")
    names = ", ".join(config.profiles) or "none"
    return ok("configuration.file", f"{path}{', as was asked for' if said else ''}; profiles: {names}")


def profile_findings(options: argparse.Namespace, profile: Profile) -> Iterator[Finding]:
    """Say how a server is going to be watched, and who said so."""
    file = "the configuration file"
    address = profile.address
    password = "with a password" if address.has_password or address.password is not None else "without a password"
    user = "" if address.user is None else f" for user {address.user}"
    yield ok("configuration.server", f"{address.label}, {password}{user}: {_server_origin(options, profile)}")
    config = config_of(options)
    names_ns = config is not None and profile.name in config.naming_ns
    if getattr(options, "ns", None) is not None:
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
    if getattr(options, "interval", None) is not None:
        yield ok("configuration.interval", f"{interval}: option --interval")
    else:
        yield ok("configuration.interval", f"{interval}: {_DEFAULT if profile.interval_s == 1.0 else file}")
    if changed := profile.thresholds.changed():
        yield ok("configuration.thresholds", f"its own thresholds, {changed}: {file}")


def _server_origin(options: argparse.Namespace, profile: Profile) -> str:
    if profile.name:
        asked = "option --profile" if getattr(options, "profile", None) else "the configuration file's default"
        return f"profile {profile.name}, {asked}"
    if getattr(options, "redis_url", None):
        return "option -r/--redis-url"
    return "environment REDIS_URL" if os.environ.get("REDIS_URL") else _DEFAULT


def _guard(options: argparse.Namespace, profile: Profile) -> str:
    if not profile.read_only:
        return _DEFAULT
    if not getattr(options, "read_only", False):
        return "the configuration file"
    asked = os.environ.get("RSMQ_TUI_READ_ONLY", "").strip().lower() not in ("", "0", "no", "false", "off")
    return "environment RSMQ_TUI_READ_ONLY" if asked else "option --read-only"
