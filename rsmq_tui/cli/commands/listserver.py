"""`rsmq-tui listserver`: a server for list queues, in memory, for tests and demonstrations."""

import signal
from pathlib import Path

import click

from rsmq_tui.cli.errors import UsageError, cannot_listen, cannot_listen_at
from rsmq_tui.cli.interrupts import call_at, run_interruptibly
from rsmq_tui.cli.output import say
from rsmq_tui.cli.parsing import Command, OneOf, Options, option, whole
from rsmq_tui.listserver import ListServer
from rsmq_tui.monitor.text import printable

_HOST = "127.0.0.1"
_NOTES = """\
It keeps everything in memory, and loses it when it stops. `rsmq-tui help listserver` describes what it supports, and
how tests control its clock and inject faults."""
_PASSWORD = OneOf()


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=("", "--port 0", "--unixsocket lists.sock", "--host 0.0.0.0 --password-file secret.txt"),
    statuses={0: "ended by SIGTERM or SHUTDOWN", 2: "a usage error, or it cannot listen", 130: "ended by Ctrl+C"},
)
@option("--port N", "port to listen on; 0: any free port", whole(0, 65_535, "port"), default="6390")
@option("--host ADDRESS", "address to listen on; any but a loopback address requires a password", default=_HOST)
@option("--unixsocket PATH", "listen on this Unix socket instead of a port")
@option("--password TEXT", "require this password; other users of this machine can see it here", one_of=_PASSWORD)
@option("--password-file FILE", "require the password in the first line of this file", one_of=_PASSWORD)
def command(options: Options) -> int:
    """Serve until SIGTERM, SHUTDOWN or Ctrl+C; raises ``UsageError`` if it cannot listen."""
    password = options.password or _password_of(options.password_file)
    try:
        server = ListServer(
            host=options.host,
            port=None if options.unixsocket else options.port,
            path=options.unixsocket or "",
            password=password,
        )
    except ValueError as error:
        raise UsageError(f"{printable(str(error))}, with --password-file or --password") from error
    return run_interruptibly(lambda _: _serve(server, options))


async def _serve(server: ListServer, options: Options) -> int:
    call_at(signal.SIGTERM, server.stop)
    try:
        await server.run(lambda: say(_listening(server, options)))
    except (OSError, UnicodeError) as error:
        if options.unixsocket and isinstance(error, OSError):
            raise cannot_listen_at(options.unixsocket, error) from error
        raise cannot_listen(options.host, options.port, error) from error
    return 0


def _listening(server: ListServer, options: Options) -> str:
    only_here = " on this machine only" if options.host == _HOST and not options.unixsocket else ""
    return f"listening{only_here}, in memory only: {printable(server.url)}"


def _password_of(file: str | None) -> str:
    if file is None:
        return ""
    try:
        first = Path(file).read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"the password cannot be read from {printable(file)}: {error}") from error
    if not first:
        raise UsageError(f"{printable(file)} has no password in its first line")
    return first
