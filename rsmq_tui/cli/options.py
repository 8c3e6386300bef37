"""Options that several commands have, as decorators."""

import os
import sys
from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import TYPE_CHECKING

import click

from rsmq_tui.cli.parsing import DEFAULT_URL, OneOf, Options, at_least, is_set, option, options_of, several

if TYPE_CHECKING:
    from rsmq_tui.tui.links import Link

ANALYSIS_VARIABLE = "RSMQ_TUI_ANALYSIS"
NO_ALERTS_VARIABLE = "RSMQ_TUI_NO_ALERTS"
READ_ONLY_VARIABLE = "RSMQ_TUI_READ_ONLY"
# The socket from which a page of `rsmq-tui serve` gets its snapshots.
HUB_VARIABLE = "RSMQ_TUI_HUB"


def _completing(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        # Imported only for completion.
        from rsmq_tui.cli.commands.completion import names  # noqa: PLC0415

        options: Options = options_of(ctx)
        return names(kind, options, incomplete)

    return complete


complete_queues = _completing("queues")
_complete_profiles = _completing("profiles")

redis_url = option(
    "-r --redis-url URL",
    "redis://, rediss:// or unix:// URL, with user and password if needed (env REDIS_URL; default: the "
    f"configuration's default profile, or {DEFAULT_URL})",
)
profile = option(
    "--profile NAME",
    "a server from the configuration file, instead of -r and REDIS_URL (see: rsmq-tui profiles); several, "
    "separated by commas, if the command accepts them",
    multiple=True,
    shell_complete=_complete_profiles,
)
config = option(
    "--config FILE",
    "configuration file (env RSMQ_TUI_CONFIG, default config.toml in your configuration folder)",
    click.Path(),
)
namespace = option(
    "--ns NS", "namespace, the prefix of all keys, instead of the configuration's (default: env RSMQ_NS, or rsmq)"
)
lists = option(
    "--lists PATTERN",
    "Redis Lists to show as queues, instead of the profile's: a key, or a pattern such as 'queue:*'; may be repeated",
    multiple=True,
)
read_only = option(
    "--read-only", f"refuse every change (env {READ_ONLY_VARIABLE}=1)", default=lambda: is_set(READ_ONLY_VARIABLE)
)


def _zone(name: str) -> tzinfo:
    # Imported only here, because few users give a zone.
    from rsmq_tui.profiles.values import zone_of  # noqa: PLC0415

    try:
        return zone_of(name)
    except ValueError:
        raise ValueError(f"{name!r} is not a time zone that is known here, such as Europe/Berlin") from None


def zone_for(options: Options, zones: Iterable[str | None]) -> tzinfo | None:
    """Return the time zone of ``--tz``, else the only one of ``zones``; None for that of the system."""
    names = set(zones)
    name = names.pop() if len(names) == 1 else None
    return options.tz or (None if name is None else _zone(name))


def _link(text: str) -> "Link":
    from rsmq_tui.tui.links import read_link  # noqa: PLC0415 - few give one

    return read_link(text)


link = option(
    "--open LINK",
    "what to show first, as `Y` copies it: 'queue/orders?filter=rc>=5', at/TIME in a replay",
    _link,
    "link",
)
theme = option(
    "--theme THEME",
    "colours: one of `rsmq-tui themes` (default: the last choice, at first rsmq-dark)",
    shell_complete=_completing("themes"),
)
zone = option(
    "--tz ZONE", "your time zone, such as Europe/Berlin (default: the profile's zone, else that of TZ)", _zone
)
interval = option(
    "--interval T", "time between polls, instead of the profile's: 0.5, 500ms, 1m (default 1 s)", at_least(0.1)
)
no_memory = option("--no-memory", "neither read nor keep charts, verdicts and choices between starts")
analysis = option(
    "--analysis OUT",
    f"the tables that `rsmq-tui pipeline` wrote, for the key H and for what is usual now (env {ANALYSIS_VARIABLE})",
)
appearance = several(
    theme,
    option(
        "--ascii",
        "draw lines and signs with ASCII characters only",
        default=lambda: "utf" not in (sys.stdout.encoding or "").lower() or os.environ.get("TERM") == "linux",
    ),
    zone,
)
screen = several(
    appearance,
    option("--plain", "print the overview as lines, and a line for each change, as for screen readers; no screen"),
    interval,
    option("--record DIR", "also record every poll into a folder of Parquet files, as `rsmq-tui record` does"),
    no_memory,
    analysis,
    link,
)
# The options of commands that read one server or several, and of those that may also change it.
server = several(redis_url, profile, config)
reading = several(server, namespace, lists)
with_read_only = several(reading, read_only)

json_option = option("--json", "print JSON lines (the default when the output is not a terminal)")
wide = option("--wide", "print all columns in full, in lines wider than the terminal")
queue_argument = click.argument("queue", metavar="QUEUE", shell_complete=complete_queues)
_HOW = OneOf()
# The options of every change.
changing = several(
    option("--yes", "apply the change; without it, the change is only previewed", one_of=_HOW),
    option("--dry-run", "only preview the change (the default)", one_of=_HOW),
    json_option,
)
unsettled = option(
    "--unsettled",
    "also undo what may be the work of other clients: the change was interrupted, and its outcome is unknown",
)
