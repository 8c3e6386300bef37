"""The entry point of `rsmq-tui`: its parser, the choice of the command, and exit statuses."""

import argparse
import errno
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from rsmq_tui import __version__
from rsmq_tui.cli.arguments.changes import add_audit, add_commands
from rsmq_tui.cli.arguments.history import add_history, add_pipeline, add_record, add_replay, add_report
from rsmq_tui.cli.arguments.tools import add_check, add_completion, add_doctor, add_exporter, add_help, add_profiles
from rsmq_tui.cli.errors import UsageError, report_defect
from rsmq_tui.cli.parsing import DEFAULT_URL, EXIT_STATUSES, CommandParser, HelpfulParser, at_least

EXIT_UNREACHABLE = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
_DESCRIPTION = "A live terminal dashboard for message queues on Redis, Valkey and compatible servers."


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    server = argparse.ArgumentParser(add_help=False)
    server.add_argument(
        "-r",
        "--redis-url",
        metavar="URL",
        default=argparse.SUPPRESS,
        help=(
            "redis://, rediss:// or unix:// URL, with user and password if needed (env REDIS_URL; default: "
            f"the configuration's default profile, or {DEFAULT_URL})"
        ),
    )
    server.add_argument(
        "--profile",
        metavar="NAME",
        action="append",
        default=argparse.SUPPRESS,
        help=(
            "a server from the configuration file, instead of -r and REDIS_URL; separate several with commas "
            "(see: rsmq-tui profiles)"
        ),
    )
    server.add_argument(
        "--config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="configuration file (env RSMQ_TUI_CONFIG, default config.toml in your configuration folder)",
    )
    namespace = argparse.ArgumentParser(add_help=False)
    namespace.add_argument(
        "--ns",
        default=argparse.SUPPRESS,
        help="namespace, the prefix of all keys, instead of the profile's (env RSMQ_NS, default rsmq)",
    )
    lists = argparse.ArgumentParser(add_help=False)
    lists.add_argument(
        "--lists",
        metavar="PATTERN",
        action="append",
        default=argparse.SUPPRESS,
        help=(
            "Redis Lists to show as queues, instead of the profile's: a key, or a pattern such as 'queue:*'; "
            "may be repeated"
        ),
    )
    guard = argparse.ArgumentParser(add_help=False)
    guard.add_argument(
        "--read-only",
        action="store_true",
        default=argparse.SUPPRESS,
        help="refuse every change (env RSMQ_TUI_READ_ONLY=1)",
    )
    look = argparse.ArgumentParser(add_help=False)
    look.add_argument(
        "--theme", default=argparse.SUPPRESS, help="rsmq-dark, rsmq-light, rsmq-ansi, or the name of your own theme"
    )
    look.add_argument("--ascii", action="store_true", default=argparse.SUPPRESS, help="draw with ASCII characters only")
    screen = argparse.ArgumentParser(add_help=False, parents=[look])
    screen.add_argument(
        "--interval",
        type=at_least(0.1),
        metavar="T",
        default=argparse.SUPPRESS,
        help="time between polls, instead of the profile's: 0.5, 500ms, 1m (default 1 s)",
    )
    screen.add_argument(
        "--record",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="also record every poll into a folder of Parquet files, as `rsmq-tui record` does",
    )
    screen.add_argument(
        "--analysis",
        metavar="OUT",
        default=argparse.SUPPRESS,
        help="the tables that `rsmq-tui pipeline` wrote; the key H shows them (env RSMQ_TUI_ANALYSIS)",
    )
    top = HelpfulParser(
        prog="rsmq-tui",
        description=_DESCRIPTION,
        epilog=EXIT_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[server, namespace, lists, guard, screen],
    )
    top.add_argument("--version", action="version", version=f"rsmq-tui {__version__}")
    commands: Any = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    demo = commands.add_parser(
        "demo",
        parents=[namespace, guard, screen],
        help="start a private server with sample queues in various states, and watch it",
    )
    # Taken so that the refusal says why, and does not repeat a URL that may hold a password.
    demo.add_argument("-r", "--redis-url", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    demo.add_argument("--headless", action="store_true", help="only run the workload, and print the server's URL")
    demo.add_argument(
        "--seconds", type=at_least(0.1), metavar="N", help="with --headless: end after this time: 30, 10m"
    )
    commands.add_parser("snapshot", parents=[server, namespace, lists], help="print the state of all queues as JSON")
    add_commands(commands, [server, namespace, lists, guard])
    add_profiles(commands, [server])
    add_exporter(commands, [server, namespace, lists])
    add_record(commands, [server, namespace, lists])
    add_replay(commands, [])
    add_pipeline(commands)
    add_history(commands, [look])
    add_report(commands)
    add_check(commands, [server, namespace, lists])
    add_doctor(commands, [server, namespace, lists, guard])
    add_completion(commands)
    add_help(commands)
    add_audit(commands, [server, namespace, lists, guard])
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 2 for a usage error or a server that cannot be reached.

    70 is a defect of this program. Commands that change something have more of them: see their help.
    """
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _main(arguments: Sequence[str] | None) -> int:
    top = parser()
    options = top.parse_args(arguments)
    if options.command == "demo" and options.seconds is not None and not options.headless:
        top.error("--seconds goes with --headless; q ends the dashboard")
    if options.command == "demo" and hasattr(options, "redis_url"):
        top.error("demo starts its own server and takes no -r; `rsmq-tui -r URL` watches yours")
    if options.command == "demo" and hasattr(options, "profile"):
        top.error("demo starts its own server and takes no --profile; `rsmq-tui --profile NAME` watches yours")
    if options.command == "demo" and hasattr(options, "lists"):
        top.error("demo has its own list queues and takes no --lists; `rsmq-tui --lists PATTERN` watches yours")
    for name in ("redis_url", "profile", "config", "ns", "lists", "interval"):
        setattr(options, name, getattr(options, name, None))
    options.read_only = getattr(options, "read_only", _is_set(os.environ.get("RSMQ_TUI_READ_ONLY", "")))
    options.theme = getattr(options, "theme", None)
    options.record = getattr(options, "record", None)
    options.analysis = getattr(options, "analysis", None)
    options.ascii = getattr(options, "ascii", not _speaks_unicode())
    # Each command is imported when it is chosen: what the others need must not delay its first paint.
    try:
        status = int(_command(options.command or "dashboard")(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would still try to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    except UsageError as error:
        print(f"rsmq-tui: {error}", file=sys.stderr)
        return EXIT_UNREACHABLE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        # What was printed could not be written; Python would try once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"rsmq-tui: the output cannot be written: {error.strerror}", file=sys.stderr)
        return EXIT_UNREACHABLE
    except Exception as error:  # the last place to say it in: Python would print what the error quotes
        return report_defect("rsmq-tui", error)


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    # Nothing that imports make is garbage: looking for it in between costs a seventh of the start-up.
    gc.disable()
    try:
        folder = "cli" if name in ("dashboard", "demo", "help", "pipeline") else "cli.commands"
        run: Callable[[argparse.Namespace], int] = import_module(f"rsmq_tui.{folder}.{name}").run
    finally:
        gc.freeze()
        gc.enable()
    return run


def _is_set(text: str) -> bool:
    return text.strip().lower() not in ("", "0", "no", "false", "off")


def _speaks_unicode() -> bool:
    return "utf" in (sys.stdout.encoding or "").lower() and os.environ.get("TERM") != "linux"


if __name__ == "__main__":
    sys.exit(main())
