"""`rsmq-tui serve`: the dashboard in a browser."""

import asyncio
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from rsmq_tui.cli.errors import EXIT_INTERRUPTED, UsageError, cannot_listen, refusing
from rsmq_tui.cli.interrupts import Interrupts, call_at_end, run_interruptibly
from rsmq_tui.cli.options import HUB_VARIABLE, analysis, interval, no_memory, theme, with_read_only, zone
from rsmq_tui.cli.output import say
from rsmq_tui.cli.parsing import Command, Options, at_least, option, options_of, whole
from rsmq_tui.cli.places import named_places
from rsmq_tui.cli.program import load
from rsmq_tui.cli.servers import config_of, profiles_of
from rsmq_tui.files import state_folder
from rsmq_tui.monitor import Source
from rsmq_tui.monitor.text import printable
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import ExplainedError

if TYPE_CHECKING:
    from rsmq_tui.web.access import Access

_HOST, _PORT = "127.0.0.1", "8765"
SECRET_VARIABLE = "RSMQ_TUI_SECRET"
_SECRET_BYTES = 24
_SECRET_SHORTEST = 16
_PREFIX = re.compile(r"(?:/[\w.~-]+)+")
_MODULES = {"demo": "demo", "replay": "recorded.replay", "history": "recorded.history"}
_NOTES = """\
WHAT is demo, replay DIR or history OUT, with the options of these commands; without it, the dashboard of the given
servers. A page starts a process of its own, which ends with the page. All pages get their polls from one poller, which
continues while no page is open. By default, only this machine can connect, and pages are read-only. Browsers on other
machines need --host, and a secret or a user with a password: from [web] of the configuration file, or --secret. This
server does not encrypt: put a server with TLS in front of it. `rsmq-tui help web` shows how."""


def _prefix(text: str) -> str:
    path = f"/{text.strip('/')}"
    if path == "/":
        return ""
    if not _PREFIX.fullmatch(path) or ".." in path.split("/"):
        raise ValueError(f"{text!r} is not a path such as /dash")
    return path


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=(
        "",
        "--secret --host 0.0.0.0",
        "--port 9000 --prefix /dash",
        "demo",
        "replay history",
        "history analysis",
    ),
    statuses={
        0: "ended by SIGTERM",
        2: "a usage error, or it cannot listen on the address",
        130: "ended by Ctrl+C",
    },
    context_settings={"allow_interspersed_args": False},
)
@click.argument("what", metavar="[WHAT]", nargs=-1)
@option("--host ADDRESS", "address to listen on", default=_HOST)
@option("--port N", "port to listen on; 0: any free port", whole(0, 65_535, "port"), default=_PORT)
@option("--prefix PATH", "serve below this path, for a proxy: /dash", _prefix, default="/")
@option(
    "--secret", f"generate a secret, and print the address with it (env {SECRET_VARIABLE} sets one)", name="new_secret"
)
@option("--allow-changes", "let pages change queues, unless the profile is read_only")
@option("--sessions N", "pages that may be open at once", whole(1, 1_000), default="10")
@option("--idle T", "end a page after this time without input", at_least(1), default="30m")
@with_read_only
@theme
@zone
@interval
@no_memory
@analysis
def command(options: Options) -> int:
    """Serve until SIGTERM or Ctrl+C, and return the exit status; raises ``UsageError``."""
    if sys.platform == "win32":
        raise UsageError("serve needs Linux or macOS")
    if any(find_spec(name) is None for name in ("aiohttp", "textual_serve")):
        raise UsageError("serve needs the packages of the extra `web`: pip install 'rsmq-tui[web]'")
    # An option of the dashboard in a terminal, which is given before the command.
    if getattr(options, "record", None):
        raise UsageError("serve takes no --record; `rsmq-tui record` records beside it")
    access = _access(options)
    with _content(options) as content:
        return run_interruptibly(partial(_serve, options, access, content), runs_for_days=True)


@dataclass(frozen=True, slots=True)
class _Content:
    """What pages show: the arguments of their program, those that follow the link, and what is polled for them."""

    before: Sequence[str]
    behind: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Callable[[], Source]] = field(default_factory=dict)

    def arguments(self, link: str) -> list[str]:
        """Return the arguments of the page for a link."""
        return [*self.before, *([f"--open={link}"] if link else []), *self.behind]


async def _serve(options: Options, access: "Access", content: _Content, interrupts: Interrupts) -> int:
    # Its packages are installed only for `serve`.
    from rsmq_tui.web.hub import Hub  # noqa: PLC0415
    from rsmq_tui.web.server import Served, WebServer  # noqa: PLC0415

    stop = asyncio.Event()
    call_at_end(stop.set)
    interrupts.gently = stop.set
    with tempfile.TemporaryDirectory(prefix="rsmq-tui-") as folder:
        hub = Hub(Path(folder, "hub"), content.sources)
        environment = {**content.environment, HUB_VARIABLE: str(hub.path) if content.sources else ""}
        served = Served(
            content.arguments, environment, access, options.prefix, sessions_max=options.sessions, idle_s=options.idle
        )
        server = WebServer(served, _print_failure)
        try:
            try:
                await hub.start()
            except OSError as error:
                hint = "TMPDIR can name another folder, with a shorter path"
                raise UsageError(f"cannot create the socket {hub.path}: {error.strerror or error}; {hint}") from error
            try:
                port = await server.start(options.host, options.port)
            except (OSError, UnicodeError) as error:
                raise cannot_listen(options.host, options.port, error) from error
            _print_address(options, access, port)
            await stop.wait()
        finally:
            await server.aclose()
            await hub.aclose()
    return EXIT_INTERRUPTED if interrupts.taken else 0


