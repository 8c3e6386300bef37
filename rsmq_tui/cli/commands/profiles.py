"""`rsmq-tui profiles`: the profiles of the configuration file, and an example of such a file."""

from collections.abc import Iterable
from dataclasses import asdict

import click

from rsmq_tui.cli.options import json_option, server
from rsmq_tui.cli.output import TextColumn, TextTable, fields_json, say, wants_json
from rsmq_tui.cli.parsing import Command, Options
from rsmq_tui.cli.servers import config_of, config_path
from rsmq_tui.profiles import Profile
from rsmq_tui.profiles.config import example

_WIDTH_MAX = 44


_EXAMPLES = """\
rsmq-tui profiles
rsmq-tui profiles --json | jq -r .name
mkdir -p ~/.config/rsmq-tui && rsmq-tui profiles example > ~/.config/rsmq-tui/config.toml
rsmq-tui --profile production,staging"""


@click.command(
    cls=Command,
    notes="`list`, the default, prints the profiles; `example` prints a configuration file to start from.",
    sections={"Examples": _EXAMPLES},
    statuses={0: "done", 2: "a usage error, or the configuration file cannot be used"},
)
@click.argument("action", type=click.Choice(("list", "example")), default="list")
@json_option
@server
def command(options: Options) -> int:
    """List the profiles, or print the example; raises ``UsageError`` for a file that cannot be used."""
    if options.action == "example":
        print(example(), end="")
        return 0
    path, _ = config_path(options)
    config = config_of(options)
    profiles = () if config is None else tuple(config.profiles.values())
    default = None if config is None else config.default
    if wants_json(options):
        for profile in profiles:
            _print_json(profile, is_default=profile.name == default)
    elif profiles:
        _print(profiles, default)
        say(f"defined in {path}")
    if not profiles:
        say(f"no profiles: name them in {path}; `rsmq-tui profiles example` prints an example to start from")
    return 0


def _print_json(profile: Profile, *, is_default: bool) -> None:
    fields_json(
        name=profile.name,
        server=profile.address.label,
        namespaces=profile.namespaces,
        lists=profile.lists,
        read_only=profile.read_only,
        colour=profile.colour,
        interval_s=profile.interval_s,
        thresholds=asdict(profile.thresholds),
        default=is_default,
    )


def _print(profiles: tuple[Profile, ...], default: str | None) -> None:
    names = {profile.name: profile.name + (" (default)" if profile.name == default else "") for profile in profiles}
    servers = [profile.address.label for profile in profiles]
    namespaces = [", ".join(profile.namespaces) for profile in profiles]
    table = TextTable(
        TextColumn("PROFILE", _width("PROFILE", names.values())),
        TextColumn("CHANGES", 9),
        TextColumn("COLOUR", 7),
        TextColumn("SERVER", _width("SERVER", servers)),
        TextColumn("NAMESPACES", _width("NAMESPACES", namespaces)),
        TextColumn("LISTS", 0),
    )
    for profile, of_profile in zip(profiles, namespaces, strict=True):
        table.print(
            names[profile.name],
            "read-only" if profile.read_only else "yes",
            profile.colour or "",
            profile.address.label,
            of_profile,
            ", ".join(profile.lists),
        )


def _width(title: str, texts: Iterable[str]) -> int:
    return min(_WIDTH_MAX, max(len(title), *map(len, texts)))