def _print_failure(errors: str) -> None:
    for line in errors.splitlines():
        say(f"page: {printable(line)}")


def _print_address(options: Options, access: "Access", port: int) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{host}:{port}{options.prefix}/"
    if options.new_secret:
        address += f"?secret={quote(access.secret or '', safe='')}"
    who = "anybody on this machine can open it" if access.is_open else "a page needs the secret or the password"
    changes = "queues can be changed" if options.allow_changes and not options.read_only else "read-only"
    say(f"serving ({changes}; {who}): {address}")


def _access(options: Options) -> "Access":
    """Return who may open pages; raises ``UsageError`` if other machines could connect without a secret or password."""
    from rsmq_tui.web.access import Access, is_this_machine  # noqa: PLC0415 - only who serves has its packages

    config = config_of(options)
    # Pages do not need it.
    secret, user, password = os.environ.pop(SECRET_VARIABLE, "") or None, "", None
    if config is not None:
        with refusing(ExplainedError):
            user = config.web.user
            password = None if config.web.password is None else config.web.password()
            if secret is None and config.web.secret is not None:
                secret = config.web.secret()
    if options.new_secret:
        secret = secrets.token_urlsafe(_SECRET_BYTES)
    if secret is not None and len(secret) < _SECRET_SHORTEST:
        raise UsageError(f"the secret is too short: it needs {_SECRET_SHORTEST} characters or more")
    access = Access(secret, user, password)
    if access.is_open and not is_this_machine(options.host):
        raise UsageError(
            f"--host {options.host} lets others connect: give --secret, or a secret or a user and password in [web] of "
            "the configuration file; and since this server does not encrypt, let nginx or Caddy serve https and pass "
            "requests on to it on 127.0.0.1: `rsmq-tui help web` shows how"
        )
    return access


@contextmanager
def _content(options: Options) -> Iterator[_Content]:
    """Yield what pages show, while everything that they need is running; raises ``UsageError``."""
    what: Sequence[str] = options.what
    if not what:
        profiles = profiles_of(options)
        memory = None if options.no_memory else state_folder() / "memory"
        url = options.redis_url
        yield _Content(
            # A URL may contain a password, which arguments would show to all users of this machine.
            (*_arguments(options), *(word for name in options.profile for word in ("--profile", name))),
            environment={} if url is None else {"REDIS_URL": url},
            sources=_sources(profiles, memory),
        )
        return
    inner = _inner(what)
    _module(what[0]).refuse(inner)
    if what[0] != "demo":
        yield _Content(_arguments(options), what)
        return
    from rsmq_tui.cli.commands import demo  # noqa: PLC0415 - only the demo needs its server

    for name in ("headless", "tour", "plain", "lists_scenarios"):
        if getattr(inner, name):
            said = "list" if name == "lists_scenarios" else name
            raise UsageError(f"the pages of serve demo share one demo, which takes no --{said}: see rsmq-tui demo")
    with demo.running(inner) as (address, folder, _):
        joined = ("--joined", address.url, "--folder", str(folder))
        sources = _sources((demo.profile_of(address, inner),), None, folder)
        yield _Content(_arguments(options), (*what, *joined), sources=sources)


def _inner(what: Sequence[str]) -> Options:
    """Return the options of the command that pages run; raises ``UsageError`` and those of click."""
    name, *words = what
    if name not in _MODULES:
        raise UsageError(f"serve shows the dashboard, or one of {', '.join(_MODULES)}, and not {printable(name)}")
    serve = click.get_current_context()
    if any(word in serve.help_option_names for word in words):
        # Their usage begins with the program: serve has arguments, which click would show before them.
        root = serve.find_root()
        assert isinstance(root.command, click.Group)
        if (command := root.command.get_command(root, name)) is not None:
            command.make_context(name, ["--help"], parent=root)
    try:
        ctx = _module(name).command.make_context(name, words, parent=serve)
    except click.NoSuchOption as error:
        if any(error.option_name in each.opts for each in serve.command.params):
            raise UsageError(f"{error.option_name} is an option of serve: write it before {name}") from None
        raise
    return options_of(ctx)


def _module(name: str) -> Any:
    """Return the module of a command that can be served: with ``command``, and ``refuse`` for what cannot be shown."""
    return load(f"rsmq_tui.cli.commands.{_MODULES[name]}")


def _arguments(options: Options) -> list[str]:
    """Return the options of the dashboard for a page."""
    given = {
        "--config": options.config,
        "--ns": options.ns,
        "--theme": options.theme,
        "--tz": options.tz,
        "--analysis": options.analysis,
        "--interval": options.interval,
    }
    words = ["--no-alerts", *(f"{name}={value}" for name, value in given.items() if value is not None)]
    words += [f"--lists={pattern}" for pattern in options.lists]
    # Alerts and memory are those of the server, not of each page.
    flags = {"--read-only": options.read_only or not options.allow_changes, "--no-memory": options.no_memory}
    return [*words, *(name for name, is_given in flags.items() if is_given)]


def _sources(
    profiles: Sequence[Profile], memory: Path | None, folder: Path | None = None
) -> dict[str, Callable[[], Source]]:
    """Return what makes the source of each place; ``folder`` is for the journal of a demo."""
    return {
        name: partial(place.watcher, name, memory if place.profile.memory else None, folder)
        for name, place in named_places(profiles)
    }
